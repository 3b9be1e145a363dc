"""A shuffle of the elements of a map-style pipe is one of their numbers: nothing else can tell, and old states load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch

from datapipes.iter import Collator, IterableWrapper, Shuffler
from datapipes.map import MapDataPipe, SequenceWrapper
from loader2 import DataLoader2

LENGTH = 20


class Read(MapDataPipe[int]):
    """Numbers, and a note of each that was read."""

    def __init__(self, bad: int | None = None) -> None:
        self.read: list[int] = []
        self.bad = bad

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, key: int) -> int:
        self.read.append(key)
        if key == self.bad:
            raise ValueError(f"{key} is bad")
        return 10 * key


def failing(element: Any) -> Any:
    if isinstance(element, int) and element in (30, 110):
        raise ValueError(f"{element} is bad")
    return element


def first_fails(batch: torch.Tensor) -> torch.Tensor:
    if bool((batch == 0).any()):
        raise ValueError("the first row is bad")
    return batch


def numbers() -> Any:
    return SequenceWrapper(range(0, 10 * LENGTH, 10)).to_iter_datapipe()


def rows() -> Any:
    return SequenceWrapper(torch.arange(3.0 * LENGTH).view(LENGTH, 3)).to_iter_datapipe()


def arrays() -> Any:
    return SequenceWrapper(torch.arange(3.0 * LENGTH).view(LENGTH, 3).numpy()).to_iter_datapipe()


GRAPHS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: numbers().shuffle(buffer_size=6),
    "all numbers": lambda: numbers().shuffle(buffer_size=100),
    "an error below": lambda: numbers().shuffle(buffer_size=6).map(failing),
    "an error below a batch": lambda: numbers().shuffle(buffer_size=6).map(failing).batch(3),
    "rows": lambda: rows().shuffle(buffer_size=6).batch(3),
    "rows in tensors": lambda: rows().shuffle(buffer_size=6).batch(3).collate(),
    "arrays in tensors": lambda: arrays().shuffle(buffer_size=6).batch(3).collate(),
    "an error below tensors": lambda: rows().shuffle(buffer_size=6).batch(3).collate().map(first_fails),
    "an error below arrays": lambda: arrays().shuffle(buffer_size=6).batch(3).collate().map(first_fails),
    "copies of a list's": lambda: (
        IterableWrapper([[10 * i] for i in range(LENGTH)]).shuffle(buffer_size=6).map(sum).map(failing)
    ),
    "copies in one shard": lambda: (
        IterableWrapper([[i] for i in range(LENGTH)]).shuffle(buffer_size=6).sharding_filter()
    ),
    "one shard": lambda: numbers().shuffle(buffer_size=6).sharding_filter().map(failing),
    "two shuffles": lambda: numbers().shuffle(buffer_size=6).shuffle(buffer_size=4).map(failing),
    "cycle": lambda: numbers().shuffle(buffer_size=6).cycle(2).map(failing),
    "prefetch": lambda: numbers().shuffle(buffer_size=6).prefetch(2).map(failing),
    "no shuffle": lambda: numbers().shuffle(buffer_size=6).set_shuffle(False).map(failing),
}


def loader(graph: str) -> DataLoader2[Any]:
    dl: DataLoader2[Any] = DataLoader2(GRAPHS[graph]())
    dl.seed(5)
    return dl


def outcomes(dl: DataLoader2[Any], states: list[Any] | None = None) -> list[str]:
    """What each ``next`` does; ``states`` is given the state before each of them."""
    found, elements = [], iter(dl)
    while True:
        if states is not None:
            states.append(dl.state_dict())
        try:
            found.append(repr(next(elements)))
        except StopIteration:
            return found
        except ValueError as error:
            found.append(str(error).partition("\n")[0])


@contextmanager
def as_written() -> Iterator[None]:
    with (
        patch.object(Shuffler, "_rewritten_for_run", lambda stage, run: stage),
        patch.object(Collator, "_rewritten_for_run", lambda stage, run: stage),
    ):
        yield


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("by_rows", [True, False], ids=["a state with rows", "a state with numbers"])
def test_elements_are_the_same_and_each_state_goes_on(graph: str, by_rows: bool) -> None:
    states: list[Any] = []
    with as_written():
        expected = outcomes(loader(graph), states)
    assert len(states) == len(expected) + 1
    if not by_rows:
        states.clear()
        assert outcomes(loader(graph), states) == expected
    for at, state in enumerate(states):
        resumed = loader(graph)
        resumed.load_state_dict(state)
        again: list[Any] = []
        assert outcomes(resumed, again) == expected[at:]
        twice = loader(graph)
        twice.load_state_dict(again[len(again) // 2])
        assert outcomes(twice) == expected[at + len(again) // 2 :]


def test_nothing_is_read_for_the_buffer() -> None:
    data = Read()
    elements = iter(data.to_iter_datapipe().shuffle(buffer_size=10))
    given = [next(elements), next(elements)]
    assert [10 * key for key in data.read] == given


def test_what_cannot_be_read_is_an_error_in_its_place() -> None:
    def found(bad: int | None) -> list[str]:
        dl: DataLoader2[Any] = DataLoader2(Read(bad).to_iter_datapipe().shuffle(buffer_size=6))
        dl.seed(5)
        return outcomes(dl)

    assert found(bad=7) == ["7 is bad" if element == "70" else element for element in found(bad=None)]
