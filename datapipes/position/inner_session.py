"""A session of the stages above one stage, which belongs to that stage and can be opened again.

Snapshots of that session are taken within a budget. If the session is ahead of the elements handed on, or has to be
opened again, its position is the last snapshot and the number of elements handed on since. These are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import StateError, UnsavableElement
from datapipes.position.cells import Cell, Counted, Table, count, fields, table
from datapipes.position.opening import Opening
from datapipes.position.position_history import SnapshotBudget, error_text
from datapipes.position.session import Session, segment


class InnerSessionCell(Cell):
    """Position of an inner session: the last snapshot, and the number of elements since."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._known: Table | None = None  # None: the start
        self._is_known = True
        self._refusal = ""  # why the last snapshot failed
        self._since = 0
        self._behind = 0  # elements to skip in a session that was opened again
        self._hand: list[Any] = []  # the element that was taken and not handed on
        self._looking = SnapshotBudget()

    def begin(self, at: Opening, source: Pipe) -> Session:
        """Return the session of the source. If there is none, open one at the last snapshot."""
        if self._session is None:
            self._behind = self._since
            self._session = at.session(structure.unfold(source), replace(at.run, hubs={}), self._known)
            if self._known is not None:
                self._session.iterator()  # open it now, so that a state that does not fit raises when it is loaded
        return self._session

    def elements(self, at: Opening, source: Pipe) -> Iterator[Any]:
        """Return the elements after the last one that was handed on."""
        session = self.begin(at, source)
        elements = self._pulled(session)
        if self._behind:
            passed = Counted(islice(elements, self._behind))
            try:
                for _ in passed.elements:
                    pass
            finally:
                self._behind -= passed.taken
            if self._behind:
                raise StateError(f"{self.label}: {self._since} elements were given before, and there are fewer now")
        while True:
            if not self._hand:
                if not self.is_ahead() and self._looking.is_cheap():
                    self._look(session)
                started = perf_counter()
                for element in elements:
                    self._hand = [element]  # until it is handed on: an interruption may come before
                    break
                else:
                    return
                self._looking.making += perf_counter() - started
            (element,) = self._hand
            self._hand = []
            self._since += 1
            yield element

    def _pulled(self, session: Session) -> Iterator[Any]:
        """Return the elements of the session up to the end or to an exception."""
        return segment(session)

    def is_ahead(self) -> bool:
        """Return whether the session is making, or has made, an element that was not handed on."""
        return bool(self._hand)

    def _look(self, session: Session) -> None:
        started = perf_counter()
        try:
            self._known, self._since, self._is_known = session.table(), 0, True
        except Exception as error:  # for example of a user's state_dict(): it is raised only if the position is saved
            self._refusal = error_text(error)
        self._looking.took(perf_counter() - started)

    def leave(self) -> bool:
        """Close a failed session, to be opened again. Return False if its position is unknown."""
        if self._is_known and self._session is not None:
            session, self._session = self._session, None
            self._hand = []
            self._end(session)
        return self._is_known

    def skip_failed_element(self) -> None:
        """Skip the element at which the source has failed, since the last snapshot is from before it.

        If it failed at an element that was to be skipped, the session is opened again instead.
        """
        if self.is_ahead():
            return
        if self._behind:
            self.leave()
        elif self._session is not None:
            self._is_known = False
            self._look(self._session)

    def _end(self, session: Session) -> None:
        session.close()

    def save(self) -> dict[str, Any]:
        if self._session is not None and not self._behind and not self.is_ahead():
            return {"inside": self._session.table(), "since": 0}
        if not self._is_known:
            raise UnsavableElement(
                f"{self.label}: the stages above are one element ahead, and their position before it is unknown "
                f"({self._refusal}); save after the next element"
            )
        return {"inside": self._known, "since": self._since}

    def load(self, saved: Any) -> None:
        inside, since = fields(saved, "inside", "since")
        self._known, self._since = table(inside), count(since, "since")

    def close(self) -> None:
        session, self._session = self._session, None
        StreamWrapper.close_streams(self._hand)
        if session is not None:
            self._end(session)
