"""Base of the services with workers: a part of the graph is made elsewhere, in processes or in threads.

The pool of workers is ended with the service, whichever way that goes. The stage at home refers to the pool and never
to the service, which would otherwise not be let go of as long as its stage is there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol

from datapipes.description.structure import Pipe
from reading_services.interface.service import Level, ReadingServiceInterface
from reading_services.interface.worker_info import EpochFn, InitFn
from reading_services.workers.cut import replicable_end, with_end_replaced
from reading_services.workers.dispatched import length_of_parts
from reading_services.workers.gather import Gathered, Producers


class Workers(Producers, Protocol):
    """The workers that make the elements, and can be ended."""

    def close(self) -> None:
        """End all of them; calling it again does nothing."""


class OnWorkers(ReadingServiceInterface):
    """A service that has copies of a part of the graph made by workers."""

    level: ClassVar[Level | None] = "workers"

    num_workers: int
    worker_init_fn: InitFn | None
    worker_reset_fn: EpochFn | None
    in_order: bool
    _pool: Workers | None = None
    _gathered: Gathered[Any] | None = None

    def sees_to_ranks(self) -> bool:
        return False

    def _employ(self, pool: Workers, end: Pipe) -> Gathered[Any]:
        """Own a pool from now on; the stage for what it makes in place of ``end``."""
        self._pool = pool
        weakref.finalize(self, pool.close)
        self._gathered = Gathered(end, pool, self.in_order, self._length_of)
        return self._gathered

    def planned(self, datapipe: Pipe) -> Pipe:
        end = replicable_end(datapipe)
        if end is None or self.num_workers == 0:
            return datapipe
        makers: Any = None
        return with_end_replaced(datapipe, end, lambda end: Gathered(end, makers, length=self._length_of))

    @property
    def _length_of(self) -> Callable[[Pipe], int]:
        changes = (self.worker_init_fn, self.worker_reset_fn)
        return partial(length_of_parts, workers=self.num_workers, changes=changes)

    def finalize(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
