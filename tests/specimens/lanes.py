"""Specimens of lanes: graphs of all kinds of stages, above the sharding, below it, and below the lanes."""

from __future__ import annotations

from functools import partial

from datapipes.graph import Pipe
from datapipes.iter import Concater
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from tests.specimens.elements import add_ten, is_even, is_something, up_to
from tests.specimens.specimen import Specimen, Tap, folder, numbers, paths, unseekable
from tests.specimens.users import Counting, Doubled, EveryNth, Passed, Resumable, Summed


def plain(tap: Tap) -> Pipe:
    return tap(numbers(7)).sharding_filter().lanes(3)


def more_lanes_than_elements(tap: Tap) -> Pipe:
    return tap(unseekable(2)).sharding_filter().map(add_ten).lanes(4).map(add_ten)


def one_lane(tap: Tap) -> Pipe:
    return tap(unseekable(4)).shuffle(buffer_size=2).sharding_filter().lanes(1)


def shuffled_above_and_below(tap: Tap) -> Pipe:
    above = tap(numbers(12)).shuffle().map(tap.function(add_ten)).sharding_filter()
    return above.shuffle(buffer_size=3).batch(2).lanes(2).shuffle(buffer_size=2)


def of_a_buffer(tap: Tap) -> Pipe:
    above = tap(unseekable(9)).filter(is_something).shuffle(buffer_size=4).sharding_filter()
    return above.map(add_ten).lanes(3)


def uneven(tap: Tap) -> Pipe:
    return tap(numbers(6)).sharding_filter().flatmap(tap.generator(up_to)).filter(is_even).batch(2).lanes(2).unbatch()


def rows(tap: Tap) -> Pipe:
    assert folder().is_dir()
    files = tap(paths("a.csv", "b.csv", "c.csv")).shuffle().sharding_filter().open_files()
    return files.parse_csv(skip_lines=1).shuffle(buffer_size=2).lanes(2)


def two_sources(tap: Tap) -> Pipe:
    first, second = tap(numbers(7)).shuffle().sharding_filter(), unseekable(5).sharding_filter()
    return Concater(first.map(add_ten), second).lanes(2)


def forked(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).sharding_filter().fork(2)
    return a.map(add_ten).zip(b).prefetch(2).lanes(2).prefetch(2)


def forked_above(tap: Tap) -> Pipe:
    a, b = tap(numbers(6)).fork(2)
    return a.map(add_ten).sharding_filter().zip(b.sharding_filter()).lanes(2)


def threads(tap: Tap) -> Pipe:
    above = tap(unseekable(8)).prefetch(3).shuffle(buffer_size=3).prefetch(2).sharding_filter()
    return above.map(add_ten).prefetch(2).lanes(3)


def skipping(tap: Tap) -> Pipe:
    kept = tap(unseekable(8)).map(add_ten, on_error="skip").sharding_filter()
    return kept.map(add_ten, on_error="skip").lanes(2)


def again_and_again(tap: Tap) -> Pipe:
    return tap(numbers(5)).shuffle().sharding_filter().cycle(2).retry(backoff=0).lanes(2)


def packed(tap: Tap) -> Pipe:
    return tap(numbers(8)).flatmap(up_to).sharding_filter().sliding_window(3, 2, partial=True).lanes(2)


def classes_above(tap: Tap) -> Pipe:
    return Doubled(tap(numbers(7)).shuffle()).sharding_filter().lanes(2)


def classes_below(tap: Tap) -> Pipe:
    return Counting(Resumable(Summed(Passed(tap(numbers(7)).shuffle().sharding_filter())))).lanes(2)


def class_that_shards(tap: Tap) -> Pipe:
    return EveryNth(tap(numbers(7))).map(add_ten).lanes(2).batch(2)


def as_shard(tap: Tap) -> Pipe:
    pipe = tap(numbers(9)).sharding_filter().batch(2).lanes(4)
    pipe.apply_sharding(2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    return pipe


one = partial(Specimen, "iter.lanes")
by_seed = partial(one, random="by seed", after_fault="otherwise")
by_number = partial(one, after_fault="otherwise")  # an element that fails keeps its number, and so its lane

LANES = [
    by_number("numbers", plain),
    by_number("more than elements", more_lanes_than_elements),
    by_seed("a single one", one_lane),
    by_seed("shuffled above and below", shuffled_above_and_below),
    by_seed("of a buffer", of_a_buffer),
    by_number("uneven", uneven),
    by_seed("rows of files", rows),
    by_seed("two sources", two_sources),
    by_number("forked below the sharding", forked),
    by_number("forked above the sharding", forked_above),
    by_seed("threads", threads),
    by_number("errors that are left out", skipping),
    by_seed("several laps", again_and_again),
    by_number("packed", packed),
    by_seed("classes above the sharding", classes_above),
    by_seed("classes below the sharding", classes_below),
    by_number("a class that shards", class_that_shards),
    by_number("only some lanes", as_shard),
]
