"""mux: the elements of several inputs in turn.

A round is handed on once every input has given its element of it. Elements of a round are nobody's partners, so nothing
is given up if an input raises: the round waits for the next element of that input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from datapipes.cells import Cell, fields
from datapipes.iter.inputs import lengths, needs_streams
from datapipes.iter.wrapper import IterableWrapper
from datapipes.opening import Opening
from datapipes.pipe import IterDataPipe
from datapipes.structure import is_stream


class Multiplexer(IterDataPipe[Any]):
    """One element of each input in turn, as long as each has one.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("abc").mux(IterableWrapper([1, 2])))
    ['a', 1, 'b', 2]
    """

    _fluent: ClassVar[str | None] = "mux"

    def __init__(self, *datapipes: Iterable[Any]) -> None:
        self.datapipes = tuple(p if is_stream(p) else IterableWrapper(p, deepcopy=False) for p in datapipes)
        needs_streams(self, self.datapipes)

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._elements([at.source(pipe) for pipe in self.datapipes], at.cell(_Round))

    def _elements(self, sources: list[Iterator[Any]], cell: _Round) -> Iterator[Any]:
        left, taken = cell.left, cell.taken
        while True:
            while left:
                yield left.popleft()
            for source in sources[len(taken) :]:
                for element in source:
                    taken.append(element)
                    break
                else:
                    return
            left.extend(taken)
            taken.clear()

    def __len__(self) -> int:
        return min(lengths(self, self.datapipes)) * len(self.datapipes)


class _Round(Cell):
    """What is left of the round that is being handed on, and what was taken for the next one."""

    def __init__(self) -> None:
        self.left: deque[Any] = deque()
        self.taken: list[Any] = []

    def save(self) -> Any:
        if not self.left and not self.taken:
            return None
        return {"left": self.pack(list(self.left)), "taken": self.pack(self.taken)}

    def load(self, saved: Any) -> None:
        if saved is not None:
            left, taken = map(self.unpack_list, fields(saved, "left", "taken"))
            self.left.extend(left)
            self.taken += taken

    def close(self) -> None:
        self.left.clear()
        self.taken.clear()
