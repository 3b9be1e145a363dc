"""The interface of a reading service, which a plugin implements to run a graph elsewhere, and the info on a worker.

``initialize`` gets the graph once and returns the graph that the loader iterates. A service may add stages to it, or
replace a part of it by a stage that fetches the elements of that part. Positions need no method of a service: the
stages' cells have them.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from datapipes.description import structure
from datapipes.description.printing import chain as printed
from datapipes.description.printing import stage as call_of
from datapipes.errors import BadArgumentType
from datapipes.iter.placement.lanes import lane_here
from datapipes.messages.warnings import warn
from datapipes.messages.where import where
from datapipes.position.seeds import Run
from datapipes.sharding.group import ranks

ResetFn: TypeAlias = Callable[[Any], Any]
"""Takes the graph at the start of an epoch and returns the one to iterate."""

Level: TypeAlias = Literal["ranks", "workers", "device"]


class ReadingServiceInterface(ABC):
    """Base of the services that run a graph. A subclass has to define ``initialize``.

    A service that changes the number of elements also defines ``planned``, so that ``len(loader)`` is right before the
    first epoch.

    >>> class FirstTen(ReadingServiceInterface):
    ...     def initialize(self, datapipe):
    ...         return datapipe.header(10)
    ...     def planned(self, datapipe):
    ...         return datapipe.header(10)
    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> dl = DataLoader2(IterableWrapper(range(99)), reading_service=FirstTen())
    >>> len(dl), len(list(dl)), len(dl)
    (10, 10, 10)
    """

    level: ClassVar[Level | None] = None
    """The level of this service. A chain has at most one of each: first ranks, then workers, then a device."""

    def sees_to_ranks(self) -> bool:
        """Return whether this service gives each rank its own shard. True unless the service knows that it does not."""
        return True

    def check(self, datapipe: Any) -> None:  # noqa: B027 - optional: most services can run any graph
        """Raise an error for a graph that this service cannot run. Called when the loader is made.

        Args:
            datapipe: The graph, by its last stage. It must not be changed.
        """

    def in_front(self, datapipe: Any, services: Sequence[Any]) -> Any:
        """Return the graph to give to the services before this one in a chain, in place of the loader's graph.

        Called before any of them has begun, and also to compute a length.

        Args:
            datapipe: The graph that those services would get, by its last stage. It must not be changed.
            services: Those services, the first one first.
        """
        return datapipe

    @abstractmethod
    def initialize(self, datapipe: Any) -> Any:
        """Prepare a graph once, before the first epoch, and return the graph to iterate.

        Args:
            datapipe: The graph, by its last stage: the loader's own copy, or the result of the service before this one.
                It may be changed.
        """

    def planned(self, datapipe: Any) -> Any:
        """Return a graph of the same length as the result of ``initialize``, without beginning anything.

        Called for a length before ``initialize``. Afterwards the length comes from the result of ``initialize``.

        Args:
            datapipe: The graph that ``initialize`` would get, by its last stage. It must not be changed.
        """
        return datapipe

    def agree(self, run: Run, resumed: bool) -> Run:
        """Return the seed and number of the epoch that is about to begin, the same in all processes that take part.

        Called after ``initialize`` at the start of each epoch. A service that runs in several processes, each with a
        loader, returns the same run in all of them.

        Args:
            run: The seed and the numbers of the epoch in this loader: ``seed``, ``epoch``, and ``number``, which
                ``dl.seed`` does not reset. Return ``dataclasses.replace(run, ...)``.
            resumed: Whether the epoch goes on from a saved position.
        """
        return run

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        """Prepare an epoch. May return a function that takes the graph and returns the graph to use from then on.

        The loader calls that function, or the next service in a chain does.

        Args:
            seed_generator: A ``loader2.random.SeedGenerator`` for a service's own random numbers. The stages of the
                graph are seeded without it.
            iter_reset_fn: The function that the service before this one returned. This service has to call it with the
                graph, for example in its workers, or return it. ``None``: there is no such function.
        """
        return iter_reset_fn

    def finalize_iteration(self) -> None:  # noqa: B027 - optional: most services have nothing to do here
        """End an epoch. Called when an epoch has ended or its iterator has become invalid, and before ``finalize``."""

    def finalize(self) -> None:  # noqa: B027 - optional: most services have nothing to do here
        """Release everything that ``initialize`` has begun, even if it failed. May be called more than once."""

    def __repr__(self) -> str:
        return call_of(self)


class CheckpointableReadingServiceInterface(ReadingServiceInterface):
    """Base of the services that save a state of their own, besides the positions of the stages."""

    @abstractmethod
    def checkpoint(self) -> bytes:
        """Return the service's state."""

    @abstractmethod
    def restore(self, datapipe: Any, serialized_state: bytes) -> Any:
        """Prepare a graph as ``initialize`` does, from a saved state.

        Args:
            datapipe: The graph that ``initialize`` would get.
            serialized_state: The result of ``checkpoint``.
        """


def warn_without_ranks(datapipe: Any, service: ReadingServiceInterface | None) -> None:
    """Warn that each rank of a process group will load all elements, if neither the service nor the graph shards."""
    here = ranks()
    if here.world == 1 or (service is not None and getattr(service, "sees_to_ranks", lambda: True)()):
        return
    if any(vars(stage).get("groups") for stage in structure.walk(datapipe)):
        return  # the user has sharded the graph
    remedy = (
        "reading_service=DistributedReadingService()"
        if service is None
        else f"SequentialReadingService(DistributedReadingService(), {type(service).__name__}(...))"
    )
    warn(
        f"this is rank {here.rank} of {here.world}, and no reading service of this DataLoader2 is for ranks: each of "
        f"them loads all of {printed(datapipe)}. Pass {remedy}, unless the ranks have data of their own"
    )


def own_copy(service: ReadingServiceInterface | str | None) -> ReadingServiceInterface | None:
    """Return a loader's own copy of a service, so that several loaders can use one object. Look up a name."""
    if isinstance(service, str):
        from reading_services.interface.installed import service_named

        made: ReadingServiceInterface = service_named(service)
        return made
    if isinstance(service, type):
        raise BadArgumentType(f"reading_service={service.__name__} is a class: write {service.__name__}(...)")
    if isinstance(service, int | float):
        raise BadArgumentType(
            f"reading_service={service!r} is a number: write MultiProcessingReadingService({service!r}), or another "
            "service with this number of workers"
        )
    if service is not None and not callable(getattr(service, "initialize", None)):
        raise BadArgumentType(
            f"reading_service={service!r:.80} has no method initialize(): "
            "pass a ReadingServiceInterface, the name of a service, or None"
        )
    try:
        return copy.deepcopy(service)
    except TypeError as error:
        raise BadArgumentType(
            f"the reading service {type(service).__name__} cannot be copied ({error}); "
            "open objects that cannot be copied in initialize()"
        ) from error


def graph_from(fn: Callable[..., Any], returned: Any) -> Any:
    """Return the graph that a user's function returned. Raise BadArgumentType if it is none, naming the function."""
    if not structure.is_pipe(returned):
        raise BadArgumentType(
            f"{where(fn)} returned {type(returned).__name__}: {returned!r:.80}; it must return the graph to use"
        )
    return returned


@dataclass(frozen=True)
class WorkerInfo:
    """The number of workers and a worker's index, as ``worker_init_fn`` and ``worker_reset_fn`` get them.

    Args:
        num_workers: The number of workers of the service; 1 if the graph runs in the main process.
        worker_id: The index of this worker, from 0 on.
    """

    num_workers: int
    worker_id: int


InitFn = Callable[[Any, WorkerInfo], Any]
"""Takes a graph and the info on its worker, once. Returns the graph to use."""
EpochFn = Callable[[Any, WorkerInfo, Any], Any]
"""Takes a graph, the info on its worker and a generator of seeds, at the start of each epoch. Returns a graph."""


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """Return the info on this worker, or None outside of a reading service's workers.

    In a lane (``lanes``), the number of lanes and the lane take the place of the workers, wherever the lane runs.

    >>> get_worker_info() is None
    True
    """
    lane = lane_here()
    return _here.info if lane is None else WorkerInfo(*lane)


def set_worker_info(info: WorkerInfo) -> None:
    """Store the info on the worker that runs in this thread."""
    _here.info = info
