"""map_batches, async_map_batches: a function of a list of elements; or a coroutine for each element of a batch.

Each iteration of ``async_map_batches`` has an event loop in a thread of its own, so it also works inside a running
loop. The loop lives from the first batch to the end of the iteration, also after exceptions, so that resources of the
coroutines stay usable. No coroutine outlives its batch.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from itertools import islice
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.errors import BadArgument, StateError
from datapipes.iter.elements.flatmap import FlatMapper
from datapipes.iter.elements.numbering import LengthSetter
from datapipes.iter.grouping.batch import Batcher
from datapipes.messages.interrupts import CtrlCWaits, wait_for
from datapipes.operator_support.checks import length_of, needs_callable, needs_count, same_length
from datapipes.operator_support.columns import check_columns, on_input, placing, validate_input_col
from datapipes.operator_support.flattening import FlattenCell, Flattening
from datapipes.position.cells import Cell, fields
from datapipes.position.forks import OwnerProcess
from datapipes.position.on_error import SKIP, LeftOut, OnError, Tolerant, ToleratedErrors, may_leave_out
from datapipes.position.opening import Opening

R_co = TypeVar("R_co", covariant=True)

_PATIENCE = 2.0  # seconds to wait for a loop that a coroutine blocks


@operator
class BatchMapper(Tolerant, Flattening[R_co]):
    """Every element of the iterable that a function returns for each batch of elements.

    If ``fn`` raises, the whole batch counts as the element that could not be made.

    Args:
        fn: The function of a batch, a list. It returns an iterable of any length.
        batch_size: The number of elements in a batch; the last may be shorter.
        input_col: The column of each element to pass, or a list of columns, which makes each a list. ``None``: whole
            elements.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).map_batches(lambda batch: [sum(batch)], batch_size=2))
    [1, 5, 4]
    """

    _fluent: ClassVar[str | None] = "map_batches"

    datapipe: IterDataPipe[Any]
    fn: Callable[[list[Any]], Iterable[R_co]]
    batch_size: int
    input_col: Any = None

    def __post_init__(self) -> None:
        needs_callable("map_batches", self.fn)
        needs_count(self, "batch_size", 1, "Batch size is required to be larger than 0")
        super().__post_init__()

    def _open(self, at: Opening) -> Iterator[R_co]:
        above = at.above()
        held = at.cell(partial(_BatchMapCell, self))
        batches = held.batches(at.source(self.datapipe))
        return self._elements(held.inputs(batches, above, at_start=not at.resumed), held, self._inner)

    def _inner(self, batch: list[Any]) -> Iterable[R_co]:
        column = self.input_col
        if isinstance(column, list | tuple):
            return self.fn([[element[one] for one in column] for element in batch])
        return self.fn(batch if column is None else [element[column] for element in batch])

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__}'s length relies on the output of its function.")


class _BatchMapCell(FlattenCell):
    """Current batch, and the elements taken for the next one when the source raised."""

    def __init__(self, pipe: BatchMapper[Any]) -> None:
        super().__init__(pipe)
        self._size = pipe.batch_size
        self._partial: list[Any] = []

    def batches(self, source: Iterator[Any]) -> Iterator[list[Any]]:
        """Yield lists of the elements of ``source``, after those that were already taken."""
        while True:
            if self._partial:
                self._above = None  # this batch began before the last snapshot of the position above
            self._partial.extend(islice(source, self._size - len(self._partial)))
            batch, self._partial = self._partial, []
            if batch:
                yield batch
            if len(batch) < self._size:
                return

    def save(self) -> dict[str, Any]:
        return {"held": super().save(), "partial": self.encode(self._partial) if self._partial else None}

    def load(self, saved: Any) -> None:
        held, partial_batch = fields(saved, "held", "partial")
        super().load(held)
        if partial_batch is not None:
            self._partial = self.decode_list(partial_batch)
            if len(self._partial) > self._size:  # an interruption may have come when it was full and not handed on
                raise StateError(f"expected fewer than {self._size} elements of a batch, found {len(self._partial)}")

    def close(self) -> None:
        super().close()
        self._partial = []


@composed
def BatchAsyncMapper(
    source_datapipe: IterDataPipe[Any],
    async_fn: Callable[..., Awaitable[Any]],
    batch_size: int,
    input_col: Any = None,
    output_col: Any = None,
    max_concurrency: int = 32,
    flatten: bool = True,
    *,
    on_error: OnError = "raise",
    max_errors: int | float | None = None,
) -> IterDataPipe[Any]:
    """``await async_fn(element)`` for each element, those of a batch concurrently; the order is kept.

    An exception costs its batch, unless ``on_error`` decides about the element.

    Args:
        async_fn: The coroutine function, such as one made by ``async def``, of the element, or of its columns as
            separate arguments.
        batch_size: Number of elements to take at a time. The next ones are taken when all of these are done. A larger
            batch waits less often for its slowest element, but needs more memory.
        max_concurrency: Most coroutines of a batch that run at the same time.
        flatten: Whether to give single elements. Otherwise each batch is a list.

    >>> from datapipes.iter import IterableWrapper
    >>> async def tenfold(x):
    ...     return 10 * x
    >>> list(IterableWrapper(range(5)).async_map_batches(tenfold, batch_size=2))
    [0, 10, 20, 30, 40]
    """
    if not (iscoroutinefunction(async_fn) or iscoroutinefunction(type(async_fn).__call__)):
        raise BadArgument(
            f"async_map_batches() expects a coroutine function, such as one made by `async def`, got {async_fn!r:.80}"
        )
    mapper = _AsyncMapper(
        Batcher(source_datapipe, batch_size, wrapper_class=list),
        async_fn,
        input_col,
        output_col,
        max_concurrency,
        on_error=on_error,
        max_errors=max_errors,
    )
    if not flatten:
        return mapper
    if not may_leave_out(mapper):
        # The source may have no length, or a user's `__len__` may warn.
        with suppress(TypeError, Warning), warnings.catch_warnings(action="error"):
            return LengthSetter(FlatMapper(mapper), length_of(source_datapipe))
    return FlatMapper(mapper)


@operator
class _AsyncMapper(Tolerant, IterDataPipe[list[Any]]):
    """Each batch, with its elements replaced."""

    _fluent: ClassVar[str | None] = "async_map_batches"

    source_datapipe: IterDataPipe[list[Any]]
    async_fn: Callable[..., Awaitable[Any]]
    input_col: Any = None
    output_col: Any = None
    max_concurrency: int = 32

    def __post_init__(self) -> None:
        self.output_col = check_columns(self.input_col, self.output_col)
        validate_input_col(self.async_fn, self.input_col)
        needs_count(self, "max_concurrency", 1, f"max_concurrency must be larger than 0, got {self.max_concurrency}")
        super().__post_init__()

    def _open(self, at: Opening) -> Iterator[list[Any]]:
        return self._batches(at.source(self.source_datapipe), at.cell(partial(_EventLoopCell, self)), at)

    def _batches(self, source: Iterator[list[Any]], loop: _EventLoopCell, at: Opening) -> Iterator[list[Any]]:
        call, place = on_input(self.async_fn, self.input_col), placing(self.input_col, self.output_col)

        async def made(element: Any) -> Any:
            try:
                return place(element, await call(element))
            except LeftOut:
                if loop.faults is None:
                    return SKIP  # the other elements of the batch stay
                raise

        for batch in source:
            try:
                loop.must_be_here()
                results = self._mapped(batch, made, loop)
            except BaseException as error:
                at.keep(batch, error)
                raise
            yield results
            del results
        loop.finish()

    def _mapped(
        self, batch: list[Any], made: Callable[[Any], Coroutine[Any, Any, Any]], loop: _EventLoopCell
    ) -> list[Any]:
        faults = loop.faults
        outcomes = loop.run(_outcomes(batch, made, self.max_concurrency, at_once=faults is None))
        results = []
        error = None
        try:
            for element, (error, result) in zip(batch, outcomes, strict=True):
                if faults is not None:
                    faults.seen += 1
                if error is not None:
                    if faults is None or not isinstance(error, Exception):
                        raise error
                    result = faults.absorb(error, element, partial(loop.run_anew, made, element))
                if result is not SKIP:
                    results.append(result)
            return results
        finally:
            del outcomes, error  # an error's traceback refers to this frame

    __len__ = same_length


async def _outcomes(
    batch: list[Any], made: Callable[[Any], Coroutine[Any, Any, Any]], most: int, at_once: bool
) -> list[tuple[BaseException | None, Any]]:
    """Return errors and results of all elements of a batch. ``at_once``: the first error stops the other coroutines."""
    semaphore = asyncio.Semaphore(most)

    async def in_turn(element: Any) -> Any:
        async with semaphore:
            return await made(element)

    tasks = [asyncio.create_task(in_turn(element)) for element in batch]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION if at_once else asyncio.ALL_COMPLETED)
        stopped = [task for task in tasks if task.cancel()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return [_outcome(task, stopped) for task in tasks]


def _outcome(task: asyncio.Task[Any], stopped: list[asyncio.Task[Any]]) -> tuple[BaseException | None, Any]:
    if task.cancelled():
        # A stopped coroutine reports nothing: the error that stopped it will be raised.
        return (None, SKIP) if task in stopped else (RuntimeError("the coroutine of this element was cancelled"), None)
    error = task.exception()
    return (error, None) if error is not None else (None, task.result())


class _EventLoopCell(Cell):
    """Event loop and its thread. Between two batches only the errors are part of the position."""

    def __init__(self, pipe: _AsyncMapper) -> None:
        self.faults = None if pipe.on_error == "raise" else ToleratedErrors(pipe)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop = asyncio.Event()
        self._origin = OwnerProcess()

    def must_be_here(self) -> None:
        """Raise ForkedIteration in a fork of the process, which lacks the thread: the loop is still the parent's."""
        self._origin.must_be_here("the coroutines")

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop and return its result."""
        with CtrlCWaits():
            if self._loop is None:
                self._loop, self._stop = asyncio.new_event_loop(), asyncio.Event()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop, self._stop), name="async_map_batches", daemon=True
                )
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            wait_for(future)
            return future.result()
        finally:
            with CtrlCWaits():
                future.cancel()  # after an interruption the result is not needed
            del future  # its error's traceback refers to this frame

    def run_anew(self, made: Callable[[Any], Coroutine[Any, Any, Any]], element: Any) -> Any:
        """Run another coroutine for an element and return its result."""
        return self.run(made(element))

    def finish(self) -> None:
        """Stop the loop and judge the errors, at the end of the source."""
        self.close()
        if self.faults is not None:
            self.faults.finish()

    def save(self) -> list[int] | None:
        return self.saved_errors()

    def load(self, saved: Any) -> None:
        self.load_errors(saved)

    def close(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None and self._origin.is_here:
            with suppress(RuntimeError):  # the loop is already closed
                loop.call_soon_threadsafe(self._stop.set)
            if thread is not threading.current_thread():  # the garbage collector may run this in the loop's thread
                thread.join(_PATIENCE)


def _serve(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Run a loop until ``stop`` is set. Then cancel its remaining tasks and close it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_until(stop))


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()
