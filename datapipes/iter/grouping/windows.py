"""sliding_window: windows over adjacent elements; they may overlap, touch, or leave elements out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import StateError
from datapipes.operator_support.checks import needs_count, source_length
from datapipes.operator_support.windows import windows_in
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class SlidingWindow(IterDataPipe[list[T_co]]):
    """Lists of ``size`` adjacent elements, each beginning ``step`` elements after the previous one.

    An element that is in several windows is the same object in each.

    Args:
        size: The number of elements in a window.
        step: Distance between the beginnings of two windows. One larger than ``size`` leaves elements out.
        partial: Whether to give the elements at the end that are in no full window as a last, shorter one. If there are
            fewer than ``size`` elements in all, it is the only one.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(6)).sliding_window(3, step=2))
    [[0, 1, 2], [2, 3, 4]]
    >>> list(IterableWrapper(range(6)).sliding_window(3, step=2, partial=True))
    [[0, 1, 2], [2, 3, 4], [4, 5]]
    """

    _fluent: ClassVar[str | None] = "sliding_window"

    source_datapipe: IterDataPipe[T_co]
    size: int
    step: int = 1
    partial: bool = False

    def __post_init__(self) -> None:
        needs_count(self, "size", 1, "A window has at least one element")
        needs_count(self, "step", 1, "The next window begins at least one element further")

    def _open(self, at: Opening) -> Iterator[list[T_co]]:
        return self._windows(at.source(self.source_datapipe), at.cell(lambda: _WindowCell(self.size, self.step)))

    def _windows(self, source: Iterator[Any], cell: _WindowCell) -> Iterator[list[T_co]]:
        size, step, elements = self.size, self.step, cell.elements
        held, between = max(size - step, 0), max(step - size, 0)
        while True:
            for _ in islice(source, cell.between):
                cell.between -= 1
            elements.extend(islice(source, size - len(elements)))
            if len(elements) < size:
                break
            window = elements[:]
            del elements[:step]  # from here on without a call: no signal can arrive before the yield
            cell.held, cell.between = held, between
            yield window
        left = elements[:] if len(elements) > cell.held else []
        del elements[:]
        if left and self.partial:
            yield left

    def __len__(self) -> int:
        return windows_in(source_length(self, self.source_datapipe), self.size, self.step, self.partial)


class _WindowCell(Cell):
    """Elements of the next window so far, and the number of elements to leave out before it."""

    def __init__(self, size: int, step: int) -> None:
        self._most = size - 1, max(step - size, 0)
        self.elements: list[Any] = []
        self.held = 0  # number of these that an earlier window had
        self.between = 0

    def save(self) -> Any:
        elements = self.encode(self.elements) if self.elements else None
        return {"elements": elements, "held": self.held, "between": self.between}

    def load(self, saved: Any) -> None:
        elements, held, between = fields(saved, "elements", "held", "between")
        if elements is not None:
            self.elements += self.decode_list(elements)
        if len(self.elements) > self._most[0] + 1:  # an interruption may have come when it was full and not handed on
            raise StateError(f"elements: found {len(self.elements)}, but a window has {self._most[0] + 1}")
        self.held = count(held, "held", most=self._most[0])
        self.between = count(between, "between", most=self._most[1])

    def close(self) -> None:
        self.elements.clear()
