"""Iterators written in C that count the elements taken, without a Python call for an element.

``Counted`` counts what passes: ``compress`` pulls an element and then a number from a range, and the range knows how
many it has given. An element is counted when it has been handed on, so an exception in the source counts nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice
from operator import length_hint
from typing import Any, Generic, TypeVar

from datapipes.errors import StateError
from datapipes.position.cells import Cell, count

T = TypeVar("T")


class Counted(Generic[T]):
    """An iterator, ``elements``, and the number of its elements that were taken, ``taken``.

    >>> letters = Counted("abc", start=10)
    >>> next(letters.elements), letters.taken
    ('a', 11)
    """

    __slots__ = ("_marks", "elements")

    def __init__(self, source: Iterable[T], start: int = 0) -> None:
        self._marks = iter(range(1 + start, sys.maxsize))
        self.elements: Iterator[T] = compress(source, self._marks)

    @property
    def taken(self) -> int:
        return sys.maxsize - 1 - length_hint(self._marks)


def skip(iterator: Iterator[object], count: int) -> int:
    """Pass over ``count`` elements; the number that there were."""
    counted = Counted(islice(iterator, count))
    for _ in counted.elements:
        pass
    return counted.taken


class Given(Cell):
    """The position of a stage that only has to know how many elements it has taken."""

    def __init__(self) -> None:
        self._behind = 0
        self._counted: Counted[Any] | None = None

    def counting(self, source: Iterable[T]) -> Iterator[T]:
        """The elements of an iterable that goes on where this position is, counted."""
        self._counted = Counted(source, start=self.save())
        return self._counted.elements

    def following(self, sequence: Sequence[T]) -> Iterator[T]:
        """The elements of a sequence from this position on, counted."""
        if self.save() > len(sequence):
            raise StateError(f"{self.label}: {self.save()} elements were given, and there are {len(sequence)}")
        return self.counting(sequence[self.save() :])

    def save(self) -> int:
        return self._behind if self._counted is None else self._counted.taken

    done = save

    def load(self, saved: Any) -> None:
        self._behind = count(saved)
