"""Limits on the work of reading encoded elements, so that a few bytes cannot ask for much.

A pickle may use one object many times, and whatever is done per use is then multiplied: copying it, hashing it (a
tuple of twice the same tuple of twice the same ... is hashed in its full size), comparing keys that have the same hash.
All of it is paid here before it is done. What this file keeps true: an account holds an amount that is in proportion to
the bytes being read, and more than what packing wrote can need.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from dataclasses import fields, is_dataclass
from math import inf
from typing import Any, Final

import datapipes.elements.classes as element_classes

MOST_KEY_DEPTH: Final = 1_000  # tuples are hashed recursively

_LIGHT: Final = frozenset((str, bytes, float, bool, type(None)))  # hashed at once, or once and for all
_MOST_BITS: Final = 8_192  # of an int that is as good as light


class Account:
    """Budget of copying and hashing, in proportion to the number of bytes that are read.

    >>> Account(100).pay_for_copies(("Decimal", "3.14"))
    """

    def __init__(self, size: int) -> None:
        self._copies = 4096 + 2 * size  # packing writes out anew nearly all that a maker copies
        self._hashing: float = 2_000_000 + 4 * size
        self._census: dict[int, dict[int, int]] = {}  # how many keys of a container have the same hash, by its id

    def pay_for_copies(self, parts: tuple[Any, ...]) -> None:
        """Pay for an element to be made of these parts."""
        self._copies -= int(min(_weight(parts, self._copies), self._copies + 1)) + sum(map(_length, parts))
        if self._copies < 0:
            raise ValueError("more copies of the same bytes than packing makes")

    def pay_for_keys(self, keys: Iterable[Any], holder: object = None) -> None:
        """Pay for keys to be hashed, and to be compared with those of the same hash that are there or will be."""
        census: dict[int, int] | None = {} if holder is None else None
        for key in keys:
            if type(key) is str or type(key) is bytes:
                continue  # hashed once, to a number that nobody could know beforehand
            work = _weight(key, self._hashing, hashing=True)
            self._pay_for_hashing(work)
            if census is None:
                census = self._census.setdefault(id(holder), {})
            same = census.get(hash(key), 0)
            census[hash(key)] = same + 1
            self._pay_for_hashing(work * same)

    def _pay_for_hashing(self, work: float) -> None:
        self._hashing -= work
        if self._hashing < 0:
            raise ValueError("keys that take too much work to tell apart")


def _weight(value: Any, limit: float, hashing: bool = False) -> float:
    """Number of parts of a value, a shared one counted each time it is met; given up beyond the limit."""
    weight, pending = 1.0, [(value, 0)]
    while pending and weight <= limit:
        part, depth = pending.pop()
        if depth > MOST_KEY_DEPTH:
            return inf
        within = _hashed_with(part) if hashing else part if type(part) is tuple else ()
        weight += len(within)
        pending += [
            (inner, depth + 1)
            for inner in within
            if type(inner) not in _LIGHT and not (type(inner) is int and inner.bit_length() <= _MOST_BITS)
        ]
        if hashing and type(part) not in _LIGHT and not within and not element_classes.is_allowed(type(part)):
            # Comparing numbers of different types converts them, which can take the square of their size.
            weight += (sys.getsizeof(part) >> 10) ** 2
    return weight


def _hashed_with(key: Any) -> Collection[Any]:
    """Parts that are hashed and compared with a key. A ``__hash__`` that was written by hand is its author's affair."""
    cls: Any = type(key)
    if isinstance(key, tuple | frozenset):
        return key
    if is_dataclass(cls) and cls.__hash__ is not object.__hash__:
        return [getattr(key, field.name) for field in fields(cls) if field.compare]
    return ()


def _length(part: Any) -> int:
    """Number of bytes or items that a maker may copy of one part."""
    if type(part) is int:
        return part.bit_length() >> 3
    return len(part) if type(part) in (str, bytes, bytearray, list) else 0
