"""sliding_window of map-style pipes: each window has a key, so that windows can be shuffled."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.description.printing import stage
from datapipes.operator_support.checks import length_of, needs_count, source_length
from datapipes.operator_support.windows import windows_in

T_co = TypeVar("T_co", covariant=True)


@operator
class SlidingWindow(MapDataPipe[list[T_co]]):
    """Under key ``k``, the ``size`` elements from key ``k * step`` on, as a list. The source must have a length.

    Args:
        size: The number of elements in a window.
        step: Distance between the beginnings of two windows. One larger than ``size`` leaves elements out.
        partial: Whether to give the elements at the end that are in no full window as a last, shorter one.

    >>> from datapipes.map import SequenceWrapper
    >>> dp = SequenceWrapper(range(6)).sliding_window(3, step=2)
    >>> dp[1], len(dp)
    ([2, 3, 4], 2)
    """

    _fluent: ClassVar[str | None] = "sliding_window"

    source_datapipe: MapDataPipe[T_co]
    size: int
    step: int = 1
    partial: bool = False

    def __post_init__(self) -> None:
        needs_count(self, "size", 1, "A window has at least one element")
        needs_count(self, "step", 1, "The next window begins at least one element further")

    def __getitem__(self, key: Any) -> list[T_co]:
        if not 0 <= key < len(self):
            raise IndexError(f"Index {key} is out of bound: there is no such window, in {stage(self)}")
        first = key * self.step
        return [self.source_datapipe[i] for i in range(first, min(first + self.size, length_of(self.source_datapipe)))]

    def __len__(self) -> int:
        return windows_in(source_length(self, self.source_datapipe), self.size, self.step, self.partial)
