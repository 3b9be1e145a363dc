"""The stages that pushdown reads a shard with: positions, in an order or a part of them, and what reads at positions.

They stand in a session's own copy of a graph, in the places of the stages whose work they do; see
``datapipes.rewriting.pushdown``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from operator import length_hint
from typing import Any, ClassVar

from datapipes.description import structure
from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import Pipe
from datapipes.errors import StateError
from datapipes.iter.placement.shard import ShardingFilter
from datapipes.map.shuffle import Shuffler as MapShuffler
from datapipes.position.cells import Cell, count
from datapipes.position.counting import Given
from datapipes.position.opening import Opening
from datapipes.position.steps import Step


@operator
class Positions(IterDataPipe[int]):
    """0, 1, 2 ..., as many as there are elements in a stream that can be read by position."""

    read: Pipe

    def __post_init__(self) -> None:
        self.__dict__["_place"] = structure.place_of(self.read)

    def numbers(self) -> range:
        """All of them."""
        found = indexed(self.read)
        return range(0 if found is None else found.length)

    def _open(self, at: Opening) -> Iterator[int]:
        return at.cell(Given).following(self.numbers())

    def _indexed(self) -> Indexed:
        return Indexed(len(self.numbers()), int)


@operator
class ReadAt(IterDataPipe[Any]):
    """The elements of a stream at the positions that come from another."""

    datapipe: IterDataPipe[Any]
    read: Pipe

    def __post_init__(self) -> None:
        self.__dict__["_place"] = structure.NO_CELL

    def _step(self) -> Step:
        found = indexed(self.read)
        if found is None:
            raise StateError(f"{self.read!r:.80} could be read by position, and no longer can")
        return Step("map", found.at)


class ShuffledPositions(MapShuffler[Any]):
    """The positions of a map-style pipe, in the order in which a shuffle reads them."""

    _parents: ClassVar[tuple[str, ...] | None] = ()

    def _open(self, at: Opening) -> Iterator[int]:
        return at.cell(Given).following(self._order(at.seed(self._seed)))


class Slice(ShardingFilter[int]):
    """A shard of the numbers in ``base``, of which there are as many as a stream has elements."""

    _fluent: ClassVar[str | None] = "sharding_filter"
    _parents: ClassVar[tuple[str, ...] | None] = ()
    base: range = range(sys.maxsize)

    def _numbers(self) -> range:
        whole = indexed(self.source_datapipe)
        return self.base[: 0 if whole is None else whole.length]

    def _open(self, at: Opening) -> Iterator[int]:
        return at.cell(_Behind).following(self._numbers(), *self._shard(at.run))

    def _indexed(self) -> Indexed:
        of, index = self._opened_as or (1, 0)
        own = self._numbers()[index::of]
        return Indexed(len(own), own.__getitem__)


class _Behind(Cell):
    """How many numbers of a range are behind the shard: the position of the last one taken, and one."""

    def __init__(self) -> None:
        self._behind = 0
        self._own = range(0)
        self._left: Iterator[int] = iter(())

    def following(self, numbers: range, of: int, index: int) -> Iterator[int]:
        """The numbers of a shard that are not behind it."""
        behind = self.save()
        if behind > len(numbers):
            raise StateError(f"{self.label}: {behind} elements were taken, and there are {len(numbers)}")
        first = behind + (index - behind) % of
        self._behind, self._own = behind, range(first, len(numbers), of)
        self._left = iter(numbers[first::of])
        return self._left

    def save(self) -> int:
        taken = len(self._own) - length_hint(self._left)
        return self._own[taken - 1] + 1 if taken else self._behind

    done = save

    def load(self, saved: Any) -> None:
        self._behind = count(saved)
