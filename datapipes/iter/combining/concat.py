"""concat: one stream after another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, TypeVar

from datapipes.description.indexed import Indexed, all_indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.position.cells import Cell, count
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class Concater(IterDataPipe[T_co]):
    """All of the first input, then all of the next.

    Args:
        *datapipes: The inputs, in this order; as a method, those after the stream that it is called on.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").concat(IterableWrapper("c")))
    ['a', 'b', 'c']
    """

    _fluent: ClassVar[str | None] = "concat"

    datapipes: tuple[IterDataPipe[T_co], ...]

    def __init__(self, *datapipes: IterDataPipe[T_co]) -> None:
        self.datapipes = datapipes
        needs_streams(self, datapipes)

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(
            [at.source(pipe) for pipe in self.datapipes], at.cell(lambda: _Which(len(self.datapipes)))
        )

    def _elements(self, sources: list[Iterator[T_co]], which: _Which) -> Iterator[T_co]:
        while which.index < len(sources):
            yield from sources[which.index]
            which.index += 1

    def _indexed(self) -> Indexed | None:
        parts = all_indexed(self.datapipes)
        if parts is None:
            return None
        ends = list(accumulate(part.length for part in parts))
        return Indexed(ends[-1], partial(self._at, ends, [part.at for part in parts]))

    def _at(self, ends: list[int], parts: list[Callable[[int], T_co]], i: int) -> T_co:
        which = bisect_right(ends, i)
        return parts[which](i - (ends[which - 1] if which else 0))

    def __len__(self) -> int:
        return sum(lengths(self, self.datapipes))


class _Which(Cell):
    """Index of the input that is being read."""

    def __init__(self, inputs: int) -> None:
        self.index = 0
        self._inputs = inputs

    def save(self) -> int:
        return self.index

    def load(self, saved: Any) -> None:
        self.index = count(saved, "input", most=self._inputs)
