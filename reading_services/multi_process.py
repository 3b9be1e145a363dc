"""MultiProcessingReadingService: copies of the graph run in worker processes, each on its shard of the elements."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.structure import Pipe
from datapipes.errors import BadArgument
from reading_services.in_process import InProcessReadingService
from reading_services.interface.service import EpochFn, InitFn, ResetFn
from reading_services.workers.cut import replicable_end
from reading_services.workers.generators import load_numpy
from reading_services.workers.pool import Pool
from reading_services.workers.process.host import ProcessHost
from reading_services.workers.service import OnWorkers, service
from reading_services.workers.transport.protocol import Window
from reading_services.workers.worker import PoolSpec
from reading_services.workers.worker_checks import needs_pickling, portable

_ARENA = 1 << 32
"""The most bytes of shared memory for a worker. Memory is used only for batches on their way or still in use."""


@service
class MultiProcessingReadingService(OnWorkers):
    """Runs a graph in ``num_workers`` processes and gives their elements in turn.

    Each worker takes its shard at the graph's ``sharding_filter``. ``random``, ``numpy.random`` and torch are seeded in
    each worker for each epoch. Their states are saved with its position after their first use. ``max_errors`` of a
    stage counts for each worker. A worker that dies raises ``WorkerDied``. The next ``next()`` or epoch replaces it;
    ``restart`` replaces it without an error.

    Args:
        num_workers: The number of processes. 0 runs the graph in this process, with a warning.
        multiprocessing_context: The start method: ``"fork"``, ``"spawn"`` or ``"forkserver"``. All but ``"fork"``
            pickle the graph and its functions, and need a script to guard its entry point with
            ``if __name__ == "__main__":``. ``None``: the default of ``multiprocessing``.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> graph = IterableWrapper(range(6)).sharding_filter().map(str)
    >>> with DataLoader2(graph, reading_service=MultiProcessingReadingService(num_workers=2)) as dl:
    ...     list(dl)
    ['0', '1', '2', '3', '4', '5']
    """

    _fewest: ClassVar[int] = 0

    num_workers: int = 0
    multiprocessing_context: str | None = None
    worker_prefetch_cnt: int = 10
    main_prefetch_cnt: int = 10
    worker_init_fn: InitFn | None = None
    worker_reset_fn: EpochFn | None = None
    _: KW_ONLY
    arena_bytes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        methods = multiprocessing.get_all_start_methods()
        if self.multiprocessing_context not in (None, *methods):
            raise BadArgument(
                f"multiprocessing_context={self.multiprocessing_context!r}: choose one of {methods}, or None"
            )
        if self.num_workers == 0:
            warnings.warn(
                "MultiProcessingReadingService(num_workers=0) runs the graph in this process; "
                "use InProcessReadingService for that",
                stacklevel=3,
            )

    def check(self, datapipe: Pipe) -> None:
        super().check(datapipe)
        end = replicable_end(datapipe) if self.num_workers and self._context.get_start_method() != "fork" else None
        if end is not None:
            needs_pickling(end, worker_init_fn=self.worker_init_fn, worker_reset_fn=self.worker_reset_fn)

    @property
    def _context(self) -> Any:
        return multiprocessing.get_context(self.multiprocessing_context)

    def initialize(self, datapipe: Pipe) -> Pipe:
        if self.num_workers == 0:
            self._in_process = InProcessReadingService(0, self.worker_init_fn, self.worker_reset_fn)
            return self._in_process.initialize(datapipe)
        return super().initialize(datapipe)

    def _window(self) -> Window:
        return Window(items_ahead(self.worker_prefetch_cnt, self.main_prefetch_cnt, self.num_workers))

    def _pool_of(self, plan: PoolSpec) -> Pool:
        if self._context.get_start_method() == "fork":
            load_numpy()
        room = free_share(self.num_workers) if self.arena_bytes is None else self.arena_bytes
        return Pool(plan, ProcessHost(plan, self._context, room))

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        if self.num_workers == 0:
            return self._in_process.initialize_iteration(seed_generator, iter_reset_fn)
        return super().initialize_iteration(seed_generator, iter_reset_fn)

    def _to_send(self, reset: ResetFn) -> bytes:
        return portable(reset)


def items_ahead(of_each: int, of_all: int, workers: int) -> int:
    """Return how many elements each worker may make ahead, including its share of ``of_all``."""
    return max(1, of_each + -(-of_all // workers))


def free_share(workers: int) -> int:
    """Return the bytes of a worker's arena: a share of the machine's free memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1 << 22, min(_ARENA, free // 4 // workers))
