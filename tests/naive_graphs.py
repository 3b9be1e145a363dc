"""Graphs as descriptions that can be built of the library's stages, and interpreted without them.

The interpreter works on whole lists and knows nothing of the library. A shuffle makes it forget: the order first, and
behind stages that depend on the order, all but the length. ``known`` says what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any, TypeAlias
from zlib import crc32

from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from datapipes.structure import Pipe
from tests.specimen import Countable, shown

MOST_ELEMENTS = 150


class TooMany(ValueError):
    """A graph gives more elements than a test has time for."""


class Known(IntEnum):
    """What the interpreter knows of a stream."""

    NOTHING = 0
    LENGTH = 1
    ELEMENTS = 2
    ORDER = 3


Elements: TypeAlias = list[Any]


@dataclass(frozen=True)
class Operator:
    """How a stage is built, what it means for whole lists, and what is known behind it."""

    build: Callable[..., Pipe]
    means: Callable[..., Elements]
    knows: Callable[[Known], Known]


def each(known: Known) -> Known:
    """Behind a stage that works on each element by itself."""
    return Known.NOTHING if known is Known.LENGTH else known


def by_order(known: Known) -> Known:
    """Behind a stage whose elements depend on the order, but whose number of elements does not."""
    return min(known, Known.LENGTH) if known is not Known.ORDER else known


def shuffled(known: Known) -> Known:
    """Behind a shuffle."""
    return min(known, Known.ELEMENTS)


def tagged(x: Any) -> Any:
    return "tag", x


def _digest(x: Any) -> int:
    """A number that follows from an element, the same for a batch and the interpreter's list."""
    return crc32(as_text(x).encode())


def as_text(x: Any) -> str:
    """An element as a text in which a batch looks like the interpreter's list."""
    return shown(x).replace("DataChunk(", "list(")


def keeps(x: Any) -> bool:
    return _digest(x) % 3 != 0


def twins(x: Any) -> list[Any]:
    return [x, x]


def some(x: Any) -> Iterator[Any]:
    """Up to two of a kind, one after the other."""
    for i in range(_digest(x) % 3):
        yield i, x


async def tagged_later(x: Any) -> Any:
    return tagged(x)


def backwards(batch: list[Any]) -> list[Any]:
    return batch[::-1]


def half(x: Any) -> int:
    return _digest(x) % 2


def batched(source: Elements, size: int) -> Elements:
    return [source[i : i + size] for i in range(0, len(source), size)]


def regrouped(source: Pipe, size: int) -> Pipe:
    return source.batch(size).shuffle(buffer_size=2).unbatch()


def without_end(source: Elements, limit: int) -> Elements:
    return [source[i % len(source)] for i in range(limit)] if source else []


def in_turn(a: Elements, b: Elements) -> Elements:
    both = min(len(a), len(b))
    return [*chain.from_iterable(zip(a, b, strict=False)), *a[both:], *b[both:]]


def sharded(source: Pipe, of: int) -> Pipe:
    shard = source.sharding_filter()
    shard.apply_sharding(of, 1 % of)
    return shard


def pushed_down(source: Pipe, of: int) -> Pipe:
    """A shard of much that can be done for its own elements alone."""
    return sharded(source.map(tagged).enumerate().map(tagged), of).map(tagged)


UNARY: dict[str, Operator] = {
    "map": Operator(lambda s, n: s.map(tagged), lambda s, n: [tagged(x) for x in s], each),
    "filter": Operator(lambda s, n: s.filter(keeps), lambda s, n: [x for x in s if keeps(x)], each),
    "flatmap": Operator(lambda s, n: s.flatmap(twins), lambda s, n: [y for x in s for y in twins(x)], each),
    "generate": Operator(lambda s, n: s.flatmap(some), lambda s, n: [y for x in s for y in some(x)], each),
    "mixture": Operator(
        lambda s, n: s.shuffled_flatmap(some, buffer_size=n),
        lambda s, n: [y for x in s for y in some(x)],
        lambda known: shuffled(each(known)),
    ),
    "threads": Operator(
        lambda s, n: s.threadpool_map(tagged, scheduled_tasks=n, max_workers=2),
        lambda s, n: [tagged(x) for x in s],
        each,
    ),
    "coroutines": Operator(
        lambda s, n: s.async_map_batches(tagged_later, n), lambda s, n: [tagged(x) for x in s], each
    ),
    "backwards": Operator(
        lambda s, n: s.map_batches(backwards, n),
        lambda s, n: [x for batch in batched(s, n) for x in backwards(batch)],
        lambda known: known,
    ),
    "repeat": Operator(lambda s, n: s.repeat(n + 1), lambda s, n: [x for x in s for _ in range(n + 1)], each),
    "prefetch": Operator(lambda s, n: s.prefetch(n), lambda s, n: s, lambda known: known),
    "shuffle": Operator(lambda s, n: s.shuffle(buffer_size=2 * n), lambda s, n: s, shuffled),
    "regroup": Operator(regrouped, lambda s, n: s, shuffled),
    "batch": Operator(lambda s, n: s.batch(n), batched, by_order),
    "enumerate": Operator(lambda s, n: s.enumerate(), lambda s, n: list(enumerate(s)), by_order),
    "header": Operator(lambda s, n: s.header(2 * n), lambda s, n: s[: 2 * n], by_order),
    "sharding": Operator(lambda s, n: sharded(s, n + 1), lambda s, n: s[1 :: n + 1], by_order),
    "pushdown": Operator(
        lambda s, n: pushed_down(s, n + 1),
        lambda s, n: [tagged(tagged((i, tagged(x)))) for i, x in enumerate(s)][1 :: n + 1],
        by_order,
    ),
    "shuffled shard": Operator(
        lambda s, n: sharded(s.map(tagged).shuffle(buffer_size=n + 1).map(tagged), n),
        lambda s, n: [tagged(tagged(x)) for x in s][1 % n :: n],
        lambda known: by_order(shuffled(known)),
    ),
    "with itself": Operator(lambda s, n: s.zip(s), lambda s, n: list(zip(s, s, strict=True)), by_order),
    "cycle": Operator(lambda s, n: s.cycle(n), lambda s, n: s * n, each),
    "no end": Operator(lambda s, n: s.cycle().header(4 * n), lambda s, n: without_end(s, 4 * n), by_order),
}

JOINS: dict[str, Operator] = {
    "zip": Operator(lambda a, b: a.zip(b), lambda a, b: list(zip(a, b, strict=False)), by_order),
    "mux": Operator(lambda a, b: a.mux(b), lambda a, b: list(chain.from_iterable(zip(a, b, strict=False))), by_order),
    "mux_longest": Operator(lambda a, b: a.mux_longest(b), in_turn, by_order),
    "concat": Operator(lambda a, b: a.concat(b), lambda a, b: a + b, each),
}

Steps: TypeAlias = tuple[tuple[str, int], ...]


class Graph:
    """A description of a graph that can be built, and interpreted."""

    def build(self) -> Pipe:
        raise NotImplementedError

    def means(self) -> Elements:
        raise NotImplementedError

    def known(self) -> Known:
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


def built(pipe: Pipe, steps: Steps) -> Pipe:
    for name, number in steps:
        pipe = UNARY[name].build(pipe, number)
    return pipe


def meant(elements: Elements, steps: Steps) -> Elements:
    for name, number in steps:
        elements = UNARY[name].means(elements, number)
        if len(elements) > MOST_ELEMENTS:
            raise TooMany(name)
    return elements


def known_behind(known: Known, steps: Steps) -> Known:
    for name, _ in steps:
        known = UNARY[name].knows(known)
    return known
