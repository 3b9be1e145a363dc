"""memory_cell: remember the last elements that went by, for somebody who holds the pipe.

This is the one stage that tells, on the pipe itself, what went by in an iteration: the pipe and the copies that an
iteration makes of it share one memory. It is no part of a position, and is not pickled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.checks import needs_count
from datapipes.position.counting import Given
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class MemoryCell(IterDataPipe[T_co]):
    """The same elements; the last of them can be asked for, each with its number.

    Args:
        remember_elements: How many can be asked for; they stay in memory as long as the pipe does.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper("abc").memory_cell(2)
    >>> list(dp), dp.get_last(), dp.get_buffer()
    (['a', 'b', 'c'], (2, 'c'), [(2, 'c'), (1, 'b')])
    """

    _fluent: ClassVar[str | None] = "memory_cell"

    source_datapipe: IterDataPipe[T_co]
    remember_elements: int = 1000
    _remembered: deque[tuple[int, T_co]] = field(init=False)

    def __post_init__(self) -> None:
        needs_count(
            self, "remember_elements", 1, f"remember_elements must be larger than 0, got {self.remember_elements}"
        )
        self._remembered = deque(maxlen=self.remember_elements)

    def get_last(self) -> tuple[int, T_co] | None:
        """The number of the last element, counted from 0 in its iteration, and the element; None before the first."""
        return self._remembered[-1] if self._remembered else None

    def get_buffer(self) -> list[tuple[int, T_co]]:
        """The remembered elements with their numbers, the last one first."""
        return list(reversed(self._remembered))

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.source(self.source_datapipe), at.cell(Given))

    def _elements(self, source: Iterator[T_co], given: Given) -> Iterator[T_co]:
        remember = self._remembered.append
        for numbered in enumerate(given.counting(source), start=given.save()):
            remember(numbered)
            yield numbered[1]

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_remembered": deque(maxlen=self.remember_elements)}
