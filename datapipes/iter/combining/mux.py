"""mux, mux_longest, SampleMultiplexer: elements of several inputs in turn, or each from one that is drawn by weight.

A round of ``mux`` is handed on once every input has given its element of it; ``mux_longest`` hands on each element as
it comes, and passes over inputs that have ended. Elements of a round are nobody's partners, so nothing is given up if
an input raises: it keeps its turn.

The numbers by which inputs are drawn are made in blocks, each block a pure function of the stage's seed and the block's
number, so the position is their count and which inputs are left, and no generator's state is kept. A number counts once
an element was taken by it: an input that raises is asked again, and costs no other input its turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from math import inf
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import is_stream
from datapipes.errors import BadArgumentType, StateError
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.iter.sources.wrapper import IterableWrapper
from datapipes.operators.checks import needs
from datapipes.operators.random_order import Seeded, shares
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening

_BLOCK = 4096


@operator
class Multiplexer(IterDataPipe[Any]):
    """One element of each input in turn, as long as each has one.

    Args:
        *datapipes: The inputs, in this order; as a method, those after the stream that it is called on. Any
            iterables will do, whose elements are not copied.

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


@operator
class MultiplexerLongest(IterDataPipe[Any]):
    """One element of each input in turn, those that have ended being passed over, until all have ended.

    Args:
        *datapipes: The inputs, in this order; as a method, those after the stream that it is called on. Any
            iterables will do, whose elements are not copied.

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
        return self._elements(sources, at.cell(lambda: _Turns(len(sources))).live)

    def _elements(self, sources: list[Iterator[Any]], live: deque[int]) -> Iterator[Any]:
        while live:
            for element in sources[live[0]]:
                live.rotate(-1)
                yield element
                break
            else:
                live.popleft()

    def __len__(self) -> int:
        return sum(lengths(self, self.datapipes))


def _as_streams(inputs: tuple[Any, ...]) -> tuple[IterDataPipe[Any], ...]:
    return tuple(p if is_stream(p) else IterableWrapper(p, deepcopy=False) for p in inputs)


class _Round(Cell):
    """Elements left of the round that is being handed on, and those taken for the next one."""

    def __init__(self) -> None:
        self.left: deque[Any] = deque()
        self.taken: list[Any] = []

    def save(self) -> Any:
        if not self.left and not self.taken:
            return None
        return {"left": self.encode(list(self.left)), "taken": self.encode(self.taken)}

    def load(self, saved: Any) -> None:
        if saved is not None:
            left, taken = map(self.decode_list, fields(saved, "left", "taken"))
            self.left.extend(left)
            self.taken += taken

    def close(self) -> None:
        self.left.clear()
        self.taken.clear()


class _Turns(Cell):
    """The inputs that have not ended, in the order in which their turns come."""

    def __init__(self, number_of_inputs: int) -> None:
        self._last = number_of_inputs - 1
        self.live = deque(range(number_of_inputs))

    def save(self) -> list[int]:
        return list(self.live)

    def load(self, saved: Any) -> None:
        if type(saved) is not list:
            raise StateError(f"expected a list of inputs, found {type(saved).__name__}")
        live = [count(i, "input", most=self._last) for i in saved]
        if sum(live[i - 1] >= live[i] for i in range(len(live))) > 1:  # they go round in one order, each once
            raise StateError(f"expected each input once, and in their order, found {live}")
        self.live.clear()
        self.live.extend(live)


@operator
class SampleMultiplexer(Seeded, IterDataPipe[Any]):
    """Elements of inputs drawn at random, in proportion to their weights; one that has ended is drawn no more.

    torchdata's never came back to the order of a seed, and a loader could not seed it.

    Args:
        pipes_to_weights_dict: The inputs, with their weights: positive numbers in any unit.
        seed: The seed that the order follows from, with the epoch. ``None``: that of the loader.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = SampleMultiplexer({IterableWrapper("aaaa"): 3, IterableWrapper("bb"): 1}, seed=1)
    >>> sorted(dp), list(dp) == list(dp)
    (['a', 'a', 'a', 'a', 'b', 'b'], True)
    """

    pipes_to_weights_dict: Mapping[IterDataPipe[Any], float]

    def __init__(self, pipes_to_weights_dict: Mapping[IterDataPipe[Any], float], seed: int | None = None) -> None:
        if not isinstance(pipes_to_weights_dict, Mapping):
            raise BadArgumentType(
                "SampleMultiplexer needs a dict of streams and their weights, "
                f"got {type(pipes_to_weights_dict).__name__}: {pipes_to_weights_dict!r:.60}"
            )
        self.pipes_to_weights_dict = dict(pipes_to_weights_dict)
        self._seed = seed
        needs(len(self.pipes_to_weights_dict) > 0, self, "Empty dictionary passed: give at least one stream")
        needs_streams(self, tuple(self.pipes_to_weights_dict))
        for weight in self.pipes_to_weights_dict.values():
            needs(0 < weight < inf, self, f"Expecting a positive and finite weight, got {weight!r:.60}")

    def _open(self, at: Opening) -> Iterator[Any]:
        sources = [at.source(pipe) for pipe in self.pipes_to_weights_dict]
        return self._elements(sources, at.cell(lambda: _Draws(len(sources))), at.seed(self._seed))

    def _elements(self, sources: list[Iterator[Any]], cell: _Draws, seed: int) -> Iterator[Any]:
        weights = list(self.pipes_to_weights_dict.values())
        live, draws = cell.live, shares(seed, _BLOCK)
        while len(live) > 1:
            ends = list(accumulate(weights[i] for i in live))
            total, last = ends[-1], len(live) - 1
            draws.go_to(cell.drawn)
            for drawn in draws.following():
                which = live[bisect_right(ends, drawn * total, 0, last)]
                for element in sources[which]:
                    cell.drawn += 1
                    yield element
                    break
                else:
                    # Another number is drawn for those left: this one is known to have hit what is gone.
                    cell.drawn += 1
                    live.remove(which)
                    break
        if live:
            yield from sources[live[0]]
            live.clear()

    def __len__(self) -> int:
        return sum(lengths(self, tuple(self.pipes_to_weights_dict)))


class _Draws(Cell):
    """Random draws so far, and the inputs that are left."""

    def __init__(self, number_of_inputs: int) -> None:
        self._last = number_of_inputs - 1
        self.drawn = 0
        self.live = list(range(number_of_inputs))

    def save(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "live": list(self.live)}

    def load(self, saved: Any) -> None:
        drawn, live = fields(saved, "drawn", "live")
        if type(live) is not list:
            raise StateError(f"live: expected a list of inputs, found {type(live).__name__}")
        inputs = [count(i, "live", most=self._last) for i in live]
        if inputs != sorted(set(inputs)):
            raise StateError(f"live: expected each input once, and in their order, found {inputs}")
        self.drawn, self.live[:] = count(drawn, "drawn"), inputs
