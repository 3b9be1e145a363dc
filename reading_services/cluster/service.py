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
"""How long the elements of a message take to be made, or twice that if they are few: home takes in each message, and
has many workers to listen to."""


class RayReadingService(OnWorkers):
    """Runs a graph in ``num_workers`` processes on a Ray cluster, and hands on their elements in turn.

    What runs in workers, the order, the seeds, the states and the errors are those of ``MultiProcessingReadingService``
    with as many workers, and a state goes from one to the other and back. Ray places the workers and tells of their
    ends. Elements come over connections of their own, by shared memory from workers on this machine, and are yours to
    keep and to write to.

    Args:
        num_workers: The number of processes, one at least.
        address: ``"local"``: Ray is started on this machine. ``"auto"``, or the address of a cluster's head: that is
            joined. A Ray that this program has joined by itself is used, whatever is said here.
        resources_per_worker: What each worker needs, by Ray's names. ``None``: ``{"CPU": 1}``.
        restart: How many workers that die in an epoch are replaced without an error.
        on_death: ``"skip"`` leaves out an element that has killed its worker twice in a row, and counts it in
            ``dl.errors``.
        runtime_env: What Ray has to bring along to the workers (``{"working_dir": ...}``, ``{"pip": [...]}``).
            ``None``: the workers find the same Python packages and modules where they run.
        worker_prefetch_cnt: How many elements each worker may make ahead, one at least.
        main_prefetch_cnt: How many elements all workers together may make ahead, beside those.
        worker_init_fn: As for ``MultiProcessingReadingService``.
        worker_reset_fn: As for ``MultiProcessingReadingService``.
        in_order: Whether workers take turns, so that the order is the same in every run.
        timeout: After how many seconds in which a worker that is waited for has sent nothing there is a
            ``WorkerTimeout``. ``None``: never.
        silence: After how many seconds without a sign of life a worker is given up, and gives up.
        arena_bytes: How much memory is shared with each worker on this machine at most. ``None``: a share of what is
            free.
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
            raise BadArgument(f"RayReadingService(silence={silence}): seconds, more than 0")

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
