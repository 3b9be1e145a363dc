"""Specimens of the operators that work on the elements of one stream, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from datapipes.graph import Pipe, apply_sharding
from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from reading_services import InProcessReadingService
from tests.specimens.specimen import Countable, Specimen, Tap, numbers, shuffled, unseekable

MANY = 70  # more stages than one compiled loop holds


def add_ten(x: int) -> int:
    return x + 10


def is_even(x: int) -> bool:
    return x % 2 == 0


def itself(x: object) -> object:
    return x


def is_negative(x: int) -> bool:
    return x < 0


def is_something(x: object) -> bool:
    return x is not None


def twice(x: int) -> list[int]:
    return [x, x]


def up_to(x: int) -> Iterator[int]:
    """x elements: none of 0, one of 1."""
    for i in range(x):
        yield 10 * x + i


def shuffled_up_to(x: int) -> Pipe:
    """A pipe of three elements for each in x."""
    return IterableWrapper(range(10 * x, 13 * x)).shuffle()


def as_pair(x: int) -> tuple[int, str]:
    return x, str(x)


def summed(batch: list[int]) -> torch.Tensor:
    return torch.tensor(batch).sum()


def many_maps(tap: Tap) -> Pipe:
    dp = tap(numbers(4))
    for _ in range(MANY):
        dp = dp.map(add_ten)
    return dp


def sharded(tap: Tap) -> Pipe:
    return apply_sharding(tap(numbers(10)).sharding_filter().batch(2), 3, 1)


def sharded_by_counting(tap: Tap) -> Pipe:
    return apply_sharding(tap(unseekable(10)).filter(is_something).sharding_filter().batch(2), 3, 1)


def sharded_below_shuffle(tap: Tap) -> Pipe:
    return apply_sharding(tap(numbers(12)).filter(is_something).shuffle(buffer_size=4).sharding_filter(), 2, 1)


def sharded_above_functions(tap: Tap) -> Pipe:
    shuffle = tap(numbers(12)).map(tap.function(add_ten)).shuffle(buffer_size=4)
    return apply_sharding(shuffle.prefetch(2).map(add_ten).sharding_filter().batch(2), 3, 1)


def sharded_rows(tap: Tap) -> Pipe:
    rows = tap(numbers(9)).map(tap.function(add_ten)).zip(tap.partner(numbers(9)).enumerate()).header(8)
    return apply_sharding(rows.sharding_filter(), 3, 1)


def sharded_collection(tap: Tap) -> Pipe:
    return apply_sharding(SequenceWrapper(range(9)).map(add_ten).shuffle().map(add_ten).sharding_filter(), 2, 1)


def skipped_rows(tap: Tap) -> Pipe:
    return tap(numbers(9)).map(tap.function(add_ten)).enumerate().skip(2).skip(2).map(itself)


def skipped_functions(tap: Tap) -> Pipe:
    return tap(unseekable(9)).map(tap.function(add_ten)).prefetch(2).skip(3)


def skipped_collection(tap: Tap) -> Pipe:
    return SequenceWrapper(range(9)).map(tap.function(add_ten)).shuffle().map(add_ten).skip(3)


def taken_rows(tap: Tap) -> Pipe:
    rows = SequenceWrapper(torch.arange(18).view(9, 2)).shuffle()
    return rows.take(7).batch(2).collate()


ELEMENTS: list[Any] = [None, 0, "", None, (), [1, [2]], {"a": None}, None]


ELEMENTWISE = [
    Specimen("iter.IterableWrapper", "a range", lambda tap: tap(numbers(5))),
    Specimen(
        "iter.IterableWrapper", "a list of mutable elements", lambda tap: tap(IterableWrapper([[1], [2], {3: 4}]))
    ),
    Specimen("iter.IterableWrapper", "None among the elements", lambda tap: tap(IterableWrapper(ELEMENTS))),
    Specimen("iter.IterableWrapper", "not copied", lambda tap: tap(IterableWrapper([[1], [2]], deepcopy=False))),
    Specimen("iter.IterableWrapper", "no sequence", lambda tap: tap(unseekable(5))),
    shuffled("iter.IterableWrapper", "a shuffled pipe", lambda tap: IterableWrapper(numbers(7).shuffle()).batch(2)),
    Specimen("iter.IterableWrapper", "a string", lambda tap: tap(IterableWrapper("abc"))),
    Specimen("iter.IterableWrapper", "a dict", lambda tap: tap(IterableWrapper({"a": 1, "b": 2}))),
    Specimen("iter.IterableWrapper", "empty", lambda tap: tap(IterableWrapper([]))),
    Specimen("iter.map", "a function", lambda tap: tap(numbers(6)).map(tap.function(add_ten))),
    Specimen(
        "iter.map", "of a column", lambda tap: tap(numbers(5)).map(as_pair).map(add_ten, input_col=0, output_col=-1)
    ),
    Specimen("iter.map", "more than one loop holds", many_maps),
    Specimen("iter.map", "to None", lambda tap: tap(numbers(3)).map(tap.function([None, 1, None].__getitem__))),
    Specimen("iter.map", "a lambda", lambda tap: tap(numbers(4)).map(lambda x: -x), by="cloudpickle"),
    Specimen("iter.map", "empty", lambda tap: tap(numbers(0)).map(add_ten)),
    Specimen("iter.filter", "every other", lambda tap: tap(numbers(7)).filter(tap.function(is_even))),
    Specimen("iter.filter", "between maps", lambda tap: tap(numbers(8)).map(add_ten).filter(is_even).map(add_ten)),
    Specimen("iter.filter", "of a column", lambda tap: tap(numbers(5)).map(as_pair).filter(is_even, input_col=0)),
    Specimen("iter.filter", "nothing passes", lambda tap: tap(numbers(5)).filter(is_negative)),
    shuffled("iter.flatmap", "shuffled pipes", lambda tap: numbers(4).flatmap(shuffled_up_to)),
    Specimen("iter.flatmap", "lists", lambda tap: tap(numbers(4)).flatmap(tap.function(twice))),
    Specimen("iter.flatmap", "generators, some empty", lambda tap: tap(numbers(4)).flatmap(tap.generator(up_to))),
    Specimen("iter.flatmap", "strings", lambda tap: tap(IterableWrapper(["ab", "", "c"])).flatmap()),
    Specimen("iter.flatmap", "ranges, nested", lambda tap: tap(numbers(4)).flatmap(range).flatmap(up_to)),
    shuffled(
        "iter.flatmap",
        "above and below a shuffle",
        lambda tap: tap(numbers(4)).flatmap(up_to).shuffle(buffer_size=3).flatmap(twice),
    ),
    Specimen("iter.batch", "a shorter last one", lambda tap: tap(numbers(7)).batch(3)),
    Specimen("iter.batch", "the last one dropped", lambda tap: tap(numbers(8)).batch(3, drop_last=True)),
    Specimen("iter.batch", "as tuples", lambda tap: tap(numbers(5)).batch(2, wrapper_class=tuple)),
    Specimen("iter.batch", "of batches", lambda tap: tap(numbers(9)).batch(2).batch(2)),
    Specimen("iter.batch", "of what a filter passes", lambda tap: tap(unseekable(9)).filter(is_even).batch(2)),
    Specimen("iter.batch", "of None", lambda tap: tap(IterableWrapper(ELEMENTS)).batch(3)),
    Specimen("iter.batch", "of prefetched elements", lambda tap: tap(numbers(7)).prefetch(3).batch(2)),
    Specimen("iter.batch", "empty", lambda tap: tap(numbers(0)).batch(3)),
    Specimen("iter.sliding_window", "overlapping", lambda tap: tap(unseekable(7)).sliding_window(3)),
    Specimen("iter.sliding_window", "a shorter last one", lambda tap: tap(numbers(6)).sliding_window(3, 2, True)),
    Specimen("iter.sliding_window", "leaving out", lambda tap: tap(numbers(9)).sliding_window(2, step=4, partial=True)),
    Specimen("iter.sliding_window", "of lists", lambda tap: tap(numbers(9)).batch(2).sliding_window(2)),
    shuffled(
        "iter.sliding_window",
        "of shuffled elements",
        lambda tap: tap(unseekable(8)).shuffle(buffer_size=3).sliding_window(3, step=2).prefetch(2),
    ),
    Specimen("iter.unbatch", "one level", lambda tap: tap(IterableWrapper([[1, 2], [], [3]])).unbatch()),
    Specimen("iter.unbatch", "two levels", lambda tap: tap(numbers(9)).batch(2).batch(2).unbatch(2)),
    Specimen("iter.unbatch", "all levels", lambda tap: tap(IterableWrapper([[1, [2, [3]]], [4]])).unbatch(-1)),
    shuffled(
        "iter.unbatch",
        "shuffled batches",
        lambda tap: tap(numbers(9)).batch(2).shuffle(buffer_size=3).unbatch(),
    ),
    Specimen("iter.collate", "batches", lambda tap: tap(numbers(5)).batch(2).collate()),
    Specimen("iter.collate", "by a function", lambda tap: tap(numbers(5)).batch(2).collate(summed)),
    Specimen("iter.enumerate", "from 3", lambda tap: tap(numbers(4)).enumerate(starting_index=3)),
    Specimen("iter.enumerate", "of what cannot be sought", lambda tap: tap(unseekable(6)).filter(is_even).enumerate()),
    shuffled("iter.enumerate", "of shuffled elements", lambda tap: tap(numbers(6)).shuffle().enumerate()),
    Specimen("iter.header", "some", lambda tap: tap(numbers(9)).header(4)),
    Specimen("iter.header", "all", lambda tap: tap(numbers(3)).header(5)),
    Specimen("iter.header", "none", lambda tap: tap(numbers(3)).header(0)),
    Specimen("iter.header", "no limit", lambda tap: tap(numbers(3)).header(None)),
    Specimen("iter.header", "of what a filter passes", lambda tap: tap(numbers(9)).filter(is_even).header(3)),
    Specimen("iter.header", "of prefetched elements", lambda tap: tap(numbers(9)).prefetch(2).header(4)),
    shuffled(
        "iter.header",
        "of shuffled elements",
        lambda tap: tap(numbers(9)).shuffle(buffer_size=4).header(5),
    ),
    Specimen("iter.take", "some", lambda tap: tap(unseekable(9)).take(4)),
    Specimen("iter.take", "more than there are", lambda tap: tap(numbers(3)).take(5)),
    shuffled("iter.take", "of rows that are read at once", taken_rows),
    Specimen("iter.skip", "of a list", lambda tap: tap(numbers(9)).skip(4), after_fault="otherwise"),
    Specimen("iter.skip", "none", lambda tap: tap(numbers(3)).skip(0)),
    Specimen("iter.skip", "all", lambda tap: tap(numbers(3)).skip(5), after_fault="otherwise"),
    Specimen(
        "iter.skip",
        "of what a filter passes",
        lambda tap: tap(unseekable(9)).filter(is_even).skip(2),
        after_fault="otherwise",
    ),
    Specimen("iter.skip", "read by position", skipped_rows, after_fault="otherwise"),
    Specimen("iter.skip", "below functions", skipped_functions, after_fault="otherwise"),
    shuffled(
        "iter.skip",
        "of shuffled elements",
        lambda tap: tap(unseekable(9)).shuffle(buffer_size=4).skip(3).batch(2),
        after_fault="otherwise",
    ),
    shuffled("iter.skip", "of a shuffled collection", skipped_collection),
    Specimen("iter.repeat", "numbers", lambda tap: tap(numbers(3)).repeat(3)),
    Specimen("iter.repeat", "lists and None", lambda tap: tap(IterableWrapper([[1], None, [2]])).repeat(2)),
    shuffled("iter.repeat", "shuffled elements", lambda tap: tap(numbers(6)).shuffle().repeat(2).batch(5)),
    Specimen("iter.cycle", "twice", lambda tap: tap(numbers(3)).cycle(2)),
    # If every element of a lap raises, so does a cycle without end, for ever.
    Specimen(
        "iter.cycle",
        "without end",
        lambda tap: tap(numbers(3)).batch(2).cycle().header(7),
        after_fault="otherwise",
    ),
    Specimen("iter.cycle", "not at all", lambda tap: tap(numbers(3)).cycle(0)),
    Specimen("iter.cycle", "an empty source", lambda tap: tap(numbers(0)).cycle()),
    shuffled("iter.cycle", "a shuffle", lambda tap: tap(numbers(4)).shuffle().cycle(3)),
    shuffled(
        "iter.cycle",
        "cycles of shuffles",
        lambda tap: tap(numbers(4)).shuffle(buffer_size=2).cycle(2).batch(3).shuffle(buffer_size=2).cycle(2),
    ),
    Specimen("iter.cycle", "prefetched elements", lambda tap: tap(numbers(4)).prefetch(2).cycle(2)),
    Specimen("iter.cycle", "below a filter", lambda tap: tap(unseekable(5)).filter(is_even).cycle(2).enumerate()),
    Specimen("iter.fullsync", "one rank", lambda tap: tap(numbers(5)).map(tap.function(add_ten)).fullsync()),
    Specimen("iter.fullsync", "in the middle", lambda tap: tap(numbers(7)).fullsync(uneven="pad").batch(2)),
    Specimen("iter.retry", "of a list", lambda tap: tap(numbers(6)).map(tap.function(add_ten)).retry()),
    Specimen("iter.retry", "of generators", lambda tap: tap(unseekable(5)).flatmap(tap.generator(up_to)).retry(1)),
    Specimen("iter.retry", "in the middle", lambda tap: tap(numbers(7)).batch(2).retry(2).prefetch(2).unbatch()),
    shuffled(
        "iter.retry", "of shuffled elements", lambda tap: tap(unseekable(9)).shuffle(buffer_size=4).retry().batch(2)
    ),
    Specimen("iter.timeout", "of a list", lambda tap: tap(numbers(6)).map(tap.function(add_ten)).timeout(60)),
    Specimen("iter.timeout", "of generators", lambda tap: tap(unseekable(5)).flatmap(tap.generator(up_to)).timeout(60)),
    Specimen("iter.timeout", "in the middle", lambda tap: tap(numbers(7)).batch(2).timeout(60).prefetch(2).unbatch()),
    Specimen(
        "iter.timeout",
        "of prefetched elements, tried again",
        lambda tap: tap(numbers(7)).prefetch(2).timeout(60).retry(),
    ),
    shuffled(
        "iter.timeout",
        "of shuffled elements",
        lambda tap: tap(unseekable(9)).shuffle(buffer_size=4).timeout(60).batch(2),
    ),
    Specimen("iter.prefetch", "one", lambda tap: tap(numbers(5)).prefetch(1)),
    Specimen("iter.prefetch", "all", lambda tap: tap(numbers(5)).map(tap.function(add_ten)).prefetch(10)),
    Specimen("iter.prefetch", "what cannot be sought", lambda tap: tap(unseekable(7)).filter(is_even).prefetch(2)),
    shuffled(
        "iter.prefetch",
        "shuffled elements",
        lambda tap: tap(numbers(7)).shuffle(buffer_size=3).prefetch(2),
    ),
    Specimen("iter.prefetch", "prefetched batches", lambda tap: tap(numbers(9)).prefetch(2).batch(2).prefetch(2)),
    Specimen("iter.prefetch", "None", lambda tap: tap(IterableWrapper(Countable(None, 1, None))).prefetch(2)),
    Specimen(
        "iter.prefetch", "a half-used generator", lambda tap: tap(numbers(5)).flatmap(tap.generator(up_to)).prefetch(3)
    ),
    Specimen("iter.prefetch", "nothing", lambda tap: tap(numbers(0)).prefetch()),
    Specimen("iter.sharding_filter", "nobody shards", lambda tap: tap(numbers(4)).sharding_filter()),
    # An element belongs to a shard by its number in the source, so one that fails does not shift the others.
    Specimen("iter.sharding_filter", "one of three, in batches", sharded, after_fault="otherwise"),
    Specimen("iter.sharding_filter", "one of three, not sought", sharded_by_counting, after_fault="otherwise"),
    shuffled("iter.sharding_filter", "below a shuffle", sharded_below_shuffle, after_fault="otherwise"),
    shuffled("iter.sharding_filter", "below what goes below it", sharded_above_functions, after_fault="otherwise"),
    Specimen("iter.sharding_filter", "below rows", sharded_rows, after_fault="otherwise"),
    shuffled("iter.sharding_filter", "below a shuffled collection", sharded_collection),
    shuffled(
        "service.prefetch",
        "shuffled batches",
        lambda tap: tap(numbers(9)).shuffle(buffer_size=4).batch(2),
        service=partial(InProcessReadingService, prefetch_cnt=2),
    ),
    Specimen(
        "service.prefetch",
        "above a prefetch",
        lambda tap: tap(unseekable(7)).filter(is_even).prefetch(2),
        service=partial(InProcessReadingService, prefetch_cnt=3),
    ),
]
