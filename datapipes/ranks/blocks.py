"""Read-ahead buffer of one rank, in blocks of some milliseconds, and its positions.

Snapshots are taken between blocks, within the budget of a position history. If there is no snapshot, the waiting
elements are saved.

A source that has ended can start again, if elements are to be repeated. Each lap is an opening of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Final

from datapipes.elements.streams import holds_stream
from datapipes.errors import GraphError, StateError
from datapipes.position.cells import Table, skip
from datapipes.position.position_history import PositionHistory
from datapipes.position.session import Session, segment

BLOCK: Final = 0.025
"""Target duration of reading a block, in seconds."""
MOST: Final = 2048
"""Largest number of elements in a block. All sizes are powers of two, so that the blocks of all ranks end together."""
AHEAD: Final = 4
"""Number of blocks that a rank may read ahead of the other ranks.

With fewer, it would wait for a rank that is briefly slow.
"""
_FEW: Final = 32
"""Number of elements that are read between two looks at the clock, since they may have become slow."""


class ReadAheadBuffer:
    """Read-ahead buffer: the elements that were read and not yet handed on."""

    def __init__(self) -> None:
        self.ahead: list[Any] = []
        self.read = 0  # the number of elements read
        self.end: int | None = None  # the number of elements of the source, once it has ended
        self.error: Exception | None = None  # takes the place of the element after those ahead
        self.since = 0  # the number of elements to skip: they were handed on before a state was saved
        self.lap = 0
        self.trail: PositionHistory[tuple[int, Table]] = PositionHistory()  # laps, and tables of them
        self.inside: Table | None = None  # the loaded table of a lap
        self._lap_began = 0  # the number of elements read before the lap
        self._lap_ended = False
        self._session: Session | None = None  # of a lap after the first
        self._size = 1

    def start(
        self,
        source: Iterator[Any],
        mark: Callable[[], Table] | None,
        lap_of: Callable[[int, Table | None], Session] | None,
    ) -> None:
        """Start to read where the source is now, or in the lap that was reached."""
        self.source, self._mark, self._lap_of = source, mark, lap_of
        self._enter()

    def go_on(self) -> None:
        """Skip the elements that were handed on before the state was saved."""
        since, self.since = self.since, 0
        if skip(self.source, since) < since:
            raise StateError("the source ended before the position that was saved")

    def wants(self, upto: int, total: int | None) -> bool:
        """Return whether to read another block now: none is ahead, or few elements beyond those that all ranks have."""
        if self.error is not None or self.read == total or (self.end is not None and self._lap_of is None):
            return False
        if not self.ahead:
            return self.end is None or self.read < upto
        at_once = self.end is not None or holds_stream(self.ahead[-1])
        return not at_once and self.read - upto < AHEAD * self._size

    def read_block(self, total: int | None) -> None:
        """Read up to the end of a block, of the source, or of the needed elements. Keep an error for its turn."""
        if self.end is not None and self._lap_ended:
            self._next_lap()
        most = self._size - self.read % self._size
        most = most if total is None else min(most, total - self.read)
        self._look(self.read)
        before, started = len(self.ahead), perf_counter()
        got, took = 0, 0.0
        try:
            while got < most and took < 2 * BLOCK and not self._lap_ended:
                few = min(_FEW, most - got)
                self.ahead.extend(islice(self.source, few))
                self._lap_ended = len(self.ahead) - before < got + few
                got, took = len(self.ahead) - before, perf_counter() - started
        except Exception as error:
            self.error = error
        got = len(self.ahead) - before
        self.trail.looking.making += took
        self.read += got
        if self._lap_ended and self.end is None:
            self.end = self.read
        if took > 2 * BLOCK:
            self._size = max(1, (1 << got.bit_length()) >> 2)
        elif took < BLOCK / 2 and got == most:
            self._size = min(MOST, 2 * self._size)

    def _next_lap(self) -> None:
        if self.read == self._lap_began:
            raise GraphError('uneven="repeat": this rank has no elements to repeat')
        if self._session is not None:
            self._session.close()
        self._session, self.inside, self.lap, self._lap_ended = None, None, self.lap + 1, False
        self._lap_began = self.read
        self._enter()

    def _enter(self) -> None:
        if self.lap and self._session is None and self._lap_of is not None:
            self._session, self.inside = self._lap_of(self.lap, self.inside), None
        if self._session is not None:
            self.source, self._mark = segment(self._session), self._session.table
        if not self.ahead and self.error is None:
            self.trail = PositionHistory()  # older snapshots lie before an error, or in another lap
            self._look(self.read - self.since, must=True)

    def _look(self, upto: int, must: bool = False) -> None:
        lap, mark = self.lap, self._mark
        look = None if mark is None else lambda: (lap, mark())
        self.trail.made(0.0, upto, upto - len(self.ahead), look, must)

    def now(self) -> tuple[int, Table | None]:
        """Return the lap and its table. The table is None for the first lap, which the enclosing session saves."""
        return self.lap, None if self._session is None else self._session.table()

    def close(self) -> None:
        """Release all elements and all references to the session."""
        self.ahead, self.source, self._mark, self._lap_of = [], iter(()), None, None
        if self._session is not None:
            self._session.close()
