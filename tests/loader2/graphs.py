"""Graphs whose positions are of every kind, and the states of a loader on its way through one.

Each is a function that builds the graph anew, so that a state meets another graph of the same stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pytest
import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from tests.specimens.specimen import Countable, paths

State: TypeAlias = dict[str, Any]
Graph: TypeAlias = Callable[[], IterDataPipe[Any]]


def twice(element: int) -> Iterator[int]:
    yield element
    yield -element


def buffers() -> IterDataPipe[Any]:
    """Elements in a shuffle buffer, a half-read iterator, and a batch."""
    return IterableWrapper(Countable(*range(17))).shuffle(buffer_size=5).flatmap(twice).batch(3)


def branches() -> IterDataPipe[Any]:
    """Elements that wait for the slower child of a fork, and a list that is half flattened."""
    ahead, behind = IterableWrapper(range(16)).fork(2)
    return ahead.batch(2).unbatch().header(9).batch(3).zip(behind.map(str))


def laps() -> IterDataPipe[Any]:
    """A position within each lap of a cycle."""
    return IterableWrapper(range(4)).shuffle(buffer_size=2).cycle(3).enumerate()


def tensors() -> IterDataPipe[Any]:
    """Tensors in a buffer."""
    return IterableWrapper(Countable(*range(11))).map(torch.tensor).shuffle(buffer_size=4)


def files() -> IterDataPipe[Any]:
    """An open file, the first of which is open from the start, and a buffer."""
    some: IterDataPipe[str] = paths("a.csv", "b.csv", "c.csv")
    return some.open_files().parse_csv().shuffle(buffer_size=3)


GRAPHS: list[Graph] = [buffers, branches, laps, tensors, files]
every_graph = pytest.mark.parametrize("graph", GRAPHS)


def loader_of(graph: Graph, state: State | None = None) -> DataLoader2[Any]:
    """A loader that stands where a state says, or before the first epoch of one and the same seed."""
    loader = DataLoader2(graph())
    if state is None:
        loader.seed(3)
    else:
        loader.load_state_dict(state)
    return loader


def as_0_1_0(state: State) -> State:
    """A state of a loader or an iterator as 0.1.0 saved it: of version 1, without the fields that came later."""
    later = ("number", "buffered", "origins", "passes", "checksum")
    return {name: value for name, value in {**state, "version": 1}.items() if name not in later}


def shown(elements: Iterable[Any]) -> list[str]:
    """Elements as texts, which can be compared whatever they are."""
    return [repr(element) for element in elements]


def states_of(graph: Graph) -> list[tuple[State, list[str]]]:
    """Every state of an epoch, and what comes after it: the rest of the epoch and the next one."""
    loader = loader_of(graph)
    epochs = [shown(iter(loader)), shown(iter(loader))]
    loader.seed(3)
    iterator = iter(loader)
    states = []
    for position in range(len(epochs[0]) + 1):
        states.append((loader.state_dict(), epochs[0][position:] + epochs[1]))
        next(iterator, None)
    return [*states, (loader.state_dict(), epochs[1])]


def what_follows(loader: DataLoader2[Any]) -> list[str]:
    """The rest of the epoch under way and the next one, or only the next one if none is under way."""
    running = loader.state_dict()["status"] == "running"
    return shown(iter(loader)) + (shown(iter(loader)) if running else [])
