"""RayReadingService: copies of the graph run in processes on the machines of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datapipes.description.structure import Pipe
from datapipes.errors import BadArgument
from reading_services.cluster.place import Members
from reading_services.cluster.ray_engine import RayEngine
from reading_services.interface.service import EpochFn, InitFn, ResetFn
from reading_services.multi_process import free_share, items_ahead
from reading_services.workers.cut import replicable_end
from reading_services.workers.pool import Pool
from reading_services.workers.portable import needs_pickling, portable
from reading_services.workers.restarts import OnDeath
from reading_services.workers.service import OnWorkers
from reading_services.workers.transport.protocol import Window
from reading_services.workers.worker import PoolPlan

_SECONDS = 0.005
"""Seconds of work in a frame's elements, twice that if they are few. The main process receives each frame, of many
workers."""


class RayReadingService(OnWorkers):
    """Service that runs a graph in ``num_workers`` processes on a Ray cluster, and gives their elements in turn.

    The workers' part of the graph, the order, the seeds, the states and the errors are those of
    ``MultiProcessingReadingService`` with as many workers; states can be loaded by either. Ray starts the workers and
    reports their ends. Elements come over connections of this library, by shared memory from workers on this machine.
    They belong to the caller, who may keep and change them.

    Args:
        num_workers: The number of processes, at least 1.
        address: ``"local"`` starts Ray on this machine. ``"auto"``, or the address of a cluster's head, joins that one.
            If the program has joined a Ray itself, that is used instead.
        resources_per_worker: The resources of each worker, by Ray's names. ``None``: ``{"CPU": 1}``.
        restart: The number of workers that are replaced in an epoch before a worker's death is an error.
        on_death: ``"skip"`` leaves out an element that has killed its worker twice in a row, and counts it in
            ``dl.errors``.
        runtime_env: Files and packages that Ray brings to the workers (``{"working_dir": ...}``, ``{"pip": [...]}``).
            ``None``: each machine has the same Python packages and modules installed.
        worker_prefetch_cnt: The number of elements that each worker may make ahead. It makes at least one ahead.
        main_prefetch_cnt: The number of elements that all workers together may make ahead in addition.
        worker_init_fn: As for ``MultiProcessingReadingService``.
        worker_reset_fn: As for ``MultiProcessingReadingService``.
        in_order: Workers take turns, so that the order is the same in every run.
        timeout: Seconds without a frame from the worker that is waited for, after which ``WorkerTimeout`` is raised.
            ``None``: no limit.
        silence: Seconds without a heartbeat after which the main process gives up a worker, and the worker exits.
        arena_bytes: The largest size of the memory shared with each worker on this machine. ``None``: a share of the
            free memory.
    """

    def __init__(
        self,
        num_workers: int,
        *,
        address: str = "local",
        resources_per_worker: Mapping[str, float] | None = None,
        restart: int = 3,
        on_death: OnDeath = "raise",
        runtime_env: Mapping[str, Any] | None = None,
        worker_prefetch_cnt: int = 10,
        main_prefetch_cnt: int = 10,
        worker_init_fn: InitFn | None = None,
        worker_reset_fn: EpochFn | None = None,
        in_order: bool = True,
        timeout: float | None = None,
        silence: float = 20.0,
        arena_bytes: int | None = None,
    ) -> None:
        self.num_workers = num_workers
        self.address = address
        self.resources_per_worker = resources_per_worker
        self.restart = restart
        self.on_death = on_death
        self.runtime_env = runtime_env
        self.worker_prefetch_cnt = worker_prefetch_cnt
        self.main_prefetch_cnt = main_prefetch_cnt
        self.worker_init_fn = worker_init_fn
        self.worker_reset_fn = worker_reset_fn
        self.in_order = in_order
        self.timeout = timeout
        self.silence = silence
        self.arena_bytes = arena_bytes
        room = {} if arena_bytes is None else {"arena_bytes": 1}
        self._check_arguments(num_workers=1, worker_prefetch_cnt=0, main_prefetch_cnt=0, restart=0, **room)
        if not silence > 0:
            raise BadArgument(f"RayReadingService(silence={silence}): it must be more than 0 seconds")

    def check(self, datapipe: Pipe) -> None:
        super().check(datapipe)
        if (end := replicable_end(datapipe)) is not None:
            needs_pickling(end, worker_init_fn=self.worker_init_fn, worker_reset_fn=self.worker_reset_fn)

    def _window(self) -> Window:
        items = items_ahead(self.worker_prefetch_cnt, self.main_prefetch_cnt, self.num_workers)
        return Window(items, seconds=_SECONDS)

    def _pool_of(self, plan: PoolPlan) -> Pool:
        members = plan.workers + (plan.dispatched is not None)
        wanted = {"CPU": 1.0} if self.resources_per_worker is None else self.resources_per_worker
        engine = RayEngine(self.address, wanted, members, self.runtime_env)
        room = free_share(self.num_workers) if self.arena_bytes is None else self.arena_bytes
        return Pool(plan, Members(plan, engine, room, self.silence))

    def _to_send(self, reset: ResetFn) -> bytes:
        return portable(reset)
