"""Specimens of the operators that change what elements hold, several at a time or in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, WeightedRandomSampler

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, Sampler
from datapipes.map import SequenceWrapper
from tests.specimens.elements import add_ten, is_even, shuffled_up_to, twice, up_to
from tests.specimens.files import lines_of
from tests.specimens.specimen import Function, Specimen, Tap, numbers, paths, shuffled, unseekable

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def triple(x: int) -> tuple[int, str, float]:
    return x, str(x), x / 2


def nested(x: int) -> tuple[int, list[int], str]:
    return x, [x + 1, x + 2], "ab"


def as_row(x: int) -> dict[str, Any]:
    return {"x": x, "more": {"y": -x}}


def forked_rows(tap: Tap) -> Pipe:
    a, b = tap(unseekable(6)).map(as_row).add_index().fork(2)
    return a.zip(b.flatten())


def remembered_halves(tap: Tap) -> Pipe:
    return tap(unseekable(7)).filter(is_even).memory_cell(2).batch(2)


def totals(batch: list[int]) -> list[int]:
    return [sum(batch), len(batch)]


def one_by_one(batch: list[Any]) -> Iterator[Any]:
    yield from batch


def lines_in(batch: list[tuple[str, Any]]) -> Iterator[str]:
    for _, stream in batch:
        yield from stream.readlines()


async def ten_more(x: int) -> int:
    await asyncio.sleep(0)
    return x + 10


async def negative(x: int) -> int:
    return -x


async def only_even(x: int) -> int:
    await asyncio.sleep(0)
    if x % 2:
        raise FileNotFoundError(f"{x} is odd")
    return x


async def awaited(fn: Function, x: Any) -> Any:
    return fn(x)


def forked_pools(tap: Tap) -> Pipe:
    a, b = tap(unseekable(6)).fork(2)
    return a.threadpool_map(add_ten, scheduled_tasks=2, max_workers=2).mux(b.threadpool_map(add_ten, max_workers=1))


def forked_flatmap(tap: Tap) -> Pipe:
    a, b = tap(numbers(5)).fork(2)
    return a.shuffled_flatmap(up_to, buffer_size=2).mux(b.repeat(2))


def switched_off(tap: Tap) -> Pipe:
    return tap(numbers(5)).shuffled_flatmap(up_to).set_shuffle(False)


def pinned_seed(tap: Tap) -> Pipe:
    return tap(numbers(5)).shuffled_flatmap(up_to).set_seed(5)


def tensor(x: int) -> torch.Tensor:
    return torch.tensor([x])


def on_any_device(fn: Function, element: Any, device: Any) -> Any:
    return fn(element)


def pinned(source: Pipe, fn: Function = add_ten) -> Pipe:
    """The stage as it is built where there is CUDA."""
    with mock.patch("torch.cuda.is_available", return_value=True):
        return source.pin_memory(pin_memory_fn=partial(on_any_device, fn))


TRANSFORMS = [
    Specimen("iter.drop", "columns of tuples", lambda tap: tap(numbers(5)).map(triple).drop([0, 2])),
    Specimen("iter.drop", "a key of dicts", lambda tap: tap(numbers(4)).map(as_row).drop("more").batch(3)),
    shuffled(
        "iter.drop", "above and below a shuffle", lambda tap: tap(numbers(6)).map(triple).drop(0).shuffle().drop([1])
    ),
    Specimen("iter.slice", "positions", lambda tap: tap(numbers(5)).map(triple).slice(1, 3)),
    Specimen("iter.slice", "a list of keys", lambda tap: tap(unseekable(4)).map(as_row).slice(["more"]).prefetch(2)),
    shuffled(
        "iter.slice",
        "above and below a shuffle",
        lambda tap: tap(numbers(7)).map(triple).slice([2, 0]).shuffle(buffer_size=3).slice([-1]),
    ),
    Specimen("iter.flatten", "tuples", lambda tap: tap(numbers(5)).map(nested).flatten()),
    Specimen("iter.flatten", "one key of dicts", lambda tap: tap(numbers(4)).map(as_row).flatten("more")),
    shuffled("iter.flatten", "shuffled", lambda tap: tap(numbers(6)).map(nested).flatten(1).shuffle(buffer_size=3)),
    Specimen("iter.add_index", "to dicts", lambda tap: tap(numbers(5)).map(as_row).add_index()),
    Specimen("iter.add_index", "in both children of a fork", forked_rows),
    Specimen(
        "iter.add_index",
        "prefetched",
        lambda tap: tap(unseekable(6)).filter(is_even).map(as_row).add_index("n").prefetch(2),
    ),
    shuffled(
        "iter.add_index",
        "above and below a shuffle",
        lambda tap: tap(numbers(7)).map(as_row).add_index("a").shuffle(buffer_size=3).add_index("b"),
    ),
    Specimen("iter.rows2columnar", "dicts", lambda tap: tap(numbers(5)).map(as_row).batch(2).rows2columnar()),
    Specimen(
        "iter.rows2columnar", "tuples", lambda tap: tap(numbers(5)).map(triple).batch(2).rows2columnar(["a", "b", "c"])
    ),
    shuffled(
        "iter.rows2columnar",
        "of shuffled rows, shuffled",
        lambda tap: tap(numbers(9)).map(as_row).shuffle().batch(2).rows2columnar(["x"]).shuffle(buffer_size=3),
    ),
    Specimen("iter.set_length", "of a filter", lambda tap: tap(numbers(7)).filter(is_even).set_length(4).map(add_ten)),
    Specimen("iter.set_length", "of a half-used generator", lambda tap: tap(numbers(4)).flatmap(up_to).set_length(6)),
    shuffled("iter.set_length", "above a shuffle", lambda tap: tap(numbers(8)).set_length(8).shuffle(buffer_size=3)),
    Specimen(
        "iter.memory_cell",
        "of two",
        lambda tap: tap(numbers(6)).map(tap.function(add_ten)).memory_cell(2),
        memo=frozenset({"_remembered"}),
    ),
    Specimen("iter.memory_cell", "in batches", remembered_halves, memo=frozenset({"_remembered"})),
    shuffled(
        "iter.memory_cell",
        "above and below a shuffle",
        lambda tap: tap(numbers(6)).memory_cell().shuffle(buffer_size=3).memory_cell(1),
        memo=frozenset({"_remembered"}),
    ),
    Specimen(
        "iter.map_batches", "lists, a shorter last batch", lambda tap: tap(numbers(7)).map_batches(totals, batch_size=3)
    ),
    Specimen("iter.map_batches", "generators", lambda tap: tap(unseekable(7)).map_batches(one_by_one, 3)),
    Specimen(
        "iter.map_batches", "of a column", lambda tap: tap(numbers(5)).map(as_row).map_batches(totals, 2, input_col="x")
    ),
    # A batch that was cut short by an exception is buffered, and open files cannot be: so none of these fails.
    Specimen(
        "iter.map_batches",
        "open files",
        lambda tap: paths("a.csv", "b.csv", "c.csv").open_files().map_batches(lines_in, 2).prefetch(2),
    ),
    shuffled(
        "iter.map_batches",
        "above and below a shuffle",
        lambda tap: tap(numbers(9)).map_batches(one_by_one, 2).shuffle(buffer_size=3).map_batches(one_by_one, 4),
    ),
    Specimen("iter.map_batches", "nothing", lambda tap: tap(numbers(0)).map_batches(totals, 2)),
    Specimen("iter.async_map_batches", "one by one", lambda tap: tap(numbers(7)).async_map_batches(ten_more, 3)),
    Specimen(
        "iter.async_map_batches",
        "lists of columns, one at a time",
        lambda tap: tap(unseekable(5)).map(as_row).async_map_batches(negative, 2, "x", "z", 1, flatten=False),
    ),
    Specimen(
        "iter.async_map_batches", "prefetched", lambda tap: tap(numbers(7)).async_map_batches(ten_more, 2).prefetch(2)
    ),
    shuffled(
        "iter.async_map_batches",
        "above and below a shuffle",
        lambda tap: (
            tap(numbers(9)).async_map_batches(negative, 2).shuffle(buffer_size=3).async_map_batches(negative, 4)
        ),
    ),
    Specimen(
        "iter.async_map_batches",
        "a function that raises",
        lambda tap: numbers(7).async_map_batches(only_even, 2),
        raises=True,
    ),
    Specimen(
        "iter.async_map_batches",
        "a function that raises, one element at a time",
        lambda tap: tap(numbers(7)).async_map_batches(partial(awaited, tap.function(add_ten)), 1),
    ),
    Specimen(
        "iter.threadpool_map",
        "more than there are",
        lambda tap: tap(numbers(6)).threadpool_map(tap.function(add_ten), max_workers=2),
    ),
    Specimen(
        "iter.threadpool_map",
        "a few ahead, of what cannot be sought",
        lambda tap: tap(unseekable(7)).threadpool_map(tap.function(add_ten), scheduled_tasks=2, max_workers=2),
    ),
    Specimen(
        "iter.threadpool_map",
        "a column, prefetched",
        lambda tap: (
            tap(numbers(6)).map(as_row).threadpool_map(add_ten, "x", scheduled_tasks=1, max_workers=1).prefetch(2)
        ),
    ),
    Specimen("iter.threadpool_map", "in both children of a fork", forked_pools),
    shuffled(
        "iter.threadpool_map",
        "above and below a shuffle",
        lambda tap: (
            tap(unseekable(7))
            .threadpool_map(tap.function(add_ten), max_workers=2)
            .shuffle(buffer_size=3)
            .threadpool_map(add_ten, scheduled_tasks=2)
        ),
    ),
    shuffled(
        "iter.threadpool_map",
        "above a shuffle",
        lambda tap: tap(numbers(7)).threadpool_map(add_ten).shuffle(buffer_size=3),
    ),
    Specimen(
        "iter.threadpool_map",
        "batches of a half-used generator",
        lambda tap: tap(numbers(4)).flatmap(up_to).batch(2).threadpool_map(totals, scheduled_tasks=2, max_workers=2),
    ),
    Specimen("iter.threadpool_map", "nothing", lambda tap: tap(numbers(0)).threadpool_map(add_ten)),
    shuffled("iter.shuffled_flatmap", "lists", lambda tap: tap(numbers(5)).shuffled_flatmap(twice, buffer_size=2)),
    shuffled("iter.shuffled_flatmap", "generators", lambda tap: tap(unseekable(6)).shuffled_flatmap(up_to)),
    shuffled(
        "iter.shuffled_flatmap", "strings", lambda tap: IterableWrapper(["abcd", "", "xyz", "12"]).shuffled_flatmap()
    ),
    Specimen(
        "iter.shuffled_flatmap", "a buffer of one", lambda tap: tap(numbers(5)).shuffled_flatmap(up_to, buffer_size=1)
    ),
    Specimen("iter.shuffled_flatmap", "switched off", switched_off),
    Specimen("iter.shuffled_flatmap", "a pinned seed", pinned_seed, random="pinned"),
    Specimen("iter.shuffled_flatmap", "nothing", lambda tap: tap(numbers(0)).shuffled_flatmap(up_to)),
    shuffled("iter.shuffled_flatmap", "in one child of a fork", forked_flatmap, after_fault="otherwise"),
    shuffled(
        "iter.shuffled_flatmap",
        "below a shuffle, prefetched",
        lambda tap: tap(numbers(5)).shuffle(buffer_size=2).shuffled_flatmap(up_to, buffer_size=3).prefetch(2),
        after_fault="otherwise",
    ),
    shuffled(
        "iter.shuffled_flatmap",
        "shuffled pipes",
        lambda tap: numbers(4).shuffled_flatmap(shuffled_up_to, buffer_size=2),
    ),
    shuffled(
        "iter.shuffled_flatmap",
        "open files",
        lambda tap: (
            tap(paths("a.csv", "b.csv", "c.csv", "empty.csv")).open_files().shuffled_flatmap(lines_of, buffer_size=2)
        ),
        after_fault="otherwise",
    ),
    # No element of what a sampler is given is read, so none can fail.
    Specimen("iter.Sampler", "in sequence", lambda tap: Sampler(numbers(5))),
    shuffled("iter.Sampler", "at random", lambda tap: Sampler(numbers(9), RandomSampler).batch(2)),
    shuffled(
        "iter.Sampler",
        "at random, with replacement, prefetched",
        lambda tap: Sampler(
            numbers(9), RandomSampler, sampler_kwargs={"replacement": True, "num_samples": 12}
        ).prefetch(3),
    ),
    shuffled(
        "iter.Sampler",
        "batches of weighted draws",
        lambda tap: Sampler(numbers(9), BatchSampler(WeightedRandomSampler(range(9), 12), 5, drop_last=False)),
    ),
    Specimen(
        "iter.Sampler",
        "told the epoch",
        lambda tap: Sampler(numbers(9), DistributedSampler(SequenceWrapper(range(9)), 1, 0)),
        random="pinned",
    ),
    Specimen("iter.pin_memory", "what a function makes", lambda tap: pinned(tap(numbers(5)), tap.function(add_ten))),
    Specimen(
        "iter.pin_memory", "what cannot be sought", lambda tap: pinned(tap(unseekable(7)).filter(is_even)).batch(2)
    ),
    shuffled(
        "iter.pin_memory",
        "above and below a shuffle",
        lambda tap: pinned(pinned(tap(numbers(7))).shuffle(buffer_size=3)),
    ),
    Specimen("iter.to_device", "tensors", lambda tap: tap(numbers(7)).map(tensor).to_device(DEVICE)),
    Specimen(
        "iter.to_device",
        "batches of what cannot be sought",
        lambda tap: tap(unseekable(7)).filter(is_even).batch(2).map(torch.tensor).to_device(DEVICE, prefetch_cnt=1),
    ),
    shuffled(
        "iter.to_device", "below a shuffle", lambda tap: tap(numbers(9)).shuffle(buffer_size=3).to_device(DEVICE, False)
    ),
    shuffled(
        "iter.to_device",
        "above and below a shuffle",
        lambda tap: tap(numbers(9)).to_device(DEVICE).shuffle(buffer_size=3).map(tensor).to_device(DEVICE),
    ),
    Specimen("iter.to_device", "an empty stream", lambda tap: tap(IterableWrapper([])).to_device(DEVICE)),
    Specimen("iter.pin_memory", "an empty stream", lambda tap: pinned(tap(IterableWrapper([])))),
]
