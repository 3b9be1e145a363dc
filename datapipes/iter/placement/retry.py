"""retry: a source that failed is opened again where it was, and asked again for the element that it failed at.

The source is opened in a session of this stage's own. Its position is looked at as long as that is cheap beside making
elements; opening it again begins there, and passes over what was handed on since. What a retry costs is thus the
elements since the last look. After the last attempt the error is the user's, and as everywhere the source goes on with
the element behind the one that it failed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf
from threading import Event
from time import perf_counter
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.errors import BadArgumentType, StateError, UnsavableElement
from datapipes.operators.checks import needs, needs_count, same_length
from datapipes.position.cells import Cell, Table, count, fields, skip, table
from datapipes.position.laps import ALONE
from datapipes.position.on_error import Faults
from datapipes.position.opening import Opening
from datapipes.position.session import Session, segment
from datapipes.position.trail import Looking

T_co = TypeVar("T_co", covariant=True)


@operator
class Retrier(IterDataPipe[T_co]):
    """The same elements; where what is above raises, it is opened again at that place, up to ``times`` times.

    No element is lost or given twice. All that is above begins anew, connections and open files included: elements
    since the last look at its position are made once more, unseen. Each error is counted (``iterator.errors``), and the
    first one is a warning. To call a function again and nothing else, ``map(fn, on_error="retry(n)")`` is enough.
    Put it below a ``sharding_filter``: above one, each shard makes all elements.

    Args:
        times: How often one element is tried again, 1 or more.
        on: The exceptions that are tried again; all others pass.
        wait: Seconds before the first attempt again, and twice as many before each further one, up to a minute; or a
            function of the attempt, which counts from 1.

    >>> from datapipes.iter import IterableWrapper
    >>> failures = [OSError("busy"), OSError("still busy")]
    >>> def fetched(x):
    ...     if x == 2 and failures:
    ...         raise failures.pop()
    ...     return x
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     list(IterableWrapper(range(4)).map(fetched).retry(3, wait=0))
    [0, 1, 2, 3]
    """

    _fluent: ClassVar[str | None] = "retry"
    _hands_on: ClassVar[bool] = True
    _alone = ALONE.format("retry()")

    source_datapipe: IterDataPipe[T_co]
    times: int = 3
    on: type[Exception] | tuple[type[Exception], ...] = OSError
    wait: float | Callable[[int], float] = 1.0

    def __post_init__(self) -> None:
        needs_count(self, "times", 1, "An element is tried again once at least")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise BadArgumentType(
                f"on is an exception class, or a tuple of them, got {self.on!r:.80}, in {stage(self)}"
            )
        needs(callable(self.wait) or 0 <= self.wait < inf, self, f"wait is a number of seconds, got {self.wait!r:.60}")

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        cell = at.cell(lambda: _Attempts(self))
        cell.begin(at, self.source_datapipe)
        return self._elements(at, cell)

    def _elements(self, at: Opening, cell: _Attempts) -> Iterator[T_co]:
        attempt = 0
        while True:
            try:
                for element in cell.elements(at, self.source_datapipe):
                    attempt = 0
                    yield element
                return
            except Exception as error:
                attempt += 1
                if not isinstance(error, self.on) or attempt > self.times or not cell.leave():
                    cell.go_on_behind()
                    raise
                cell.faults.met(error)
            Event().wait(self._pause(attempt))  # nothing tells when a source is ready again

    def _pause(self, attempt: int) -> float:
        return self.wait(attempt) if callable(self.wait) else min(self.wait * 2 ** (attempt - 1), max(self.wait, 60))

    __len__ = same_length


class _Attempts(Cell):
    """The session of the source, the last position in it that was looked at, and how many elements came since."""

    faults: Faults

    def __init__(self, pipe: IterDataPipe[Any]) -> None:
        self.faults = Faults(pipe)
        self._session: Session | None = None
        self._known: Table | None = None  # None: the start
        self._is_known = True
        self._since = 0
        self._behind = 0  # how many are to be passed over in a session that was begun again
        self._looking = Looking()

    def begin(self, at: Opening, pipe: IterDataPipe[Any]) -> Session:
        """The session of the source, opened where it was if there is none."""
        if self._session is None:
            self._behind = self._since
            self._session = at.session(pipe, replace(at.run, hubs={}), self._known)
            if self._known is not None:
                self._session.iterator()  # what does not fit is said when the state is loaded
        return self._session

    def elements(self, at: Opening, pipe: IterDataPipe[Any]) -> Iterator[Any]:
        """The elements behind the last one handed on."""
        session = self.begin(at, pipe)
        elements = segment(session)
        if skip(elements, self._behind) < self._behind:
            raise StateError(f"{self.label}: {self._behind} elements were given, and there are fewer now")
        self._behind = 0
        while True:
            started = perf_counter()
            for element in elements:
                self._since += 1
                self._looking.making += perf_counter() - started
                if self._looking.is_cheap():
                    self._look(session)
                yield element
                break
            else:
                return

    def _look(self, session: Session) -> None:
        started = perf_counter()
        with suppress(UnsavableElement):
            self._known, self._since, self._is_known = session.table(), 0, True
        self._looking.took(perf_counter() - started)

    def leave(self) -> bool:
        """Give up the session that failed; False if it is not known where it was."""
        if self._is_known and self._session is not None:
            self._session.close()
            self._session = None
        return self._is_known

    def go_on_behind(self) -> None:
        """Leave out the element that the source failed at: what was known is from before it.

        Unless it failed at an element that was handed on, which was to be passed over: then it is to be tried anew.
        """
        if self._behind:
            self.leave()
        elif self._session is not None:
            self._is_known = False
            self._look(self._session)

    def save(self) -> dict[str, Any]:
        if self._session is None or self._behind:
            inside, since = self._known, self._since
        else:
            inside, since = self._session.table(), 0
        return {"inside": inside, "since": since, "errors": self.faults.save()}

    def load(self, saved: Any) -> None:
        inside, since, errors = fields(saved, "inside", "since", "errors")
        self._known, self._since = table(inside), count(since, "since")
        self.faults.load(errors)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
