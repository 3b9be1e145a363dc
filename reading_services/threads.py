"""ThreadingReadingService: copies of the graph run in threads of this process, each on its shard of the elements."""

from __future__ import annotations

from reading_services.interface.service import EpochFn, InitFn
from reading_services.workers.pool import Pool
from reading_services.workers.service import OnWorkers, service
from reading_services.workers.thread_host import ThreadHost
from reading_services.workers.transport.protocol import Window
from reading_services.workers.worker import PoolSpec


@service
class ThreadingReadingService(OnWorkers):
    """Runs a graph in ``num_workers`` threads and gives their elements in turn.

    It suits graphs that wait for files or a network, and functions that release Python's lock. Elements are passed on
    as they are: nothing is pickled or copied. All threads share the objects that the graph refers to, and the global
    random number generators. If random numbers have to be repeatable, use generators of your own, seeded from those
    that ``worker_reset_fn`` gets.

    Args:
        num_workers: The number of threads, at least one.
        prefetch_cnt: How many elements each thread may make ahead, at least one. More of them even out slow elements
            and need more memory.
        restart: How many threads that end in an epoch, by an error of no element, are replaced without an error.
        on_death: As for ``MultiProcessingReadingService``; an element cannot kill a thread.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> graph = IterableWrapper(range(6)).sharding_filter().map(str)
    >>> with DataLoader2(graph, reading_service=ThreadingReadingService(num_workers=2)) as dl:
    ...     list(dl)
    ['0', '1', '2', '3', '4', '5']
    """

    num_workers: int
    prefetch_cnt: int = 10
    worker_init_fn: InitFn | None = None
    worker_reset_fn: EpochFn | None = None

    def _window(self) -> Window:
        return Window(items=max(1, self.prefetch_cnt), small=0, messages=0)

    def _pool_of(self, plan: PoolSpec) -> Pool:
        return Pool(plan, ThreadHost(plan))
