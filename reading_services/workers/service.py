"""Base of the services with workers: a part of the graph is made elsewhere, in processes or in threads.

The pool of workers is ended with the service, whichever way that goes. The stage at home refers to the pool and never
to the service, which would otherwise not be let go of as long as its stage is there.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from datapipes.description.structure import Pipe
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.operators.checks import misspelt, whole_number
from reading_services.interface.service import EpochFn, InitFn, Level, ReadingServiceInterface, ResetFn
from reading_services.workers.cut import replicable_end, with_end_replaced
from reading_services.workers.dispatched import length_of_parts, without_dispatched
from reading_services.workers.gather import Gathered
from reading_services.workers.pool import Pool
from reading_services.workers.portable import needs_many_readers
from reading_services.workers.restarts import Allowed, OnDeath
from reading_services.workers.transport.protocol import Window
from reading_services.workers.worker import EpochStart, PoolPlan


class OnWorkers(ReadingServiceInterface):
    """A service that has copies of a part of the graph made by workers."""

    level: ClassVar[Level | None] = "workers"

    num_workers: int
    worker_init_fn: InitFn | None
    worker_reset_fn: EpochFn | None
    in_order: bool
    timeout: float | None
    restart: int
    on_death: OnDeath
    _plan: PoolPlan
    _pool: Pool | None = None
    _gathered: Gathered[Any] | None = None

    if not TYPE_CHECKING:  # a type checker reads the signature of the constructor

        def __new__(cls, *args: Any, **given: Any) -> Self:
            if (wrong := misspelt(cls.__init__, given)) is not None:
                raise wrong
            return super().__new__(cls)

    def sees_to_ranks(self) -> bool:
        return False

    def _check_arguments(self, **least: int) -> None:
        """Refuse what no worker could do anything with; ``least`` has the smallest value of each number."""
        call = type(self).__name__
        for name, number in least.items():
            setattr(self, name, whole_number(name, getattr(self, name), f"{call}()"))
            if getattr(self, name) < number:
                raise BadArgument(f"{call}({name}={getattr(self, name)}): it must be at least {number}")
        if self.timeout is not None and not self.timeout > 0:
            raise BadArgument(f"{call}(timeout={self.timeout}): seconds, more than 0, or None")
        if self.on_death not in ("raise", "skip"):
            raise BadArgument(f'{call}(on_death={self.on_death!r}): expected "raise" or "skip"')
        if self.on_death == "skip" and not self.restart:
            raise BadArgument(f'{call}(on_death="skip") is for workers that are replaced: say how often, with restart=')
        for name in ("worker_init_fn", "worker_reset_fn"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise BadArgumentType(f"{call}({name}={function!r:.80}): a function, or None")

    def check(self, datapipe: Pipe) -> None:
        end = replicable_end(datapipe)
        if end is not None:
            needs_many_readers(end, self.num_workers)

    def planned(self, datapipe: Pipe) -> Pipe:
        end = replicable_end(datapipe) if self.num_workers else None
        return datapipe if end is None else with_end_replaced(datapipe, end, self._gathering)

    def initialize(self, datapipe: Pipe) -> Pipe:
        end = replicable_end(datapipe)
        if end is None:
            return datapipe
        worker_end, dispatched = without_dispatched(end)
        functions = self.worker_init_fn, self.worker_reset_fn
        self._plan = PoolPlan(worker_end, self.num_workers, self._window(), *functions, self.timeout, dispatched)
        gathered = self._gathered = self._gathering(end, self._new_pool())
        return with_end_replaced(datapipe, end, lambda _: gathered)

    def _new_pool(self) -> Pool:
        if self._pool is not None:
            self._pool.close()
        pool = self._pool = self._pool_of(self._plan)
        weakref.finalize(self, pool.close)
        return pool

    def resize(self, num_workers: int) -> None:
        """Have another number of workers from the next epoch on: ``dl.reading_service.resize(4)``.

        The order of the elements depends on how many there are, so a state in the middle of an epoch is for as many as
        it was saved with. Where classes of a graph keep something between two epochs, each worker has its own, and
        their number stays.

        Args:
            num_workers: The number of workers, one at least; all ranks have as many.
        """
        before, self.num_workers = self.num_workers, num_workers
        try:
            self._check_arguments(num_workers=1)
            if before == 0:
                raise BadArgument(f"resize({num_workers}): this service runs the graph in this process, with no worker")
            if self._gathered is not None:
                needs_many_readers(self._gathered.graph, num_workers)
                if self._gathered.kept.is_known():
                    raise BadArgument(f"resize({num_workers}): classes of this graph keep something in each worker")
        except BaseException:
            self.num_workers = before
            raise

    def _resized(self, gathered: Gathered[Any]) -> None:
        self._plan = replace(self._plan, workers=self.num_workers, window=self._window())
        gathered.become(self._gathering(gathered.graph, self._new_pool()))

    def _gathering(self, end: Pipe, makers: Any = None) -> Gathered[Any]:
        """The stage that gathers the elements of a part of the graph, at home."""
        changes = self.worker_init_fn, self.worker_reset_fn
        length = partial(length_of_parts, workers=self.num_workers, changes=changes)
        return Gathered(end, makers, self.in_order, length, Allowed(self.restart, self.on_death))

    @abstractmethod
    def _window(self) -> Window:
        """How far each worker may run ahead."""

    @abstractmethod
    def _pool_of(self, plan: PoolPlan) -> Pool:
        """The workers, not started yet: they are when an epoch begins, which ranks have agreed upon by then."""

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
        seeds = None if self.worker_reset_fn is None else deepcopy(seed_generator)  # others may go on drawing
        reset = None if iter_reset_fn is None else self._to_send(iter_reset_fn)
        self._gathered.start = EpochStart(number, seeds, reset)
        return None

    def _to_send(self, reset: ResetFn) -> Any:
        """A function of the services in front, as the workers are given it."""
        return reset

    def finalize(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
