"""Specimens of the operators that combine or split streams by weight, by key or in turn, and of buffers that spill."""

from __future__ import annotations

import warnings

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, SampleMultiplexer
from datapipes.map import SequenceWrapper
from tests.specimens.elements import add_ten, as_pair, up_to
from tests.specimens.orders import letters, remainder
from tests.specimens.specimen import Countable, Specimen, Tap, folder, numbers, paths, shuffled, unseekable

WEIGHTS = {"train": 3, "valid": 2}


def sampled(tap: Tap) -> Pipe:
    return SampleMultiplexer({tap(numbers(6)): 0.5, letters("abcd"): 0.25, unseekable(3).map(add_ten): 0.1})


def sampled_shuffled(tap: Tap) -> Pipe:
    return SampleMultiplexer({tap(numbers(5)).shuffle(buffer_size=3): 2, letters("abc").prefetch(2): 1}).batch(2)


def sampled_below_shuffle(tap: Tap) -> Pipe:
    return SampleMultiplexer({tap(unseekable(5)): 1, letters("abc"): 1}).shuffle(buffer_size=3)


def sampled_pinned(tap: Tap) -> Pipe:
    return SampleMultiplexer({tap(numbers(6)): 1, letters("abcdef"): 1}, seed=3).prefetch(2)


def sampled_forked(tap: Tap) -> Pipe:
    a, b = SampleMultiplexer({tap(numbers(4)): 1, letters("abcd"): 1}).fork(2)
    return a.concat(b)


def mixed_by_step(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)), unseekable(3).map(add_ten)
    return a.mix({letters("abcd"): {0: 0, 2: 1.5}, b: by_step, a: 2})


def by_step(step: int) -> float:
    return 1 / (1 + step)


def mixed_until_one_ends(tap: Tap) -> Pipe:
    return tap(numbers(6)).mix({letters("abcd").shuffle(): 1}, stop="first", seed=2).batch(2)


def mixed_again_and_again(tap: Tap) -> Pipe:
    long, empty = tap(unseekable(6)).map(tap.function(add_ten)), letters("")
    return letters("abc").shuffle().mix({long: 0.5, empty: {0: 1, 3: 2}}, stop="repeat", seed=2).prefetch(2)


def mixed_and_forked(tap: Tap) -> Pipe:
    a, b = tap(numbers(4)).mix({letters("ab"): 1}, stop="repeat").set_seed(3).fork(2)
    return a.concat(b)


def mixed_pinned(tap: Tap) -> Pipe:
    return tap(numbers(6)).mix({letters("abcdef"): 2}, stop="repeat", seed=3)


def dealt_in_turn(tap: Tap) -> Pipe:
    a, b, c = tap(numbers(8)).map(tap.function(add_ten)).round_robin_demux(3)
    return a.mux_longest(b, c)


def dealt_one_after_another(tap: Tap) -> Pipe:
    a, b, c = tap(unseekable(8)).round_robin_demux(3)
    return c.concat(a.batch(2), b)


def dealt_shuffled(tap: Tap) -> Pipe:
    a, b = tap(numbers(7)).shuffle(buffer_size=3).round_robin_demux(2)
    return a.prefetch(2).concat(b)


def dealt_twice(tap: Tap) -> Pipe:
    a, b = tap(numbers(7)).round_robin_demux(2)
    return a.zip(a).concat(b)


def dealt_and_spilled(tap: Tap) -> Pipe:
    a, b, c = tap(numbers(9)).round_robin_demux(3, buffer_size=2, spill_dir=folder())
    return c.concat(a, b)


def split_one(tap: Tap) -> Pipe:
    return tap(unseekable(10)).random_split(WEIGHTS, seed=1, total_length=10, target="train")


def split_side_by_side(tap: Tap) -> Pipe:
    train, valid = tap(numbers(10)).map(tap.function(add_ten)).random_split(WEIGHTS, seed=2, total_length=10)
    return train.mux_longest(valid)


def split_one_after_another(tap: Tap) -> Pipe:
    a, b, c = tap(numbers(9)).random_split({0: 0.5, 1: 0.2, 2: 0.3}, seed=3, total_length=9)
    return c.batch(2).concat(a, b)


def split_shuffled(tap: Tap) -> Pipe:
    train, valid = tap(numbers(10)).random_split(WEIGHTS, seed=4, total_length=10)
    return train.shuffle(buffer_size=3).concat(valid.prefetch(2))


def split_of_shuffled(tap: Tap) -> Pipe:
    with warnings.catch_warnings(action="ignore"):  # elements change sides from epoch to epoch
        train, _ = tap(numbers(10)).shuffle(buffer_size=4).random_split(WEIGHTS, seed=5, total_length=10)
    return train.batch(2)


def split_forked(tap: Tap) -> Pipe:
    a, b = tap(numbers(10)).random_split(WEIGHTS, seed=6, total_length=10, target="train").fork(2)
    return a.concat(b)


def key_of_letter(letter: str) -> int:
    return "abcdefgh".index(letter)


def by_key(tap: Tap) -> Pipe:
    return tap(numbers(6)).zip_with_iter(letters("cabhfed"), itself, key_of_letter)


def itself(x: int) -> int:
    return x


def by_key_reversed(tap: Tap) -> Pipe:
    source = tap(unseekable(5)).map(tap.function(add_ten))
    references = IterableWrapper(Countable(14, 13, 12, 11, 10))
    return source.zip_with_iter(references, itself, keep_key=True).batch(2)


def by_key_merged(tap: Tap) -> Pipe:
    return tap(numbers(5)).zip_with_iter(letters("edcba").prefetch(2), itself, key_of_letter, merge_fn=together)


def together(x: int, letter: str) -> str:
    return f"{x}{letter}"


def by_key_shuffled(tap: Tap) -> Pipe:
    return tap(numbers(6)).shuffle(buffer_size=4).zip_with_iter(numbers(6).shuffle(), itself)


def by_key_below_shuffle(tap: Tap) -> Pipe:
    return tap(numbers(6)).zip_with_iter(numbers(6), itself, buffer_size=None).shuffle(buffer_size=3)


def by_key_forked(tap: Tap) -> Pipe:
    a, b = tap(numbers(5)).zip_with_iter(letters("bacde"), itself, key_of_letter).fork(2)
    return a.zip(b.prefetch(2))


def by_key_opened(tap: Tap) -> Pipe:
    opened = paths("a.csv", "c.csv").open_files("rb")
    return tap(numbers(2)).zip_with_iter(opened, itself, key_of_file)


def key_of_file(opened: tuple[str, object]) -> int:
    return 0 if opened[0].endswith("a.csv") else 1


LOOKED_UP = {x: f"number {x}" for x in range(20)}


def by_map(tap: Tap) -> Pipe:
    return tap(numbers(5)).map(tap.function(add_ten)).zip_with_map(SequenceWrapper(LOOKED_UP), itself)


def by_map_merged(tap: Tap) -> Pipe:
    source = tap(numbers(6)).shuffle(buffer_size=3)
    return source.zip_with_map(SequenceWrapper("abcdef"), itself, merge_fn=together, keep_key=True).prefetch(2)


def by_map_below_shuffle(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).zip_with_map(SequenceWrapper(LOOKED_UP), itself).shuffle(buffer_size=3).fork(2)
    return a.concat(b)


def spilled_in_step(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2, buffer_size=1, spill_dir=folder())
    return a.zip(b.map(add_ten))


def spilled_one_after_another(tap: Tap) -> Pipe:
    a, b, c = tap(unseekable(7)).map(tap.function(as_pair)).fork(3, buffer_size=2, spill_dir=folder())
    return a.concat(b, c.shuffle(buffer_size=3))


def spilled_by_bytes(tap: Tap) -> Pipe:
    a, b = tap(IterableWrapper(["x" * n for n in range(7)])).fork(2, buffer_bytes=150, spill_dir=folder())
    return a.batch(3).concat(b)


def spilled_unevenly(tap: Tap) -> Pipe:
    a, b = tap(numbers(9)).fork(2, buffer_size=1, copy="deep", spill_dir=folder())
    return a.batch(3).mux_longest(b)


def spilled_and_prefetched(tap: Tap) -> Pipe:
    a, b = tap(numbers(8)).fork(2, buffer_size=1, spill_dir=folder())
    return a.prefetch(4).mux(b.prefetch(1))


def spilled_within_cycle(tap: Tap) -> Pipe:
    a, b = tap(numbers(5)).shuffle(buffer_size=3).fork(2, buffer_size=1, spill_dir=folder())
    return a.concat(b).cycle(2)


def bounded_by_bytes(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2, buffer_bytes=10_000)
    return a.concat(b)


def spilled_by_class(tap: Tap) -> Pipe:
    a, b, c = tap(unseekable(9)).demux(3, tap.function(remainder), buffer_size=2, spill_dir=folder())
    return c.concat(a, b)


def spilled_columns(tap: Tap) -> Pipe:
    a, b = tap(numbers(5)).map(as_pair).unzip(2, buffer_size=0, buffer_bytes=1000, spill_dir=folder())
    return b.concat(a)


COMBINATIONS = [
    Specimen("iter.mux_longest", "unequal lengths", lambda tap: tap(numbers(3)).mux_longest(letters("abcde"))),
    Specimen("iter.mux_longest", "one empty", lambda tap: tap(numbers(4)).mux_longest(letters(""), unseekable(2))),
    Specimen("iter.mux_longest", "alone", lambda tap: tap(numbers(3)).mux_longest()),
    Specimen(
        "iter.mux_longest", "of flatmap", lambda tap: tap(numbers(4)).flatmap(tap.generator(up_to)).mux_longest("ab")
    ),
    shuffled(
        "iter.mux_longest",
        "one shuffled, one prefetched",
        lambda tap: tap(numbers(6)).shuffle(buffer_size=3).mux_longest(letters("abc").prefetch(2)).batch(2),
    ),
    shuffled(
        "iter.mux_longest",
        "below a shuffle",
        lambda tap: tap(unseekable(5)).mux_longest(letters("ab")).shuffle(buffer_size=3),
    ),
    shuffled("iter.mix", "by weights that change", mixed_by_step),
    shuffled("iter.mix", "until one ends", mixed_until_one_ends, after_fault="otherwise"),
    shuffled("iter.mix", "again and again", mixed_again_and_again, after_fault="otherwise"),
    Specimen("iter.mix", "forked", mixed_and_forked, random="pinned", after_fault="otherwise"),
    Specimen("iter.mix", "a pinned seed", mixed_pinned, random="pinned", after_fault="otherwise"),
    shuffled("iter.SampleMultiplexer", "three of different length", sampled),
    shuffled("iter.SampleMultiplexer", "one shuffled, one prefetched", sampled_shuffled),
    shuffled("iter.SampleMultiplexer", "below a shuffle", sampled_below_shuffle),
    shuffled("iter.SampleMultiplexer", "forked", sampled_forked),
    Specimen("iter.SampleMultiplexer", "a pinned seed", sampled_pinned, random="pinned"),
    Specimen("iter.SampleMultiplexer", "one input", lambda tap: SampleMultiplexer({tap(numbers(4)): 7})),
    Specimen("iter.round_robin_demux", "in turn", dealt_in_turn),
    Specimen("iter.round_robin_demux", "one after another", dealt_one_after_another),
    shuffled("iter.round_robin_demux", "shuffled, one prefetched", dealt_shuffled),
    Specimen("iter.round_robin_demux", "a child with itself", dealt_twice, after_fault="otherwise"),
    Specimen("iter.round_robin_demux", "spilled to disk", dealt_and_spilled),
    Specimen("iter.random_split", "one of two", split_one),
    Specimen("iter.random_split", "side by side", split_side_by_side),
    Specimen("iter.random_split", "one after another", split_one_after_another),
    shuffled("iter.random_split", "shuffled", split_shuffled),
    shuffled("iter.random_split", "of a shuffled stream", split_of_shuffled),
    Specimen("iter.random_split", "forked", split_forked),
    Specimen("iter.zip_with_iter", "other order, some left", by_key),
    Specimen("iter.zip_with_iter", "reversed", by_key_reversed),
    Specimen("iter.zip_with_iter", "merged, prefetched", by_key_merged),
    shuffled("iter.zip_with_iter", "both shuffled", by_key_shuffled),
    shuffled("iter.zip_with_iter", "below a shuffle", by_key_below_shuffle),
    Specimen("iter.zip_with_iter", "forked", by_key_forked),
    Specimen("iter.zip_with_iter", "open files in step", by_key_opened),
    Specimen("iter.zip_with_map", "in step", by_map),
    shuffled("iter.zip_with_map", "merged, with keys", by_map_merged),
    shuffled("iter.zip_with_map", "below a shuffle, forked", by_map_below_shuffle),
    Specimen("iter.fork", "spilled, in step", spilled_in_step),
    shuffled("iter.fork", "spilled, one after another", spilled_one_after_another),
    Specimen("iter.fork", "spilled by bytes", spilled_by_bytes),
    Specimen("iter.fork", "spilled, unevenly", spilled_unevenly),
    Specimen("iter.fork", "spilled and prefetched", spilled_and_prefetched),
    shuffled("iter.fork", "spilled, within a cycle", spilled_within_cycle),
    Specimen("iter.fork", "bounded by bytes", bounded_by_bytes),
    Specimen("iter.demux", "spilled", spilled_by_class),
    Specimen("iter.unzip", "spilled", spilled_columns),
]
