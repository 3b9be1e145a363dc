"""cycle: the whole stream several times, each lap in an opening of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, TypeVar

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.operator_support.checks import needs_count, source_length
from datapipes.position.laps import ALONE, LapCell
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class Cycler(IterDataPipe[T_co]):
    """The source several times, or without end; a shuffle above it draws another order each time.

    An empty source ends it, whatever the count.

    Args:
        count: Number of laps; 0 gives no elements. ``None``: without end.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").cycle(2))
    ['a', 'b', 'a', 'b']
    """

    _fluent: ClassVar[str | None] = "cycle"
    _passes_through: ClassVar[bool] = True
    _exclusive_because = ALONE.format("cycle()")

    source_datapipe: IterDataPipe[T_co]
    count: int | None = None

    def __post_init__(self) -> None:
        needs_count(self, "count", 0, f"Expected non-negative count, got {self.count}", or_none=True)

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        lap = at.cell(LapCell)
        lap.begin(at, self.source_datapipe)
        return self._laps(at, lap)

    def _laps(self, at: Opening, lap: LapCell) -> Iterator[T_co]:
        while self.count is None or lap.number < self.count:
            if not (yield from lap.elements(at, self.source_datapipe)):
                return

    def _indexed(self) -> Indexed | None:
        lap = indexed(self.source_datapipe)
        if lap is None or lap.length == 0:
            return lap
        length = sys.maxsize if self.count is None else self.count * lap.length
        return Indexed(min(length, sys.maxsize), partial(self._at, lap.length, lap.at))

    def _at(self, lap: int, at: Callable[[int], T_co], i: int) -> T_co:
        return at(i % lap)

    def __len__(self) -> int:
        if self.count is None:
            raise TypeError(f"{stage(self)} cycles forever, and therefore doesn't have valid length")
        return self.count * source_length(self, self.source_datapipe)
