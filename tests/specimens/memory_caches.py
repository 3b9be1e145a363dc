"""Specimens of in_memory_cache."""

from __future__ import annotations

from functools import partial

from datapipes.graph import Pipe, apply_sharding
from datapipes.iter import IterableWrapper
from tests.specimens.elements import ELEMENTS, add_ten, is_even, up_to
from tests.specimens.specimen import Specimen, Tap, numbers, paths, shuffled, unseekable
from tests.specimens.users import Doubled

A_FEW = 600 / 1024**2  # megabytes that hold some of the elements

cached = partial(Specimen, "iter.in_memory_cache", memo=frozenset({"_kept"}))


def with_itself(tap: Tap) -> Pipe:
    source = tap(numbers(6)).batch(2).shuffle(buffer_size=2).in_memory_cache()
    return source.zip(source)


def forked_below(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).in_memory_cache().fork(2)
    return a.batch(2).concat(b)


def forked_above(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return a.mux(b.map(add_ten)).in_memory_cache()


def pinned(tap: Tap) -> Pipe:
    return tap(numbers(7)).shuffle(buffer_size=4).set_seed(3).in_memory_cache()


def sharded(tap: Tap) -> Pipe:
    return apply_sharding(tap(numbers(10)).sharding_filter().in_memory_cache().batch(2), 3, 1)


def shuffled_below(tap: Tap) -> Pipe:
    return tap(numbers(7)).map(add_ten).in_memory_cache().shuffle(buffer_size=3)


CACHED = [
    cached("numbers", lambda tap: tap(numbers(6)).map(tap.function(add_ten)).in_memory_cache()),
    cached("some of them", lambda tap: tap(unseekable(40)).in_memory_cache(A_FEW), stops=(0, 1, 10, 25, 35, 39, 40)),
    cached("none of them", lambda tap: tap(numbers(5)).in_memory_cache(1 / 1024**2)),
    cached("below a shuffle", lambda tap: tap(numbers(7)).shuffle(buffer_size=4).in_memory_cache()),
    cached("below a pinned shuffle", pinned),
    cached("a shuffle with itself", with_itself),
    cached("of what cannot be sought", lambda tap: tap(unseekable(9)).filter(is_even).in_memory_cache().enumerate()),
    cached("of prefetched elements", lambda tap: tap(numbers(7)).prefetch(2).in_memory_cache().batch(2)),
    cached("prefetched", lambda tap: tap(numbers(7)).batch(2).in_memory_cache().prefetch(2)),
    cached("of a half-used generator", lambda tap: tap(numbers(5)).flatmap(tap.generator(up_to)).in_memory_cache()),
    cached("of a cache", lambda tap: tap(numbers(5)).in_memory_cache().map(add_ten).in_memory_cache().unbatch(0)),
    cached("in cycles", lambda tap: tap(numbers(5)).shuffle().in_memory_cache().cycle(2)),
    cached("of cycles", lambda tap: tap(numbers(4)).shuffle().cycle(2).in_memory_cache()),
    cached("of None", lambda tap: tap(IterableWrapper(ELEMENTS)).in_memory_cache()),
    cached("of a user's class", lambda tap: Doubled(tap(numbers(5))).in_memory_cache(), after_fault="otherwise"),
    cached("nothing", lambda tap: tap(numbers(0)).in_memory_cache()),
    cached("below a fork", forked_above),
    cached("above a fork", forked_below),
    cached("rows", lambda tap: tap(paths("a.csv", "c.csv")).open_files().parse_csv().in_memory_cache()),
    # An element belongs to a shard by its number in the source, so one that fails does not shift the others.
    cached("one shard of three", sharded, after_fault="otherwise"),
    shuffled("iter.in_memory_cache", "shuffled below", shuffled_below, memo=frozenset({"_kept"})),
]
