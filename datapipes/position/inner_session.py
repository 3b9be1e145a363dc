"""InnerSession: what is above a stage, in a session of the stage's own, which can be given up and begun again there.

The position of that session is looked at as long as that is cheap beside making elements. While the session is ahead of
what was handed on, and where it is begun again, its position is the last one that was looked at, and how many elements
were handed on since, which are passed over.
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
from datapipes.position.session import Session, segment
from datapipes.position.trail import Looking, told


class InnerSession(Cell):
    """The session of the source, the last position in it that was looked at, and how many elements came since."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._known: Table | None = None  # None: the start
        self._is_known = True
        self._refusal = ""  # what the last look met in place of a position
        self._since = 0
        self._behind = 0  # how many are to be passed over in a session that was begun again
        self._hand: list[Any] = []  # the element that was taken and not yet handed on
        self._looking = Looking()

    def begin(self, at: Opening, source: Pipe) -> Session:
        """The session of the source, opened where it was if there is none."""
        if self._session is None:
            self._behind = self._since
            self._session = at.session(structure.unfold(source), replace(at.run, hubs={}), self._known)
            if self._known is not None:
                self._session.iterator()  # what does not fit is said when the state is loaded
        return self._session

    def elements(self, at: Opening, source: Pipe) -> Iterator[Any]:
        """The elements behind the last one handed on."""
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
                raise StateError(f"{self.label}: {self._since} elements were given, and there are fewer now")
        while True:
            if not self._hand:
                if not self.is_ahead() and self._looking.is_cheap():
                    self._look(session)
                started = perf_counter()
                for element in elements:
                    self._hand = [element]  # until it is handed on, which an interruption may put off
                    break
                else:
                    return
                self._looking.making += perf_counter() - started
            (element,) = self._hand
            self._hand = []
            self._since += 1
            yield element

    def _pulled(self, session: Session) -> Iterator[Any]:
        """The elements of the session, up to the end or to an exception."""
        return segment(session)

    def is_ahead(self) -> bool:
        """Return whether the session is at work on an element, or has given one, that was not handed on."""
        return bool(self._hand)

    def _look(self, session: Session) -> None:
        started = perf_counter()
        try:
            self._known, self._since, self._is_known = session.table(), 0, True
        except Exception as error:  # of a user's state_dict(), say; it is an error when somebody saves
            self._refusal = told(error)
        self._looking.took(perf_counter() - started)

    def leave(self) -> bool:
        """Give up the session that failed; False if it is not known where it was."""
        if self._is_known and self._session is not None:
            session, self._session = self._session, None
            self._hand = []
            self._end(session)
        return self._is_known

    def go_on_behind(self) -> None:
        """Leave out the element that the source failed at: what was known is from before it.

        Unless it failed at an element that was handed on, which was to be passed over: then it is to be tried anew.
        """
        if self.is_ahead():
            return
        if self._behind:
            self.leave()
        elif self._session is not None:
            self._is_known = False
            self._look(self._session)

    def _end(self, session: Session) -> None:
        """Close a session."""
        session.close()

    def save(self) -> dict[str, Any]:
        if self._session is not None and not self._behind and not self.is_ahead():
            return {"inside": self._session.table(), "since": 0}
        if not self._is_known:
            raise UnsavableElement(
                f"{self.label}: what is above is one element ahead, and where it was before is not known "
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
