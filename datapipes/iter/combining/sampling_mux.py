"""SampleMultiplexer: elements of several inputs, each from one that is drawn by weight.

The numbers drawn are made in blocks, each block a pure function of the stage's seed and the block's number, so the
position is their count and which inputs are left, and no generator's state is kept. A number counts once an element was
taken by it: an input that raises is asked again, and costs no other input its turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import inf
from typing import Any, TypeVar

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import BadArgumentType, StateError
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.operators.checks import needs
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening
from datapipes.position.seeds import derive

Self = TypeVar("Self", bound="SampleMultiplexer")

_BLOCK = 4096


@operator
class SampleMultiplexer(IterDataPipe[Any]):
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

    def set_seed(self: Self, seed: int) -> Self:
        """Pin this stage's seed: it is used instead of the loader's; epochs of a loader still differ."""
        self._seed = seed
        return self

    def _open(self, at: Opening) -> Iterator[Any]:
        sources = [at.source(pipe) for pipe in self.pipes_to_weights_dict]
        return self._elements(sources, at.cell(lambda: _Draws(len(sources))), at.seed(self._seed))

    def _elements(self, sources: list[Iterator[Any]], cell: _Draws, seed: int) -> Iterator[Any]:
        weights = list(self.pipes_to_weights_dict.values())
        live = cell.live
        while len(live) > 1:
            ends = list(accumulate(weights[i] for i in live))
            total, last = ends[-1], len(live) - 1
            for drawn in _numbers(seed, cell.drawn):
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


def _numbers(seed: int, start: int) -> Iterator[float]:
    """The numbers from 0 up to 1 that are drawn with a seed, from the one at ``start`` on, without end."""
    block, offset = divmod(start, _BLOCK)
    while True:
        generator = torch.Generator().manual_seed(derive(seed, block))
        numbers: list[float] = torch.rand(_BLOCK, dtype=torch.float64, generator=generator).tolist()
        yield from numbers[offset:]
        block, offset = block + 1, 0


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
