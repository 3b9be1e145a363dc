"""RayReadingService: copies of the graph run in processes on the machines of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any

from datapipes.description.structure import Pipe
from datapipes.errors import BadArgument
from reading_services.cluster.host import ClusterHost
from reading_services.cluster.ray_engine import RayEngine
from reading_services.interface.service import EpochFn, InitFn, ResetFn
from reading_services.multi_process import free_share, items_ahead
from reading_services.workers.cut import replicable_end
from reading_services.workers.pool import Pool
from reading_services.workers.service import OnWorkers, service
from reading_services.workers.transport.protocol import Window
from reading_services.workers.worker import PoolSpec
from reading_services.workers.worker_checks import needs_pickling, portable

_SECONDS = 0.005
"""Seconds of work in a frame's elements, twice that if they are few. The main process receives each frame, of many
workers."""


@service
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
        runtime_env: Files and packages that Ray brings to the workers (``{"working_dir": ...}``, ``{"pip": [...]}``).
            ``None``: each machine has the same Python packages and modules installed.
        silence: Seconds without a heartbeat after which the main process gives up a worker, and the worker exits.
    """

    num_workers: int
    _: KW_ONLY
    address: str = "local"
    resources_per_worker: Mapping[str, float] | None = None
    runtime_env: Mapping[str, Any] | None = None
    worker_prefetch_cnt: int = 10
    main_prefetch_cnt: int = 10
    worker_init_fn: InitFn | None = None
    worker_reset_fn: EpochFn | None = None
    restart: int = 3
    silence: float = 20.0
    arena_bytes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.silence > 0:
            raise BadArgument(f"RayReadingService(silence={self.silence}): it must be more than 0 seconds")

    def check(self, datapipe: Pipe) -> None:
        super().check(datapipe)
        if (end := replicable_end(datapipe)) is not None:
            needs_pickling(end, worker_init_fn=self.worker_init_fn, worker_reset_fn=self.worker_reset_fn)

    def _window(self) -> Window:
        items = items_ahead(self.worker_prefetch_cnt, self.main_prefetch_cnt, self.num_workers)
        return Window(items, seconds=_SECONDS)

    def _pool_of(self, plan: PoolSpec) -> Pool:
        members = plan.workers + (plan.dispatched is not None)
        wanted = {"CPU": 1.0} if self.resources_per_worker is None else self.resources_per_worker
        engine = RayEngine(self.address, wanted, members, self.runtime_env)
        room = free_share(self.num_workers) if self.arena_bytes is None else self.arena_bytes
        return Pool(plan, ClusterHost(plan, engine, room, self.silence))

    def _to_send(self, reset: ResetFn) -> bytes:
        return portable(reset)
