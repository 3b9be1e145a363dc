"""A queue of calls in threads, one for each element of a source; the results keep the elements' order.

The consumer's thread reads the source, up to ``scheduled_tasks`` elements ahead; only the calls run in the threads. An
exception of a call or of the source is raised in its place, after the results before it. Later elements are made
meanwhile.

The position has to cover the elements that were taken and not handed on. If snapshots of the position above are cheap,
or elements are open streams, one is taken after each element. Saving then reads the snapshot after the last element
handed on, without waiting. Otherwise saving cancels the calls that have not begun and waits for the others, and saves
elements for the former and results for the latter.

A fork of the process has no such threads, and the elements ahead are the parent's: continuing there is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from datapipes.elements.streams import holds_stream, is_lost
from datapipes.errors import UnsavableElement
from datapipes.messages.interrupts import CtrlCWaits, wait_for
from datapipes.position.cells import Cell, Table, count, fields
from datapipes.position.forks import OwnerProcess, tell_of_forks
from datapipes.position.on_error import SKIP, OnError, ToleratedErrors
from datapipes.position.opening import Opening
from datapipes.position.position_history import PositionHistory, loaded_waiting, saved_waiting

_CHEAP = 20e-6  # seconds; a snapshot up to this price is always taken, since a call in a pool costs as much
_AHEAD = "the elements ahead"
_END: Any = object()


class CallingStage(Protocol):
    """Stage that calls a function of each element in threads."""

    on_error: OnError

    @property
    def scheduled_tasks(self) -> int:
        """Number of elements to take ahead of the one handed on."""

    def pool(self) -> Executor:
        """Return new threads for this stage."""

    def call(self) -> Callable[..., Any]:
        """Return the function to call with an element."""


@dataclass(slots=True)
class Task:
    """Task for one element: its number, its call unless that is not submitted yet, and the outcome of the call."""

    element: Any
    number: int
    call: Future[None] | None = None
    outcome: list[tuple[BaseException | None, Any]] = field(default_factory=list)
    """The error, or None and the result. Empty: the call has not returned, or its future has the error."""
    as_taken: bytes | None = None
    """The element as data, made before the call, because the call reads the element's streams."""
    own: bool = True
    """False: the source raised instead of giving an element."""

    def element_as_data(self) -> list[Any]:
        """Return the element in the form in which it is saved."""
        return ["element", self.element] if self.as_taken is None else ["as taken", self.as_taken]

    def wait(self) -> tuple[BaseException | None, Any]:
        """Return the outcome of the call, which was submitted."""
        if not self.outcome and self.call is not None:
            wait_for(self.call)
        return self.outcome[0] if self.outcome else (None if self.call is None else self.call.exception(), None)


def _run(fn: Callable[[Any], Any], element: Any, outcome: list[tuple[BaseException | None, Any]]) -> None:
    """Call a function, in a thread. The future keeps an error.

    The arguments have no reference to the task: an error's traceback refers to them, and the task refers to the error.
    """
    outcome.append((None, fn(element)))


class TaskQueueCell(Cell):
    """Queue of the tasks ahead, in order, and the threads that run them."""

    carries = True
    saves_without_user_code = False

    def __init__(self, pipe: CallingStage) -> None:
        self.faults = None if pipe.on_error == "raise" else ToleratedErrors(pipe)
        self._pipe = pipe
        self._fn = pipe.call()
        self._pool: Executor | None = None
        self._origin = OwnerProcess()
        self._inherited = False  # whether this process is a fork of that one
        tell_of_forks(self)
        self.tasks: deque[Task] = deque()
        self.given = 0
        self._trail: PositionHistory[Table] = PositionHistory()
        self.handed_on = 0  # number of finished tasks, with any result
        self._looked = perf_counter()  # when a snapshot was last considered

    def forked(self) -> None:
        self._inherited = True

    def elements(self, source: Iterator[Any], at: Opening) -> Iterator[Any]:
        """Return the results for the elements of ``source``, which are taken ahead."""
        mark = at.mark()
        self.start()
        more = True
        while True:
            while more and len(self.tasks) <= self._pipe.scheduled_tasks:
                more = self.take(source, mark, at)
            if not self.tasks:
                break
            result, number = self.first()
            # It is removed and handed on in one step: no function is called in between, so no signal can arrive there.
            del self.tasks[0]
            self.handed_on = number
            if result is not SKIP:
                self.given += 1
                yield result
        self.finish()

    def start(self) -> None:
        """Submit the calls that were loaded, or cancelled by saving."""
        self._origin.must_be_here(_AHEAD)
        for task in self.tasks:
            self._submit(task)

    def _submit(self, task: Task) -> None:
        """Submit the call of a task, unless it is submitted or its outcome was loaded."""
        if task.call is None and not task.outcome:
            with CtrlCWaits():  # an interruption here could keep a lock that the threads need
                if self._pool is None:
                    self._pool = self._pipe.pool()
                task.call = self._pool.submit(_run, self._function(task), task.element, task.outcome)

    def _function(self, task: Task) -> Callable[[Any], Any]:
        return self._fn

    def take(self, source: Iterator[Any], mark: Callable[[], Table] | None, at: Opening) -> bool:
        """Take an element and submit its call. Return False if there is no element, or the source has raised.

        ``mark`` takes a snapshot of the position above, if no other stage reads there.
        """
        if self._inherited:
            self._origin.must_be_here(_AHEAD)
        trail, number = self._trail, self.handed_on + len(self.tasks) + 1
        element = _END
        try:
            for element in source:  # noqa: B007  # used below: a signal may arrive right after next() returns
                break
            else:
                return False
            before, self._looked = self._looked, perf_counter()
            must = trail.looking.cost <= _CHEAP or is_lost(element)
            known = trail.made(self._looked - before, number, self.handed_on, mark, must)
            task = Task(element, number, as_taken=None if known else self._as_taken(element))
        except Exception as error:
            self.tasks.append(Task(None, number, outcome=[(error, None)], own=False))
            trail.made(0.0, number, self.handed_on, mark, must=True)
            return False
        except BaseException as error:
            if element is not _END:
                at.keep(element, error)
            raise
        self.tasks.append(task)
        self._submit(task)
        return True

    def _as_taken(self, element: Any) -> bytes | None:
        with suppress(UnsavableElement):
            return self.encode([element]) if holds_stream(element) else None
        return None

    def first(self) -> tuple[Any, int]:
        """Wait for the first call. Return its result or ``SKIP``, and its number. Raise its error."""
        if self._inherited:
            self._origin.must_be_here(_AHEAD)
        try:
            error, result = self.tasks[0].wait()  # an interruption here removes nothing
        except BaseException:
            self._call_off()  # otherwise Python would make all these calls before it exits
            raise
        task = self.tasks[0]
        if task.own:
            element = task.element  # an error's note finds the element by this local name
        try:
            if self.faults is not None and task.own and isinstance(error, Exception | None):
                self.faults.seen += 1
            if error is None:
                return result, task.number
            if self.faults is None or not task.own or not isinstance(error, Exception):
                raise error
            return self.faults.absorb(error, element, partial(self._again, element)), task.number
        except Exception:
            del self.tasks[0]
            self.handed_on = task.number
            raise
        except BaseException:  # an interruption costs no element: the call is repeated
            task.call, task.outcome = None, []
            raise
        finally:
            del error, task  # an error's traceback refers to this frame

    def _again(self, element: Any) -> Any:
        task = Task(element, 0)
        self._submit(task)
        error, result = task.wait()
        try:
            if error is not None:
                raise error
            return result
        finally:
            del error, task  # an error's traceback refers to this frame

    def finish(self) -> None:
        """Shut down the pool and judge the errors, when all elements are handed on."""
        self._end_pool()
        if self.faults is not None:
            self.faults.finish()

    def _end_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._origin.is_here:
            with suppress(RuntimeError):  # the garbage collector may find an abandoned iterator in one of these threads
                pool.shutdown(wait=True, cancel_futures=True)

    def done(self) -> int:
        return self.given

    def carried(self) -> Table | None:
        return self._trail.just_after(self.handed_on)

    def save(self) -> dict[str, Any]:
        ahead = None if self.carried() is not None else self._ahead_as_data()
        return {"given": self.given, "ahead": ahead, "errors": self.saved_errors()}

    def _ahead_as_data(self) -> bytes | None:
        """Return results of the calls that have begun, elements of the others, and the source's error as text."""
        self._origin.must_be_here(_AHEAD)
        self._call_off()
        try:
            return saved_waiting(self, map(_waiting, self.tasks))  # before a call reads an element's streams
        finally:
            if self._pool is not None:
                self.start()

    def _call_off(self) -> None:
        """Cancel the calls that have not begun; ``start`` submits them again."""
        with CtrlCWaits():
            for task in reversed(self.tasks):
                if task.call is not None and task.call.cancel():
                    task.call = None

    def load(self, saved: Any) -> None:
        given, ahead, errors = fields(saved, "given", "ahead", "errors")
        self.given = count(given, "given")
        for number, (kind, it) in enumerate(loaded_waiting(self, ahead, "element", "as taken", "result"), 1):
            match kind:
                case "element":
                    task = Task(it, number)
                case "as taken":
                    (taken,) = self.decode_list(it)
                    task = Task(taken, number, as_taken=it)
                case "result":
                    task = Task(None, number, outcome=[(None, it)])
                case _:
                    task = Task(None, number, outcome=[(it, None)], own=False)
            self.tasks.append(task)
        self.load_errors(errors)

    def close(self) -> None:
        self._end_pool()
        self.tasks.clear()


def _waiting(task: Task) -> Any:
    """Return the result of a call that has begun, the element of another, or the source's error, to be saved."""
    if task.call is None and not task.outcome:
        return task.element_as_data()
    error, result = task.wait()
    if not task.own:
        return error
    return ["result", result] if error is None else task.element_as_data()  # a failed call is repeated
