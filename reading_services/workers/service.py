"""Base of the services with workers: processes or threads make the elements of a part of the graph.

The pool of workers ends with the service, even if ``finalize`` is not called. The stage in the main process refers to
the pool and never to the service: it would keep the service, and with it the pool, alive.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, dataclass_transform

from datapipes.description.parameters import described, with_shared
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import Lanes
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import misspelt, whole_number
from reading_services.interface.service import EpochFn, InitFn, Level, ReadingServiceInterface, ResetFn
from reading_services.workers.cut import replicable_end, with_end_replaced
from reading_services.workers.dispatched import length_of_parts, without_dispatched
from reading_services.workers.gather import Gathered
from reading_services.workers.pool import Pool
from reading_services.workers.restarts import OnDeath, RestartPolicy
from reading_services.workers.transport.protocol import Window
from reading_services.workers.worker import EpochStart, PoolSpec
from reading_services.workers.worker_checks import needs_many_readers

C = TypeVar("C", bound=type)

_LEAST: Final = {
    "num_workers": 1,
    "prefetch_cnt": 0,
    "worker_prefetch_cnt": 0,
    "main_prefetch_cnt": 0,
    "restart": 0,
    "arena_bytes": 1,
}
"""The smallest value of each number."""


@dataclass_transform(eq_default=False)
def service(cls: C) -> C:
    """Make the annotated attributes of a service the parameters of its constructor. Use as a class decorator.

    Parameters that several services have are checked by ``OnWorkers`` and described in its docstring.
    """
    made: Any = dataclass(repr=False, eq=False, match_args=False)(cls)
    if made.__doc__:  # python -OO removes it
        made.__doc__ = with_shared(made.__doc__, made.__init__, described(str(OnWorkers.__doc__)))
    return cls


@dataclass(kw_only=True, repr=False, eq=False, match_args=False)
class WorkerOptions:
    """Keyword parameters of all services with workers."""

    in_order: bool = True
    timeout: float | None = None
    restart: int = 0
    on_death: OnDeath = "raise"


class OnWorkers(WorkerOptions, ReadingServiceInterface):
    """Base of the services that run copies of a part of the graph in workers.

    Args:
        worker_prefetch_cnt: How many elements each worker may make ahead, at least one. More of them even out slow
            elements and need more memory. A worker may make more if they are small or take only some milliseconds.
        main_prefetch_cnt: How many elements all workers together may make ahead, in addition to
            ``worker_prefetch_cnt``.
        worker_init_fn: ``worker_init_fn(datapipe, worker_info)`` may change a worker's graph once, after it has been
            sharded. It returns the graph to use. The loader then has no length. ``None``: the graph stays as it is.
        worker_reset_fn: ``worker_reset_fn(datapipe, worker_info, seed_generator)`` may change a worker's graph at the
            start of each epoch. It returns the graph to use from then on. The loader then has no length. ``None``: the
            graph stays as it is.
        in_order: Whether workers take turns, so that the order is the same in every run. ``False`` gives the element
            that comes first: a slow element does not delay the others, and the order varies.
        timeout: Seconds without a frame from the worker whose turn it is, after which ``WorkerTimeout`` is raised. A
            process has up to a minute more to start. ``None``: no limit.
        restart: How many workers that die in an epoch are replaced without an error. No element is lost, doubled or out
            of order, and a warning says which worker died, and how. If an element kills its worker twice in a row,
            ``WorkerDied`` names the element; the next ``next()`` continues after it.
        on_death: ``"skip"`` leaves out an element that has killed its worker twice in a row, and counts it in
            ``dl.errors``. ``"raise"`` raises the ``WorkerDied``.
        arena_bytes: The largest amount of memory that is shared with each worker on this machine; it is allocated as it
            is used. Elements without room in it are sent over a pipe, which is slower. ``None``: a share of the free
            memory, up to 4 GiB.
    """

    level: ClassVar[Level | None] = "workers"

    num_workers: int
    worker_init_fn: InitFn | None
    worker_reset_fn: EpochFn | None
    _fewest: ClassVar[int] = 1
    _plan: PoolSpec
    _pool: Pool | None = None
    _gathered: Gathered[Any] | None = None

    if not TYPE_CHECKING:  # a type checker reads the signature of the constructor

        def __new__(cls, *args: Any, **given: Any) -> Self:
            if (wrong := misspelt(cls.__init__, given)) is not None:
                raise wrong
            return super().__new__(cls)

    def sees_to_ranks(self) -> bool:
        return False

    def __post_init__(self) -> None:
        self._check_arguments(self._fewest)

    def _check_arguments(self, fewest: int) -> None:
        """Raise BadArgument or BadArgumentType for a value that no worker can use.

        ``fewest`` is the smallest number of workers.
        """
        call = type(self).__name__
        least = {**_LEAST, "num_workers": fewest}
        for name, default in ((each.name, each.default) for each in fields(self) if each.name in least):
            if default is None and getattr(self, name) is None:
                continue
            setattr(self, name, whole_number(name, getattr(self, name), f"{call}()"))
            if getattr(self, name) < least[name]:
                raise BadArgument(f"{call}({name}={getattr(self, name)}): it must be at least {least[name]}")
        if self.timeout is not None and not self.timeout > 0:
            raise BadArgument(f"{call}(timeout={self.timeout}): seconds, more than 0, or None")
        if self.on_death not in ("raise", "skip"):
            raise BadArgument(f'{call}(on_death={self.on_death!r}): expected "raise" or "skip"')
        if self.on_death == "skip" and not self.restart:
            raise BadArgument(f'{call}(on_death="skip") is for workers that are replaced: set their number by restart=')
        for name in ("worker_init_fn", "worker_reset_fn"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise BadArgumentType(f"{call}({name}={function!r:.80}): a function, or None")

    def check(self, datapipe: Pipe) -> None:
        end = replicable_end(datapipe)
        if end is not None:
            needs_many_readers(end, self.num_workers)
        if isinstance(end, Lanes) and end.n < self.num_workers:
            warn(f"{printed(end)} has fewer lanes than there are workers: {self.num_workers - end.n} get none")

    def planned(self, datapipe: Pipe) -> Pipe:
        end = replicable_end(datapipe) if self.num_workers else None
        return datapipe if end is None else with_end_replaced(datapipe, end, self._gathering)

    def initialize(self, datapipe: Pipe) -> Pipe:
        end = replicable_end(datapipe)
        if end is None:
            return datapipe
        worker_end, dispatched = without_dispatched(end)
        functions = self.worker_init_fn, self.worker_reset_fn
        self._plan = PoolSpec(worker_end, self.num_workers, self._window(), *functions, self.timeout, dispatched)
        gathered = self._gathered = self._gathering(end, self._new_pool())
        return with_end_replaced(datapipe, end, lambda _: gathered)

    def _new_pool(self) -> Pool:
        if self._pool is not None:
            self._pool.close()
        pool = self._pool = self._pool_of(self._plan)
        weakref.finalize(self, pool.close)
        return pool

    def resize(self, num_workers: int) -> None:
        """Use another number of workers from the next epoch on: ``dl.reading_service.resize(4)``.

        The order of the elements depends on this number, so a state saved in mid-epoch needs the number it was saved
        with.

        Args:
            num_workers: The number of workers, at least one. It must be the same on all ranks.
        """
        before, self.num_workers = self.num_workers, num_workers
        try:
            self._check_arguments(fewest=1)
            if before == 0:
                raise BadArgument(f"resize({num_workers}): this service runs the graph in this process, with no worker")
            if self._gathered is not None:
                needs_many_readers(self._gathered.graph, num_workers)
        except BaseException:
            self.num_workers = before
            raise

    def _resized(self, gathered: Gathered[Any]) -> None:
        self._plan = replace(self._plan, workers=self.num_workers, window=self._window())
        gathered.become(self._gathering(gathered.graph, self._new_pool()))

    def _gathering(self, end: Pipe, pool: Any = None) -> Gathered[Any]:
        """Return the stage that gathers the elements of a part of the graph in the main process."""
        changes = self.worker_init_fn, self.worker_reset_fn
        length = partial(length_of_parts, workers=self.num_workers, changes=changes)
        return Gathered(end, pool, self.in_order, length, RestartPolicy(self.restart, self.on_death))

    @abstractmethod
    def _window(self) -> Window:
        """Return how far each worker may run ahead."""

    @abstractmethod
    def _pool_of(self, plan: PoolSpec) -> Pool:
        """Return the workers, not yet started: they start when an epoch begins and all ranks have agreed on it."""

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        if self._gathered is None:
            return iter_reset_fn
        if self._pool is not None:
            if self._pool.count != self.num_workers:
                self._resized(self._gathered)
            with CtrlCWaits():
                self._pool.start()
        before = self._gathered.start
        number = 1 if before is None else before.number + 1
        seeds = None if self.worker_reset_fn is None else deepcopy(seed_generator)  # the original may be drawn from
        reset = None if iter_reset_fn is None else self._to_send(iter_reset_fn)
        self._gathered.start = EpochStart(number, seeds, reset)
        return None

    def _to_send(self, reset: ResetFn) -> Any:
        """Return a function of the services before this one in the form in which the workers get it."""
        return reset

    def finalize(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
