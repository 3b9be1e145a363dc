"""threadpool_map: a function of each element, called in several threads; the results keep the elements' order.

``datapipes.operator_support.task_queue`` has the queue of the calls, and its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, TypeVar

from datapipes.description.given_sources import as_pipe
from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operator_support.checks import check_options, needs_callable, needs_count, same_length
from datapipes.operator_support.columns import check_columns, on_columns, validate_input_col
from datapipes.operator_support.task_queue import TaskQueueCell
from datapipes.position.on_error import OnError, check_policy
from datapipes.position.opening import Opening

R_co = TypeVar("R_co", covariant=True)


@operator
class ThreadPoolMapper(IterDataPipe[R_co]):
    """``fn`` of each element, or of some of its columns, called in a pool of threads; the order is kept.

    Args:
        fn: The function of the element, or of its columns as separate arguments. Several threads call it at the same
            time.
        scheduled_tasks: Number of elements to take ahead of the one handed on. A larger number keeps the threads busy
            during long calls, but needs more memory.
        max_workers: Number of threads. ``None``: the default of ``concurrent.futures.ThreadPoolExecutor``.
        **threadpool_kwargs: Further arguments of ``ThreadPoolExecutor``: ``thread_name_prefix``, ``initializer`` and
            ``initargs``. Any other name is refused.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).threadpool_map(lambda x: 10 * x, max_workers=2))
    [0, 10, 20, 30, 40]
    """

    _fluent: ClassVar[str | None] = "threadpool_map"
    _commutes: ClassVar[bool] = True
    _prefetches: ClassVar[bool] = True

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
        return self._elements(at.cell(partial(TaskQueueCell, self)).elements(at.source(self.datapipe), at))

    def _elements(self, elements: Iterator[R_co]) -> Iterator[R_co]:
        yield from elements  # errors find their stage by the `self` of this frame

    def pool(self) -> ThreadPoolExecutor:
        """Return new threads for this stage."""
        return ThreadPoolExecutor(self.max_workers, **self.threadpool_kwargs)

    def call(self) -> Callable[[Any], Any]:
        """Return the function to call with an element."""
        return on_columns(self.fn, self.input_col, self.output_col)

    def _indexed(self) -> Indexed | None:
        source = indexed(self.datapipe)
        return None if source is None else source.giving(partial(self._made_of, self.call(), source.at))

    __len__ = same_length
