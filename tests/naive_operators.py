"""The stages that random graphs are made of: how each is built of the library's, and what it means for whole lists.

``known`` says what is left to know behind a stage: a shuffle makes the interpreter forget the order first, and behind
stages that depend on the order, all but the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any, TypeAlias
from zlib import crc32

from datapipes.structure import Pipe
from tests.specimen import shown


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
