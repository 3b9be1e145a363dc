"""Graphs as descriptions that can be built of the library's stages, and interpreted without them.

The interpreter works on whole lists and knows nothing of the library (``tests.naive_operators``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from tests.naive_functions import half
from tests.naive_operators import JOINS, STAGES, Elements, Known, each
from tests.specimens.specimen import Countable

MOST_ELEMENTS = 150


class TooMany(ValueError):
    """A graph gives more elements than a test has time for."""


Steps: TypeAlias = tuple[tuple[str, int], ...]


class Graph:
    """A description of a graph that can be built, and interpreted."""

    def build(self) -> Pipe:
        raise NotImplementedError

    def means(self) -> Elements:
        raise NotImplementedError

    def known(self) -> Known:
        raise NotImplementedError

    def changed(self) -> Graph | None:
        """Return the same graph with one source changed, or None if the two graphs are not distinguishable."""
        raise NotImplementedError


KINDS: dict[str, Callable[[Elements], Pipe]] = {
    "list": IterableWrapper,
    "map-style": lambda elements: SequenceWrapper(elements).to_iter_datapipe(),
    "some keys": lambda elements: SequenceWrapper([None, *elements]).to_iter_datapipe(range(1, len(elements) + 1)),
    "unseekable": lambda elements: IterableWrapper(Countable(*elements)),
}


@dataclass(frozen=True)
class Source(Graph):
    """Numbers, from one of ``KINDS``."""

    first: int
    length: int
    kind: str

    def means(self) -> Elements:
        return list(range(self.first, self.first + self.length))

    def build(self) -> Pipe:
        return KINDS[self.kind](self.means())

    def known(self) -> Known:
        return Known.ORDER

    def changed(self) -> Graph | None:
        if self.kind == "unseekable":
            return None
        return replace(self, length=self.length + 1) if self.length % 2 == 0 else replace(self, first=self.first + 1)


@dataclass(frozen=True)
class Stepped(Graph):
    """Stages one below the other."""

    source: Graph
    steps: Steps

    def build(self) -> Pipe:
        return built(self.source.build(), self.steps)

    def means(self) -> Elements:
        return meant(self.source.means(), self.steps)

    def known(self) -> Known:
        return known_behind(self.source.known(), self.steps)

    def changed(self) -> Graph | None:
        source = self.source.changed()
        return None if source is None else replace(self, source=source)


@dataclass(frozen=True)
class Joined(Graph):
    """Two graphs in one."""

    how: str
    first: Graph
    second: Graph

    def build(self) -> Pipe:
        return JOINS[self.how].build(self.first.build(), self.second.build())

    def means(self) -> Elements:
        return JOINS[self.how].means(self.first.means(), self.second.means())

    def known(self) -> Known:
        return JOINS[self.how].knows(min(self.first.known(), self.second.known()))

    def changed(self) -> Graph | None:
        first, second = self.first.changed(), self.second.changed()
        if second is not None:
            return replace(self, second=second)
        return None if first is None else replace(self, first=first)


@dataclass(frozen=True)
class Split(Graph):
    """A graph that is forked, or demultiplexed, with stages on each branch, and joined again."""

    forks: bool
    how: str
    source: Graph
    first: Steps
    second: Steps

    def build(self) -> Pipe:
        source = self.source.build()
        a, b = source.fork(2) if self.forks else source.demux(2, half)
        return JOINS[self.how].build(built(a, self.first), built(b, self.second))

    def means(self) -> Elements:
        source = self.source.means()
        a = source if self.forks else [x for x in source if half(x) == 0]
        b = source if self.forks else [x for x in source if half(x) == 1]
        return JOINS[self.how].means(meant(a, self.first), meant(b, self.second))

    def known(self) -> Known:
        known = self.source.known() if self.forks else each(self.source.known())
        return JOINS[self.how].knows(min(known_behind(known, self.first), known_behind(known, self.second)))

    def changed(self) -> Graph | None:
        source = self.source.changed()
        return None if source is None else replace(self, source=source)


def _above(stages: Callable[[Pipe], Pipe], source: Callable[[Any], Pipe], elements: Any) -> Pipe:
    return stages(source(elements))


def built_over(graph: Graph, above: Callable[[Pipe], Pipe]) -> Pipe:
    """Build a graph with a stage, or several, directly below each of its sources."""
    kinds = dict(KINDS)
    try:
        for kind, source in kinds.items():
            KINDS[kind] = partial(_above, above, source)
        return graph.build()
    finally:
        KINDS.update(kinds)


def built(pipe: Pipe, steps: Steps) -> Pipe:
    for name, number in steps:
        pipe = STAGES[name].build(pipe, number)
    return pipe


def meant(elements: Elements, steps: Steps) -> Elements:
    for name, number in steps:
        elements = STAGES[name].means(elements, number)
        if len(elements) > MOST_ELEMENTS:
            raise TooMany(name)
    return elements


def known_behind(known: Known, steps: Steps) -> Known:
    for name, _ in steps:
        known = STAGES[name].knows(known)
    return known
