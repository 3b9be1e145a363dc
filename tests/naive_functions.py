"""The functions that the stages of random graphs are given, and what some stages mean for whole lists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any
from zlib import crc32

from tests.specimens.specimen import shown


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


def windows(elements: list[Any], size: int, step: int, partial: bool = False) -> list[Any]:
    begun = [range(len(elements))[i : i + size] for i in range(0, len(elements), step)]
    full = [window for window in begun if len(window) == size]
    held = {i for window in full for i in window}
    last = [window for window in begun[len(full) :][:1] if partial and not held >= {*window}]
    return [[elements[i] for i in window] for window in full + last]


def backwards(batch: list[Any]) -> list[Any]:
    return batch[::-1]


def half(x: Any) -> int:
    return _digest(x) % 2


def third(x: Any) -> int:
    return _digest(x) % 3


def weight(x: Any) -> int:
    return _digest(x) % 5


def raising(x: Any) -> Any:
    if not keeps(x):
        raise ValueError("refused")
    return x


def careful(x: Any) -> Any:
    return tagged(raising(x))


async def careful_later(x: Any) -> Any:
    return careful(x)


def careful_twins(x: Any) -> list[Any]:
    return twins(careful(x))


def careful_all(batch: list[Any]) -> list[Any]:
    return [careful(x) for x in batch]


def raising_late(x: Any) -> Iterator[Any]:
    yield x
    yield raising(x)


def is_kept(x: Any) -> bool:
    return raising(x) is x


def batched(source: list[Any], size: int) -> list[Any]:
    return [source[i : i + size] for i in range(0, len(source), size)]


def without_end(source: list[Any], limit: int) -> list[Any]:
    return [source[i % len(source)] for i in range(limit)] if source else []


def in_turn(a: list[Any], b: list[Any]) -> list[Any]:
    both = min(len(a), len(b))
    return [*chain.from_iterable(zip(a, b, strict=False)), *a[both:], *b[both:]]


def grouped(source: list[Any], size: int | None, most: float = float("inf")) -> list[Any]:
    """list[Any] of one third in groups of ``size``; once ``most`` wait, the largest group makes room."""
    waiting: dict[int, list[Any]] = {}
    groups = []
    for x in source:
        waiting.setdefault(third(x), []).append(x)
        if len(waiting[third(x)]) == size:
            groups.append(waiting.pop(third(x)))
        if sum(map(len, waiting.values())) == most:
            groups.append(waiting.pop(max(waiting, key=lambda key: len(waiting[key]))))
    return groups + list(waiting.values())


def bucketized(source: list[Any], buffer_size: int, padded: bool) -> list[Any]:
    """Batches of a weight of up to 4, always of the lightest that wait."""
    waiting: list[Any] = []
    batches: list[list[Any]] = [[]]

    def place_lightest() -> None:
        x = waiting.pop(min(range(len(waiting)), key=lambda i: weight(waiting[i])))
        batch = [*batches[-1], x]
        cost = max(map(weight, batch)) * len(batch) if padded else sum(map(weight, batch))
        if cost > 4:
            batches.append([x])
        else:
            batches[-1] = batch

    for x in source:
        waiting.append(x)
        if len(waiting) == buffer_size:
            place_lightest()
    while waiting:
        place_lightest()
    return [batch for batch in batches if batch]


def columns_meant(x: Any, n: int) -> Any:
    columns = [x, [x], "end"]
    del columns[n % 3]
    return tuple(columns)


def in_columns_meant(source: list[Any], size: int) -> list[Any]:
    rows = batched(list(enumerate(source)), size)
    return [{"number": [i for i, _ in batch], "x": [x for _, x in batch]} for batch in rows]
