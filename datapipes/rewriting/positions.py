"""Stages that pushdown reads a shard with: positions, in an order or a part of them, and reads at positions.

They stand in a session's own copy of a graph, in the places of the stages whose work they do; see
``datapipes.rewriting.pushdown``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from datapipes.description import structure
from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import Pipe
from datapipes.errors import StateError
from datapipes.position.counting import Given
from datapipes.position.opening import Opening
from datapipes.position.steps import Step
from datapipes.rewriting.gathering import Rows, rows_of


@operator
class Positions(IterDataPipe[int]):
    """0, 1, 2 ..., as many as there are elements in a stream that can be read by position."""

    read: Pipe

    def __post_init__(self) -> None:
        self.__dict__["_place"] = structure.place_of(self.read)

    def numbers(self) -> range:
        """The range of all positions."""
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

    def _positions(self) -> Rows | None:
        rows = rows_of(self.read)
        return None if rows is None else rows._replace(positions=self.datapipe)

    def _read_by_position(self) -> Pipe:
        return self.read

    def _step(self) -> Step:
        found = indexed(self.read)
        if found is None:
            raise StateError(f"{self.read!r:.80} could be read by position, and no longer can")
        return Step("map", found.at)
