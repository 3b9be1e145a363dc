"""InProcessReadingService: the graph runs in the process of the loader."""

from __future__ import annotations

from typing import Any

from datapipes.description import structure
from datapipes.errors import BadArgument
from datapipes.iter import Prefetcher
from datapipes.operator_support.checks import whole_number
from datapipes.position import user_classes
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from reading_services.interface.service import EpochFn, InitFn, ReadingServiceInterface, ResetFn, WorkerInfo, graph_from
from reading_services.workers.cut import with_end_replaced

_ONLY_ONE = WorkerInfo(num_workers=1, worker_id=0)


class InProcessReadingService(ReadingServiceInterface):
    """Service that runs a graph in the loader's own process.

    Args:
        prefetch_cnt: The number of elements made ahead, in a thread. 0: none, and no thread.
        init_fn: ``init_fn(datapipe, worker_info)`` may change the graph once, before the first epoch. It returns the
            graph to use. ``None``: no change.
        reset_fn: ``reset_fn(datapipe, worker_info, seed_generator)`` may change the graph at the start of each epoch.
            It returns the graph to use from then on. ``None``: no change.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> list(DataLoader2(IterableWrapper(range(3)), reading_service=InProcessReadingService(prefetch_cnt=2)))
    [0, 1, 2]
    """

    def __init__(self, prefetch_cnt: int = 0, init_fn: InitFn | None = None, reset_fn: EpochFn | None = None) -> None:
        if whole_number("prefetch_cnt", prefetch_cnt, "InProcessReadingService()") < 0:
            raise BadArgument(f"InProcessReadingService(prefetch_cnt={prefetch_cnt}): it must not be negative")
        self.prefetch_cnt = prefetch_cnt
        self.init_fn = init_fn
        self.reset_fn = reset_fn

    def sees_to_ranks(self) -> bool:
        return False

    def initialize(self, datapipe: Any) -> Any:
        for stage in structure.walk(datapipe, inputs=user_classes.sharded_inputs):
            # A user's class may wait for its shard; an operator without a shard gives all elements.
            if user_classes.is_sharding(stage) and not structure.is_native(stage):
                user_classes.shard(
                    stage, _ONLY_ONE.num_workers, _ONLY_ONE.worker_id, SHARDING_PRIORITIES.MULTIPROCESSING
                )
        if self.init_fn is not None:
            datapipe = graph_from(self.init_fn, self.init_fn(datapipe, _ONLY_ONE))
        if not self.prefetch_cnt:
            return datapipe
        # The stage that synchronizes ranks stays last: it counts the elements handed on, not those made ahead.
        end = datapipe
        while not user_classes.is_replicable(end) and len(parents := structure.parents(end)) == 1:
            end = parents[0]
        return with_end_replaced(datapipe, end, lambda end: Prefetcher(end, self.prefetch_cnt))

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        reset_fn = self.reset_fn
        if reset_fn is None:
            return iter_reset_fn

        def prepare(datapipe: Any) -> Any:
            if iter_reset_fn is not None:
                datapipe = iter_reset_fn(datapipe)
            return graph_from(reset_fn, reset_fn(datapipe, _ONLY_ONE, seed_generator))

        return prepare
