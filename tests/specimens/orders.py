"""Specimens of shuffle, and of the operators that make one stream of several or several of one."""

from __future__ import annotations

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.iter.grouping.shuffle import DefaultSize
from datapipes.map import SequenceWrapper
from tests.specimens.elements import ELEMENTS, add_ten, as_pair, is_even, is_something, up_to
from tests.specimens.specimen import Countable, Specimen, Tap, numbers, paths, shuffled, unseekable

ALL = DefaultSize(3)
"""A buffer that the user has not asked for, of as few elements that a specimen has more."""
ACROSS_BLOCKS = 4115  # more draws than are made at a time


def remainder(x: int) -> int:
    return x % 3


def one_or_none(x: int) -> int | None:
    return [0, None, 1][x % 3]


def letters(text: str) -> Pipe:
    return IterableWrapper(text)


def pinned(tap: Tap) -> Pipe:
    return tap(numbers(7)).shuffle(buffer_size=3).set_seed(5).batch(2)


def switched_off(tap: Tap) -> Pipe:
    return tap(numbers(7)).shuffle().set_shuffle(False).batch(2)


def with_itself(tap: Tap) -> Pipe:
    source = tap(numbers(6)).filter(is_something).batch(2)
    return source.zip(source)


def shuffled_with_itself(tap: Tap) -> Pipe:
    source = tap(numbers(6)).shuffle(buffer_size=3)
    return source.zip(source)


def concat_itself(tap: Tap) -> Pipe:
    source = tap(numbers(4)).shuffle()
    return source.concat(source)


def fork_with_itself(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return a.zip(a).mux(b.batch(2))


def fork_with_itself_in_cycles(tap: Tap) -> Pipe:
    a, b = tap(numbers(4)).fork(2)
    return a.zip(b.zip(b)).cycle(2)


def fork_and_fork_again(tap: Tap) -> Pipe:
    joined = fork_in_step(tap)
    return joined.zip(joined.enumerate())


def demux_with_itself(tap: Tap) -> Pipe:
    a, b, _ = tap(numbers(9)).demux(3, remainder)
    return b.zip(b, a)


def fork_in_step(tap: Tap) -> Pipe:
    a, b = tap(numbers(5)).fork(2)
    return a.zip(b.map(add_ten))


def fork_one_after_another(tap: Tap) -> Pipe:
    a, b = tap(unseekable(5)).fork(2)
    return a.concat(b.map(add_ten))


def fork_unevenly(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return a.batch(3).mux(b)


def fork_one_prefetched(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return a.prefetch(2).zip(b)


def fork_both_prefetched(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).map(add_ten).fork(2)
    return a.prefetch(2).mux(b.prefetch(3))


def fork_below_prefetch(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).prefetch(2).fork(2)
    return a.concat(b)


def fork_one_shuffled(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return a.shuffle(buffer_size=4).mux(b)


def fork_copies(tap: Tap) -> Pipe:
    a, b = tap(IterableWrapper([[1], [2], [3]])).fork(2, copy="deep")
    return a.concat(b)


def fork_of_fork(tap: Tap) -> Pipe:
    a, b = tap(numbers(4)).fork(2)
    c, d = b.batch(2).fork(2)
    return a.concat(c.unbatch(), d.unbatch())


def fork_one_unread(tap: Tap) -> Pipe:
    _, b, _ = tap(numbers(4)).fork(3, buffer_size=1)
    return b.shuffle(buffer_size=2)


def fork_within_cycle(tap: Tap) -> Pipe:
    a, b = tap(numbers(4)).shuffle().fork(2)
    return a.concat(b).cycle(2)


def fork_into_flatmap(tap: Tap) -> Pipe:
    a, b = tap(numbers(4)).fork(2)
    return a.flatmap(up_to).mux(b.unbatch(0), letters("abcdefgh"))


def demux_in_turn(tap: Tap) -> Pipe:
    a, b, c = tap(numbers(9)).demux(3, tap.function(remainder))
    return a.mux(b, c)


def demux_one_after_another(tap: Tap) -> Pipe:
    a, b, c = tap(unseekable(8)).demux(3, remainder)
    return c.concat(a, b)


def demux_dropping(tap: Tap) -> Pipe:
    a, b = tap(numbers(9)).demux(2, one_or_none, drop_none=True)
    return b.batch(2).concat(a)


def demux_one_unread(tap: Tap) -> Pipe:
    return tap(numbers(8)).demux(3, remainder)[1].repeat(2)


def demux_shuffled(tap: Tap) -> Pipe:
    a, b, c = tap(numbers(9)).shuffle(buffer_size=5).demux(3, remainder)
    return a.prefetch(1).concat(b, c)


def unzip_columns(tap: Tap) -> Pipe:
    a, b = tap(numbers(5)).map(as_pair).unzip(2)
    return b.concat(a)


def unzip_some(tap: Tap) -> Pipe:
    a, c = tap(IterableWrapper([(1, 2, 3), (4, 5, 6), (7, None, 9)])).unzip(3, columns_to_skip=[1])
    return a.batch(2).mux(c)


def zip_one_prefetched(tap: Tap) -> Pipe:
    return tap(numbers(7)).shuffle(buffer_size=4).prefetch(2).zip(numbers(7).batch(2).unbatch())


def mux_of_shuffled(tap: Tap) -> Pipe:
    source = tap(numbers(5)).map(add_ten)
    return source.shuffle(buffer_size=ALL).mux(source.shuffle(buffer_size=ALL))


def fork_all_shuffled(tap: Tap) -> Pipe:
    a, b = tap(numbers(7)).shuffle(buffer_size=ALL).fork(2)
    return a.batch(2).mux(b.shuffle(buffer_size=ALL))


def in_a_sequence(length: int) -> Pipe:
    return SequenceWrapper(range(length)).to_iter_datapipe()


SHUFFLED = (
    [
        shuffled("iter.shuffle", title, build)
        for title, build in [
            ("all at once", lambda tap: tap(numbers(8)).shuffle()),
            ("a small buffer", lambda tap: tap(numbers(9)).shuffle(buffer_size=3)),
            ("what cannot be sought", lambda tap: tap(unseekable(9)).shuffle(buffer_size=4)),
            ("what a filter passes", lambda tap: tap(numbers(14)).filter(is_even).shuffle(buffer_size=3)),
            ("None", lambda tap: tap(IterableWrapper(ELEMENTS)).shuffle(buffer_size=3)),
            ("maps", lambda tap: tap(numbers(8)).map(tap.function(add_ten)).shuffle(buffer_size=3).map(add_ten)),
            ("enumerated elements", lambda tap: tap(numbers(8)).enumerate().shuffle(buffer_size=3)),
            ("a header", lambda tap: tap(numbers(20)).header(8).shuffle(buffer_size=3)),
            ("batches", lambda tap: tap(numbers(15)).batch(2).shuffle(buffer_size=3)),
            ("elements of batches", lambda tap: tap(numbers(9)).batch(2).shuffle(buffer_size=4, unbatch_level=1)),
            ("prefetched elements", lambda tap: tap(numbers(8)).prefetch(2).shuffle(buffer_size=3)),
            ("shuffled elements", lambda tap: tap(numbers(8)).shuffle(buffer_size=3).shuffle(buffer_size=3)),
            ("concatenated streams", lambda tap: tap(numbers(5)).concat(letters("abc")).shuffle(buffer_size=3)),
            ("rows of zip", lambda tap: tap(numbers(7)).zip(tap.partner(letters("abcdefg"))).shuffle(buffer_size=3)),
            ("below sharding", lambda tap: tap(numbers(8)).sharding_filter().shuffle(buffer_size=3)),
            (
                "rows of csv",
                lambda tap: paths("a.csv", "b.csv", "c.csv").open_files().parse_csv().shuffle(buffer_size=4),
            ),
            (
                "open files",
                lambda tap: paths("a.csv", "b.csv", "c.csv", "latin.txt").open_files("rb").shuffle().readlines(),
            ),
            ("two in a row, in batches", lambda tap: tap(unseekable(9)).shuffle().batch(2).shuffle(buffer_size=3)),
        ]
    ]
    + [
        # An element that cannot be made keeps its position, as among the rows of a map-style pipe.
        shuffled("iter.shuffle", title, build, after_fault="otherwise")
        for title, build in [
            ("all by position", lambda tap: tap(numbers(11)).shuffle(buffer_size=ALL)),
            (
                "all of what is one to one",
                lambda tap: tap(numbers(8)).map(tap.function(add_ten)).enumerate().shuffle(buffer_size=ALL).batch(2),
            ),
            (
                "all of what is prefetched",
                lambda tap: tap(numbers(8)).map(add_ten).prefetch(2).shuffle(buffer_size=ALL),
            ),
            ("all of some", lambda tap: tap(numbers(12)).skip(2).header(8).shuffle(buffer_size=ALL)),
            (
                "all of what is copied",
                lambda tap: tap(IterableWrapper([[i] for i in range(7)])).shuffle(buffer_size=ALL),
            ),
            (
                "all, in shards and in a buffer",
                lambda tap: tap(numbers(9)).shuffle(buffer_size=ALL).sharding_filter().map(str).shuffle(buffer_size=2),
            ),
            ("all in each lap", lambda tap: tap(numbers(4)).shuffle(buffer_size=ALL).cycle(2)),
            ("all of a few laps", lambda tap: tap(numbers(4)).cycle(2).shuffle(buffer_size=ALL)),
            ("all of each child's", mux_of_shuffled),
            ("all, in a fork", fork_all_shuffled),
            ("all, of a map-style pipe", lambda tap: in_a_sequence(9).shuffle(buffer_size=ALL).batch(2)),
            ("what has no end in itself", lambda tap: numbers(4).cycle().shuffle(buffer_size=ALL).header(9)),
        ]
    ]
    + [
        Specimen("iter.shuffle", "switched off", switched_off),
        Specimen("iter.shuffle", "a pinned seed", pinned, random="pinned"),
        Specimen("iter.shuffle", "a buffer of one", lambda tap: tap(numbers(5)).shuffle(buffer_size=1)),
        Specimen("iter.shuffle", "empty", lambda tap: tap(numbers(0)).shuffle()),
        shuffled(
            "iter.shuffle",
            "across blocks of draws",
            lambda tap: tap(numbers(ACROSS_BLOCKS)).shuffle(buffer_size=10),
            stops=(0, 4085, 4086, 4087, 4096, 4097, 4110, 4115),
        ),
        shuffled(
            "iter.shuffle",
            "across blocks of draws, not sought",
            lambda tap: tap(unseekable(ACROSS_BLOCKS)).shuffle(buffer_size=10),
            stops=(1, 4085, 4086, 4087, 4097, 4110),
        ),
    ]
)

COMBINED = [
    Specimen("iter.concat", "three, one empty", lambda tap: tap(numbers(3)).concat(letters(""), letters("ab"))),
    shuffled(
        "iter.concat",
        "shuffled ones",
        lambda tap: tap(numbers(4)).shuffle().concat(numbers(4).shuffle()),
    ),
    shuffled("iter.concat", "a stream and itself", concat_itself),
    Specimen("iter.concat", "half-read batches", lambda tap: tap(unseekable(5)).batch(2).concat(numbers(3).batch(2))),
    Specimen("iter.zip", "unequal lengths", lambda tap: tap(numbers(5)).zip(tap.partner(letters("abcdefg")))),
    Specimen(
        "iter.zip", "three", lambda tap: tap(numbers(4)).zip(tap.partner(unseekable(4)), tap.partner(letters("abcd")))
    ),
    Specimen("iter.zip", "a stream with itself", with_itself),
    shuffled("iter.zip", "a shuffled stream with itself", shuffled_with_itself),
    shuffled("iter.zip", "one prefetched", zip_one_prefetched, after_fault="otherwise"),
    Specimen("iter.zip", "one empty", lambda tap: tap(numbers(3)).zip(letters(""))),
    Specimen("iter.zip", "alone", lambda tap: tap(numbers(3)).zip()),
    Specimen(
        "iter.zip_longest", "unequal lengths", lambda tap: tap(numbers(3)).zip_longest(tap.partner(letters("abcde")))
    ),
    Specimen(
        "iter.zip_longest",
        "filled",
        lambda tap: tap(numbers(4)).zip_longest(tap.partner(unseekable(2)).map(add_ten), fill_value=-1),
    ),
    shuffled(
        "iter.zip_longest",
        "one shuffled",
        lambda tap: tap(numbers(5)).shuffle().zip_longest(letters("ab")),
        after_fault="otherwise",
    ),
    Specimen("iter.mux", "unequal lengths", lambda tap: tap(numbers(5)).mux(letters("abcdefg"))),
    shuffled("iter.mux", "three, one shuffled", lambda tap: tap(numbers(5)).mux(unseekable(5), numbers(5).shuffle())),
    Specimen("iter.mux", "of None", lambda tap: tap(numbers(3)).mux(IterableWrapper(Countable(None, 1, None)))),
    Specimen("iter.fork", "in step", fork_in_step),
    Specimen("iter.fork", "a child with itself", fork_with_itself),
    # Each of two copies of such a cycle must have its own fork, or it cannot go back.
    Specimen("iter.fork", "a child with itself, in cycles", fork_with_itself_in_cycles, after_fault="otherwise"),
    Specimen("iter.fork", "all of it with itself", fork_and_fork_again, after_fault="otherwise"),
    Specimen("iter.fork", "one after another", fork_one_after_another),
    Specimen("iter.fork", "unevenly", fork_unevenly),
    Specimen("iter.fork", "one prefetched", fork_one_prefetched),
    Specimen("iter.fork", "both prefetched", fork_both_prefetched),
    Specimen("iter.fork", "below a prefetch", fork_below_prefetch),
    shuffled("iter.fork", "one shuffled", fork_one_shuffled),
    Specimen("iter.fork", "deep copies", fork_copies),
    Specimen("iter.fork", "of a fork", fork_of_fork),
    shuffled("iter.fork", "one read of three", fork_one_unread),
    shuffled("iter.fork", "within a cycle", fork_within_cycle),
    Specimen("iter.fork", "into a flatmap", fork_into_flatmap),
    Specimen("iter.demux", "in turn", demux_in_turn),
    Specimen("iter.demux", "a child with itself", demux_with_itself, after_fault="otherwise"),
    Specimen("iter.demux", "one after another", demux_one_after_another),
    Specimen("iter.demux", "some dropped", demux_dropping),
    Specimen("iter.demux", "one read of three", demux_one_unread),
    shuffled("iter.demux", "shuffled, one prefetched", demux_shuffled),
    Specimen("iter.unzip", "one after another", unzip_columns),
    Specimen("iter.unzip", "a column skipped", unzip_some),
]
