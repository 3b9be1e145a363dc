"""Specimens of the operators that change what elements hold, several at a time or in the background."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

from torch.utils.data import RandomSampler

from datapipes.iter import IterableWrapper, Sampler
from datapipes.structure import Pipe
from tests.specimen import Function, Specimen, Tap, numbers, shuffled, unseekable
from tests.specimens_of_elements import add_ten, is_even, up_to


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
    Specimen("iter.pin_memory", "what a function makes", lambda tap: pinned(tap(numbers(5)), tap.function(add_ten))),
    Specimen(
        "iter.pin_memory", "what cannot be sought", lambda tap: pinned(tap(unseekable(7)).filter(is_even)).batch(2)
    ),
    shuffled(
        "iter.pin_memory",
        "above and below a shuffle",
        lambda tap: pinned(pinned(tap(numbers(7))).shuffle(buffer_size=3)),
    ),
    Specimen("iter.pin_memory", "an empty stream", lambda tap: pinned(tap(IterableWrapper([])))),
]
