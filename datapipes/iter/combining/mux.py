"""mux, mux_longest: elements of several inputs in turn.

``mux`` hands on a round once every input has given its element. ``mux_longest`` hands on each element at once, and
skips inputs that have ended. The elements of a round are independent, so no element is dropped if an input raises: it
keeps its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import length_hint
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import is_stream
from datapipes.errors import StateError
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.iter.sources.wrapper import IterableWrapper
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening


@operator
class Multiplexer(IterDataPipe[Any]):
    """One element of each input in turn, as long as each has one.

    Args:
        *datapipes: The inputs, in this order; as a method, those after this stream. An input may be any iterable; its
            elements are not copied.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("abc").mux(IterableWrapper([1, 2])))
    ['a', 1, 'b', 2]
    """

    _fluent: ClassVar[str | None] = "mux"

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: Iterable[Any]) -> None:
        self.datapipes = _as_streams(datapipes)
        needs_streams(self, self.datapipes)

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._elements([at.source(pipe) for pipe in self.datapipes], at.cell(_RoundCell))

    def _elements(self, sources: list[Iterator[Any]], cell: _RoundCell) -> Iterator[Any]:
        while True:
            for element in cell.left:
                yield element
            taken = cell.taken
            for source in sources[len(taken) :]:
                for element in source:
                    taken.append(element)
                    break
                else:
                    return
            left = iter(taken)
            cell.round, cell.left, cell.taken = taken, left, []  # without a call: no signal can arrive in between

    def __len__(self) -> int:
        return min(lengths(self, self.datapipes)) * len(self.datapipes)


@operator
class MultiplexerLongest(IterDataPipe[Any]):
    """One element of each input in turn, without inputs that have ended, until all have ended.

    Args:
        *datapipes: The inputs, in this order; as a method, those after this stream. An input may be any iterable; its
            elements are not copied.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("abc").mux_longest(IterableWrapper([1])))
    ['a', 1, 'b', 'c']
    """

    _fluent: ClassVar[str | None] = "mux_longest"

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: Iterable[Any]) -> None:
        self.datapipes = _as_streams(datapipes)
        needs_streams(self, self.datapipes)

    def _open(self, at: Opening) -> Iterator[Any]:
        sources = [at.source(pipe) for pipe in self.datapipes]
        return self._elements(sources, at.cell(lambda: _TurnsCell(len(sources))).live)

    def _elements(self, sources: list[Iterator[Any]], live: deque[int]) -> Iterator[Any]:
        while live:
            for element in sources[live[0]]:
                which = live[0]
                del live[0]
                live += (which,)  # without a call: no signal can arrive in between
                yield element
                break
            else:
                live.popleft()

    def __len__(self) -> int:
        return sum(lengths(self, self.datapipes))


def _as_streams(inputs: tuple[Any, ...]) -> tuple[IterDataPipe[Any], ...]:
    return tuple(p if is_stream(p) else IterableWrapper(p, deepcopy=False) for p in inputs)


class _RoundCell(Cell):
    """Remaining elements of the current round, and those taken for the next one."""

    def __init__(self) -> None:
        self.round: list[Any] = []
        self.left: Iterator[Any] = iter(self.round)
        self.taken: list[Any] = []

    def save(self) -> Any:
        left = self.round[len(self.round) - length_hint(self.left) :]
        if not left and not self.taken:
            return None
        return {"left": self.encode(left), "taken": self.encode(self.taken)}

    def load(self, saved: Any) -> None:
        if saved is not None:
            self.round, self.taken = map(self.decode_list, fields(saved, "left", "taken"))
            self.left = iter(self.round)

    def close(self) -> None:
        self.round, self.left, self.taken = [], iter(()), []


class _TurnsCell(Cell):
    """The inputs that have not ended, in the order of their turns."""

    def __init__(self, number_of_inputs: int) -> None:
        self._last = number_of_inputs - 1
        self.live = deque(range(number_of_inputs))

    def save(self) -> list[int]:
        return list(self.live)

    def load(self, saved: Any) -> None:
        if type(saved) is not list:
            raise StateError(f"expected a list of inputs, found {type(saved).__name__}")
        live = [count(i, "input", most=self._last) for i in saved]
        if sum(live[i - 1] >= live[i] for i in range(len(live))) > 1:  # the turns keep a cyclic order
            raise StateError(f"expected each input once, in their order, found {live}")
        self.live.clear()
        self.live.extend(live)
