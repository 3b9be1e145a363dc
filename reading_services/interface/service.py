"""The interface of a reading service: what a plugin implements to run a graph somewhere; and worker info.

A service is given the graph once, by ``initialize``, and returns the graph that the loader iterates at home: it may add
stages, or replace a part of the graph by a stage that fetches what runs elsewhere. Positions need no method of their
own: they are in the stages' cells, wherever a stage runs. torchdata's plugins work unchanged.
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
from datapipes.messages.warnings import warn
from datapipes.messages.where import where
from datapipes.parts.group import ranks
from datapipes.position.seeds import Run

ResetFn: TypeAlias = Callable[[Any], Any]
"""Takes the graph at the start of an epoch and returns the one to iterate."""

Level: TypeAlias = Literal["ranks", "workers", "device"]


class ReadingServiceInterface(ABC):
    """Runs a graph. Only ``initialize`` must be written.

    One that changes how many elements there are writes ``planned`` as well, so that ``len`` of the loader is right
    before the first epoch.

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
    """The level of this service; a chain has one of each at most: ranks, then workers, then the device they feed."""

    def sees_to_ranks(self) -> bool:
        """Whether each rank of a process group gets its own part here; what a class of a user's does is not known."""
        return True

    def check(self, datapipe: Any) -> None:  # noqa: B027 - optional: most services can run any graph
        """Refuse a graph that this service cannot run, when the loader is made.

        Args:
            datapipe: The graph, by its last stage; it is not to be changed.
        """

    def in_front(self, datapipe: Any, services: Sequence[Any]) -> Any:
        """The graph to give to the services in front of this one in a chain, in place of the loader's.

        Called before any of them has begun, for a length as well.

        Args:
            datapipe: The graph that they would be given, by its last stage; it is not to be changed.
            services: Those services, the first one first.
        """
        return datapipe

    @abstractmethod
    def initialize(self, datapipe: Any) -> Any:
        """Prepare a graph, once, before the first epoch; returns the one to iterate.

        Args:
            datapipe: The graph, by its last stage: the loader's own copy, or what the service in front has returned. It
                may be changed.
        """

    def planned(self, datapipe: Any) -> Any:
        """A graph as long as the one that ``initialize`` would return, made without beginning anything.

        Asked for a length before ``initialize``; afterwards the graph that it returned is asked.

        Args:
            datapipe: The graph that ``initialize`` would be given, by its last stage; it is not to be changed.
        """
        return datapipe

    def agree(self, run: Run, resumed: bool) -> Run:
        """Agree on the seed and number of the epoch that is about to begin, among all who take part in it.

        Called after ``initialize`` at the start of each epoch. A service that runs in several processes, each with a
        loader, returns the same one in all of them.

        Args:
            run: The seed and the numbers of the epoch as this loader has them: in its ``seed`` and ``epoch``, and in
                its ``number``, which ``dl.seed`` does not reset. Return ``dataclasses.replace(run, ...)``.
            resumed: Whether the epoch goes on from a saved position.
        """
        return run

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        """Prepare an epoch; may return a function that takes the graph and returns the one to use from then on.

        That is applied by the loader, or by the service behind this one in a chain.

        Args:
            seed_generator: A ``loader2.random.SeedGenerator`` for services that seed something of their own; the stages
                of the graph are seeded without it.
            iter_reset_fn: What the service in front has returned. It is for this one to run where the graph is: in its
                workers, or at home by returning it in turn. ``None``: there is nothing to run.
        """
        return iter_reset_fn

    def finalize_iteration(self) -> None:  # noqa: B027 - optional: most services have nothing to do here
        """Called when an epoch has ended, or its iterator is found to be out of date, and before ``finalize``."""

    def finalize(self) -> None:  # noqa: B027 - optional: most services have nothing to do here
        """Release everything that ``initialize`` has begun, also if it failed. May be called more than once."""

    def __repr__(self) -> str:
        return call_of(self)


class CheckpointableReadingServiceInterface(ReadingServiceInterface):
    """A service with state of its own to save, besides the positions of the stages."""

    @abstractmethod
    def checkpoint(self) -> bytes:
        """Save the service's state."""

    @abstractmethod
    def restore(self, datapipe: Any, serialized_state: bytes) -> Any:
        """Like ``initialize``, from a saved state.

        Args:
            datapipe: The graph, as ``initialize`` is given it.
            serialized_state: What ``checkpoint`` returned.
        """


def warn_without_ranks(datapipe: Any, service: ReadingServiceInterface | None) -> None:
    """Warn that each rank of a process group is about to load everything, if nobody sees to its part."""
    here = ranks()
    if here.world == 1 or (service is not None and getattr(service, "sees_to_ranks", lambda: True)()):
        return
    if any(vars(stage).get("groups") for stage in structure.walk(datapipe)):
        return  # somebody has sharded the graph
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
    """A loader's own copy of a service, so that one object can serve several loaders; the one of a name."""
    if isinstance(service, str):
        from reading_services.interface.installed import service_named

        made: ReadingServiceInterface = service_named(service)
        return made
    if isinstance(service, type):
        raise BadArgumentType(f"reading_service={service.__name__} is a class: write {service.__name__}(...)")
    if isinstance(service, int | float):
        raise BadArgumentType(
            f"reading_service={service!r} is a number: write MultiProcessingReadingService({service!r}), or another "
            "service with so many workers"
        )
    if service is not None and not callable(getattr(service, "initialize", None)):
        raise BadArgumentType(
            f"reading_service={service!r:.80} has no method initialize(): "
            "a ReadingServiceInterface, the name of one, or None is expected"
        )
    try:
        return copy.deepcopy(service)
    except TypeError as error:
        raise BadArgumentType(
            f"the reading service {type(service).__name__} cannot be copied ({error}); "
            "open what cannot be copied in initialize()"
        ) from error


def graph_from(fn: Callable[..., Any], returned: Any) -> Any:
    """The graph that a user's function returned, checked; an error names the function."""
    if not structure.is_pipe(returned):
        raise BadArgumentType(
            f"{where(fn)} returned {type(returned).__name__}: {returned!r:.80}; it must return the graph to use"
        )
    return returned


@dataclass(frozen=True)
class WorkerInfo:
    """The number of workers and this one's index, as ``init_fn`` and ``reset_fn`` are given them.

    Args:
        num_workers: The number of workers of the service; 1 where the graph runs in the loader's process.
        worker_id: The index of this worker among them, from 0 on.
    """

    num_workers: int
    worker_id: int


InitFn = Callable[[Any, WorkerInfo], Any]
"""Takes a graph and who runs it, once; returns the graph to use."""
EpochFn = Callable[[Any, WorkerInfo, Any], Any]
"""Takes a generator of seeds as well, at the start of each epoch."""


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """This worker's info, inside a worker of a reading service; None anywhere else.

    >>> get_worker_info() is None
    True
    """
    return _here.info


def set_worker_info(info: WorkerInfo) -> None:
    """Mark this thread as a worker's."""
    _here.info = info
