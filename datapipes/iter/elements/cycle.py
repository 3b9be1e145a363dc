"""cycle: the whole stream again and again, each lap an opening of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeVar

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.errors import StateError
from datapipes.operators.checks import needs_count, source_length
from datapipes.position.cells import Cell, Table, count, fields, table
from datapipes.position.opening import Opening
from datapipes.position.session import Session, segment

T_co = TypeVar("T_co", covariant=True)


@operator
class Cycler(IterDataPipe[T_co]):
    """The source several times over, or without end; a shuffle above it takes another order each time.

    An empty source ends it, whatever the count: torchdata spun for ever there.

    Args:
        count: How many times; 0 gives no elements. ``None``: without end.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").cycle(2))
    ['a', 'b', 'a', 'b']
    """

    _fluent: ClassVar[str | None] = "cycle"
    _hands_on: ClassVar[bool] = True
    _alone: ClassVar[str | None] = (
        "goes over one child of a fork, demux or unzip again while another part of the graph reads "
        "its sibling, which cannot go back with it: put cycle() above the fork"
    )

    source_datapipe: IterDataPipe[T_co]
    count: int | None = None

    def __post_init__(self) -> None:
        needs_count(self, "count", 0, f"Expected non-negative count, got {self.count}", or_none=True)

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        lap = at.cell(_Lap)
        is_loaded = lap.loaded is not None
        session = self._session_of(at, lap)  # which saves what users' classes have kept, before anything is taken
        if is_loaded:
            session.iterator()  # what does not fit is said when the state is loaded
        return self._laps(at, lap)

    def _session_of(self, at: Opening, lap: _Lap) -> Session:
        if lap.session is None:
            lap.session = at.session(self.source_datapipe, at.run.next_lap(lap.number), lap.loaded)
            lap.loaded = None
        return lap.session

    def _laps(self, at: Opening, lap: _Lap) -> Iterator[T_co]:
        while self.count is None or lap.number < self.count:
            session = self._session_of(at, lap)
            elements = segment(session)
            empty, lap.empty = lap.empty, False  # a lap whose only element raises is not empty
            for element in elements:
                yield element
                break
            else:
                lap.empty = empty
            yield from elements
            session.close()
            if lap.empty:
                return
            lap.number, lap.session, lap.empty = lap.number + 1, None, True

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


class _Lap(Cell):
    """Number of the lap, and the position in it."""

    def __init__(self) -> None:
        self.number = 0
        self.empty = True
        self.session: Session | None = None
        self.loaded: Table | None = None

    def save(self) -> dict[str, Any]:
        inside = self.loaded if self.session is None else self.session.table()
        return {"lap": self.number, "empty": self.empty, "inside": inside}

    def load(self, saved: Any) -> None:
        number, empty, inside = fields(saved, "lap", "empty", "inside")
        if type(empty) is not bool:
            raise StateError(f"empty: expected True or False, found {type(empty).__name__}")
        self.number, self.empty, self.loaded = count(number, "lap"), empty, table(inside)

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
