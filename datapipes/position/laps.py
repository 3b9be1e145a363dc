"""Laps: repeated passes over a source, each in a session of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

from datapipes.description.structure import Pipe
from datapipes.errors import StateError
from datapipes.position.cells import Cell, Table, count, fields, table, without_errors
from datapipes.position.on_error import LeftOut
from datapipes.position.opening import Opening
from datapipes.position.session import Session, segment

ALONE = (
    "goes over one child of a fork, demux or unzip again while another part of the graph reads "
    "its sibling, which cannot start again with it: put {} above the fork"
)
"""Why a stage that repeats its source must be its only reader. The stage's name is put in."""


class LapCell(Cell):
    """Position in repeated passes: the number of the lap, the position in it, and the errors of the laps before."""

    def __init__(self) -> None:
        self.number = 0
        self.errors: Counter[str] = Counter()
        self._are_reported = True
        self.empty = True
        self.session: Session | None = None
        self.loaded: Table | None = None

    def begin(self, at: Opening, pipe: Pipe) -> None:
        """Make the session of the lap before elements are taken, so that it saves the first states of generators."""
        if not self._are_reported:
            self._are_reported = True
            at.run.errors.add(self.errors)
        is_loaded = self.loaded is not None
        session = self._session_of(at, pipe)
        if is_loaded:
            session.iterator()  # open it now, so that a state that does not fit raises when it is loaded

    def elements(self, at: Opening, pipe: Pipe) -> Generator[Any, None, bool]:
        """Give the elements of ``pipe`` in this lap, and begin the next lap. Return False if this one was empty."""
        session = self._session_of(at, pipe)
        elements = segment(session)
        empty, self.empty = self.empty, False  # a lap whose only element raises is not empty
        try:
            for element in elements:
                yield element
                break
            else:
                self.empty = empty
        except LeftOut:
            self.empty = empty
            raise
        yield from elements
        if self.empty:
            return False  # its session stays open, because ``save`` needs it
        session.close()
        errors = Counter(self.errors)
        errors.update(session.errors())
        self.number, self.session, self.empty, self.errors = self.number + 1, None, True, errors
        return True

    def _session_of(self, at: Opening, pipe: Pipe) -> Session:
        if self.session is None:
            self.session = at.session(pipe, at.run.next_lap(self.number), self.loaded)
            self.loaded = None
        return self.session

    def save(self) -> dict[str, Any]:
        inside = self.loaded if self.session is None else self.session.table()
        saved: dict[str, Any] = {"lap": self.number, "empty": self.empty, "inside": inside}
        return {**saved, "errors": dict(self.errors)} if self.errors else saved

    def load(self, saved: Any) -> None:
        saved, self.errors = without_errors(saved)
        self._are_reported = False
        number, empty, inside = fields(saved, "lap", "empty", "inside")
        if type(empty) is not bool:
            raise StateError(f"empty: expected True or False, found {type(empty).__name__}")
        self.number, self.empty, self.loaded = count(number, "lap"), empty, table(inside)

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
