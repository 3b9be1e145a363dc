"""Pipes as users wrote them for torchdata 0.9 or for torch, in each of the shapes that an ``__iter__`` can have.

They keep to what those libraries promised, and know nothing of sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from torch.utils.data import IterDataPipe as TorchIterDataPipe

from datapipes.graph import Pipe
from datapipes.iter import Batcher, IterDataPipe


class Generator(IterDataPipe[Any]):
    """A generator function."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        yield from self.source_datapipe

    def __len__(self) -> int:
        return len(self.source_datapipe)


class ReturnsAnother(Generator):
    """Returns an iterator that was made elsewhere."""

    def __iter__(self) -> Iterator[Any]:
        return map(_itself, self.source_datapipe)


class ItsOwnIterator(IterDataPipe[Any]):
    """Returns itself, and begins anew whenever it is asked to."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        self.elements = iter(self.source_datapipe)
        return self

    def __next__(self) -> Any:
        return next(self.elements)


class OnlyNext(IterDataPipe[Any]):
    """Has ``__next__`` and ``reset``, and leaves ``__iter__`` to the base class."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def reset(self) -> None:
        self.elements = iter(self.source_datapipe)

    def __next__(self) -> Any:
        return next(self.elements)


class OfTorch(TorchIterDataPipe[Any]):
    """A subclass of torch's own base."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        yield from self.source_datapipe


class SaysWhereItIs(Generator):
    """Remembers by itself how far it is."""

    total = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            self.total += 1
            yield element

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


SHAPES = [Generator, ReturnsAnother, ItsOwnIterator, OnlyNext, OfTorch, SaysWhereItIs]


class Buffered(IterDataPipe[Any]):
    """Gives elements in pairs, out of a buffer that it changes in place and ``reset`` puts in order."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.buffer: list[Any] = []

    def reset(self) -> None:
        self.buffer = []

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            self.buffer.append(element)
            if len(self.buffer) == 2:
                yield tuple(self.buffer)
                self.buffer.clear()


class Noisy(IterDataPipe[Any]):
    """Draws from a generator of its own, which ``set_seed`` seeds in place."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.random = Random(0)
        self.seeds: tuple[int, ...] = ()

    def set_seed(self, seed: int) -> Noisy:
        self.random.seed(seed)
        self.seeds = (*self.seeds, seed)
        return self

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, self.random.randrange(10**9)


class Switched(Generator):
    """Can be told to shuffle, or not to."""

    shuffled = True

    def set_shuffle(self, shuffle: bool) -> None:
        self.shuffled = shuffle

    def set_seed(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        elements = list(self.source_datapipe)
        if self.shuffled:
            Random(self.seed).shuffle(elements)
        yield from elements


class TakesAPart(Generator):
    """Shards, and notes each call on the way."""

    part = (1, 0)

    def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
        self.part = (num_of_instances, instance_id)

    def __iter__(self) -> Iterator[Any]:
        for i, element in enumerate(self.source_datapipe):
            if i % self.part[0] == self.part[1]:
                yield element


class Twice(Generator):
    """Reads its source twice, as a class does that computes something about all of it first."""

    def __iter__(self) -> Iterator[Any]:
        total = sum(1 for _ in self.source_datapipe)
        for element in self.source_datapipe:
            yield element, total


class SeveralSources(IterDataPipe[Any]):
    """Takes from several sources in turn."""

    def __init__(self, *sources: Pipe) -> None:
        self.sources = list(sources)

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.sources, strict=False):
            yield from row


class InPairs(Batcher[Any]):
    """Derived from an operator, whose own ``__iter__`` it calls."""

    def __init__(self, datapipe: Pipe) -> None:
        super().__init__(datapipe, 2)

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            yield tuple(batch)


class InPairsOfText(InPairs):
    """Derived from a class that was derived from an operator."""

    def __iter__(self) -> Iterator[Any]:
        for pair in super().__iter__():
            yield "+".join(map(str, pair))


def _itself(element: Any) -> Any:
    return element
