"""threadpool_map: a function of each element, called in several threads; the results keep the elements' order.

Whoever iterates reads the source, ``scheduled_tasks`` elements ahead of what was handed on; only the function runs in
the threads. What a call or the source raises is raised in its place, after the results before it, and the elements
behind it go on meanwhile.

Where it is: the elements taken but not yet handed on are ahead. As long as looking at the positions above is cheap, by
itself or beside all the rest, or the elements are open streams, it is done after each element; saving then reads the
positions after the one handed on last, and waits for nobody. Otherwise saving takes back the calls that have not begun,
waits for those that have, and saves elements for the former and results for the latter.

In a fork of the process there are no such threads, and the elements ahead are the parent's: going on is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, TypeVar

from datapipes.description.given_sources import as_pipe
from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import holds_stream, is_lost
from datapipes.errors import UnsavableElement
from datapipes.operators.checks import check_options, needs_callable, needs_count, same_length
from datapipes.operators.columns import check_columns, on_columns, validate_input_col
from datapipes.position.cells import Cell, Table, count, fields
from datapipes.position.forks import OwnerProcess, tell_of_forks
from datapipes.position.on_error import SKIP, Faults, OnError, check_policy
from datapipes.position.opening import Opening
from datapipes.position.trail import Trail, loaded_waiting, saved_waiting

R_co = TypeVar("R_co", covariant=True)

_CHEAP = 20e-6  # seconds; looking at positions that takes no more is always done, since a call in a pool takes as much
_AHEAD = "the elements ahead"
_END: Any = object()


@operator
class ThreadPoolMapper(IterDataPipe[R_co]):
    """``fn`` of each element, or of some of its columns, called in a pool of threads; the order is kept.

    Args:
        fn: The function. It is given the element, or its columns one by one, and is called by several threads at the
            same time.
        scheduled_tasks: How many elements are taken ahead of the one that is handed on: more keep the threads busy
            where some calls take long, and take more memory.
        max_workers: How many threads there are. ``None``: as many as ``concurrent.futures.ThreadPoolExecutor`` takes.
        **threadpool_kwargs: Other arguments for that: ``thread_name_prefix``, ``initializer`` and ``initargs``. Any
            other name is refused.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).threadpool_map(lambda x: 10 * x, max_workers=2))
    [0, 10, 20, 30, 40]
    """

    _fluent: ClassVar[str | None] = "threadpool_map"
    _commutes: ClassVar[bool] = True
    _runs_ahead: ClassVar[bool] = True

    datapipe: IterDataPipe[Any]

    def __init__(
        self,
        source_datapipe: IterDataPipe[Any],
        fn: Callable[..., R_co],
        input_col: Any = None,
        output_col: Any = None,
        scheduled_tasks: int = 128,
        max_workers: int | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **threadpool_kwargs: Any,
    ) -> None:
        needs_callable("threadpool_map", fn)
        self.datapipe = as_pipe(source_datapipe, "Iter")
        self.fn = fn
        self.input_col = input_col
        self.output_col = check_columns(input_col, output_col)
        self.scheduled_tasks = scheduled_tasks
        self.max_workers = max_workers
        self.on_error = on_error
        self.max_errors = max_errors
        self.threadpool_kwargs = threadpool_kwargs
        validate_input_col(fn, input_col)
        needs_count(self, "scheduled_tasks", 1, "'scheduled_tasks' is required to be a positive integer")
        needs_count(self, "max_workers", 1, "'max_workers' is required to be a positive integer", or_none=True)
        check_policy(self)
        check_options(self, threadpool_kwargs, ("thread_name_prefix", "initializer", "initargs"))

    def _open(self, at: Opening) -> Iterator[R_co]:
        mark = at.mark()
        return self._elements(at.source(self.datapipe), at.cell(partial(_Tasks, self)), mark, at)

    def _elements(
        self, source: Iterator[Any], tasks: _Tasks, mark: Callable[[], Table] | None, at: Opening
    ) -> Iterator[R_co]:
        tasks.start()
        more = True
        while True:
            while more and tasks.ahead() <= self.scheduled_tasks:
                more = tasks.take(source, mark, at)
            if not tasks.ahead():
                break
            result, number = tasks.first()
            # It is handed on in the step that takes it out: nothing is called in between, so no signal comes there.
            del tasks.tasks[0]
            tasks.handed_on = number
            if result is not SKIP:
                tasks.given += 1
                yield result
        tasks.finish()

    def pool(self) -> ThreadPoolExecutor:
        """New threads for this stage."""
        return ThreadPoolExecutor(self.max_workers, **self.threadpool_kwargs)

    def call(self) -> Callable[[Any], Any]:
        """The function that is called with an element."""
        return on_columns(self.fn, self.input_col, self.output_col)

    def _indexed(self) -> Indexed | None:
        source = indexed(self.datapipe)
        return None if source is None else source.giving(partial(self._made_of, self.call(), source.at))

    __len__ = same_length


@dataclass(slots=True)
class _Task:
    """One element: the call, or None if that is still to be made, and how many were taken with it."""

    element: Any
    number: int
    call: Any = None
    as_taken: bytes | None = None
    """A call reads the streams of its element, so they are saved before it begins."""
    own: bool = True
    """False: the source has raised in place of an element."""


class _Tasks(Cell):
    """Queue of tasks ahead, in order, and the threads at work on them."""

    carries = True
    is_quiet = False

    def __init__(self, pipe: ThreadPoolMapper[Any]) -> None:
        self.faults = None if pipe.on_error == "raise" else Faults(pipe)
        self._pipe = pipe
        self._fn = pipe.call()
        self._pool: ThreadPoolExecutor | None = None
        self._origin = OwnerProcess()
        self._inherited = False  # whether this is a fork of that process
        tell_of_forks(self)
        self.tasks: deque[_Task] = deque()
        self.given = 0
        self._trail: Trail[Table] = Trail()
        self.handed_on = 0  # how many tasks were, whatever became of them
        self._looked = perf_counter()  # when somebody has thought of looking at positions

    def forked(self) -> None:
        self._inherited = True

    def ahead(self) -> int:
        """The number of elements that were taken and not handed on."""
        return len(self.tasks)

    def start(self) -> None:
        """Begin the calls that a loaded position, or saving, has left to be made."""
        self._origin.must_be_here(_AHEAD)
        for task in self.tasks:
            if task.call is None:
                task.call = self._submit(task.element)

    def _submit(self, element: Any) -> Future[Any]:
        if self._pool is None:
            self._pool = self._pipe.pool()
        return self._pool.submit(self._fn, element)

    def take(self, source: Iterator[Any], mark: Callable[[], Table] | None, at: Opening) -> bool:
        """Take an element and have the function called; False if there is none, or the source has raised.

        ``mark`` looks at the positions above, if nobody else reads there.
        """
        if self._inherited:
            self._origin.must_be_here(_AHEAD)
        trail, number = self._trail, self.handed_on + len(self.tasks) + 1
        element = _END
        try:
            for element in source:  # noqa: B007  # used below: next() is a call, and a signal may come behind it
                break
            else:
                return False
            before, self._looked = self._looked, perf_counter()
            must = trail.looking.cost <= _CHEAP or is_lost(element)
            known = trail.made(self._looked - before, number, self.handed_on, mark, must)
            task = _Task(element, number, as_taken=None if known else self._as_taken(element))
        except Exception as error:
            self.tasks.append(_Task(None, number, _failed(error), own=False))
            trail.made(0.0, number, self.handed_on, mark, must=True)
            return False
        except BaseException as error:
            if element is not _END:
                at.keep(element, error)
            raise
        self.tasks.append(task)
        task.call = self._submit(element)
        return True

    def _as_taken(self, element: Any) -> bytes | None:
        with suppress(UnsavableElement):
            return self.encode([element]) if holds_stream(element) else None
        return None

    def first(self) -> tuple[Any, int]:
        """Wait for the first call and return its result or ``SKIP``, and its number; or raise its error."""
        if self._inherited:
            self._origin.must_be_here(_AHEAD)
        try:
            error = self.tasks[0].call.exception()  # waits; who is interrupted here has taken nothing
        except BaseException:
            self._call_off()  # Python would make all these calls before it ends
            raise
        task = self.tasks[0]
        if task.own:
            element = task.element  # an error names it, because of its name in this frame
        try:
            if self.faults is not None and task.own and isinstance(error, Exception | None):
                self.faults.seen += 1
            if error is None:
                return task.call.result(), task.number
            if self.faults is None or not task.own or not isinstance(error, Exception):
                raise error
            return self.faults.absorb(error, element, partial(self._again, element)), task.number
        except Exception:
            del self.tasks[0]
            self.handed_on = task.number
            raise
        except BaseException:  # an interruption costs no element: the function is called once more
            task.call = None
            raise
        finally:
            del error, task  # an error's traceback holds this frame

    def _again(self, element: Any) -> Any:
        return self._submit(element).result()

    def finish(self) -> None:
        """Shut down the pool and judge the errors, when all is handed on."""
        self._end_pool()
        if self.faults is not None:
            self.faults.finish()

    def _end_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._origin.is_here:
            with suppress(RuntimeError):  # in one of these threads the collector may find an abandoned iterator
                pool.shutdown(wait=True, cancel_futures=True)

    def done(self) -> int:
        return self.given

    def carried(self) -> Table | None:
        return self._trail.just_after(self.handed_on)

    def save(self) -> dict[str, Any]:
        ahead = None if self.carried() is not None else self._ahead_as_data()
        return {"given": self.given, "ahead": ahead, "errors": self.saved_errors()}

    def _ahead_as_data(self) -> bytes | None:
        """Results of the calls that have begun, elements of the others, and the texts of what the source has raised."""
        self._origin.must_be_here(_AHEAD)
        self._call_off()
        try:
            return saved_waiting(self, map(_waiting, self.tasks))  # before a call reads the streams of an element
        finally:
            if self._pool is not None:
                self.start()

    def _call_off(self) -> None:
        """Take back the calls that have not begun; ``start`` makes them."""
        for task in reversed(self.tasks):
            if task.call is not None and task.call.cancel():
                task.call = None

    def load(self, saved: Any) -> None:
        given, ahead, errors = fields(saved, "given", "ahead", "errors")
        self.given = count(given, "given")
        for number, (kind, it) in enumerate(loaded_waiting(self, ahead, "element", "as taken", "result"), 1):
            match kind:
                case "element":
                    task = _Task(it, number)
                case "as taken":
                    (taken,) = self.decode_list(it)
                    task = _Task(taken, number, as_taken=it)
                case "result":
                    task = _Task(None, number, _returned(it))
                case _:
                    task = _Task(None, number, _failed(it), own=False)
            self.tasks.append(task)
        self.load_errors(errors)

    def close(self) -> None:
        self._end_pool()
        self.tasks.clear()


def _waiting(task: _Task) -> Any:
    """The result of a call that has begun, the element of another, or what the source has raised, to be saved."""
    error = None if task.call is None else task.call.exception()
    if not task.own:
        return error
    if task.call is None or error is not None:  # a call that failed is made again
        return ["element", task.element] if task.as_taken is None else ["as taken", task.as_taken]
    return ["result", task.call.result()]


def _returned(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def _failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
