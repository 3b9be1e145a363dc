"""SequentialReadingService: several services as one. Each gets the graph that the service before it returned.

Ranks come before workers, and both before a device. A rank's shard has to be set before the graph is copied to workers,
and the stage that synchronizes ranks stays in the main process, below the workers. A worker of a rank then has shard
number ``worker + workers * rank`` of all.

If one service fails, those that have begun are ended, the last one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from datapipes import elements
from datapipes.description import structure
from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.position.plain_data import check
from datapipes.position.seeds import Run
from reading_services.interface.installed import service_named
from reading_services.interface.service import CheckpointableReadingServiceInterface, ReadingServiceInterface, ResetFn

_DOES = {
    "ranks": "split the graph among ranks",
    "workers": "split the graph among workers",
    "device": "make the batches of a device",
}
"""The work of services by level, in the order of the levels."""


class SequentialReadingService(CheckpointableReadingServiceInterface):
    """Service that runs a graph in several services. Each gets the graph that the one before it returned.

    The usual chain has ranks, and workers in each of them. Users' services may be at any place. They are called with
    ``seed_generator=`` and ``iter_reset_fn=`` by keyword. A function that a service returns from
    ``initialize_iteration`` is passed to the next service, and runs where the graph is, also in workers.

    Args:
        *reading_services: The services, in the order in which they get the loader's graph: ranks, then workers, then a
            device. Another order is refused, and so are two services for ranks, for workers or for devices. A
            SequentialReadingService among them counts as its services. A text names a service, as for a loader.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> from reading_services import InProcessReadingService, ThreadingReadingService
    >>> service = SequentialReadingService(ThreadingReadingService(2), InProcessReadingService(prefetch_cnt=2))
    >>> with DataLoader2(IterableWrapper(range(6)).sharding_filter().map(str), reading_service=service) as dl:
    ...     list(dl)
    ['0', '1', '2', '3', '4', '5']
    """

    def __init__(self, *reading_services: ReadingServiceInterface | str) -> None:
        self.reading_services = tuple(_flat(reading_services))
        self._begun: list[ReadingServiceInterface] = []
        _check_order(self.reading_services)

    def sees_to_ranks(self) -> bool:
        return any(getattr(service, "sees_to_ranks", lambda: True)() for service in self.reading_services)

    # -- the graph -----------------------------------------------------------------------------------------------------

    def check(self, datapipe: Any) -> None:
        """Check the graph with each service that will get it. Services after one that may change it check it later."""
        for service in self.reading_services:
            if isinstance(service, ReadingServiceInterface):
                service.check(datapipe)
            if _may_rewrite(service):
                return

    def planned(self, datapipe: Any) -> Any:
        return planned_by(self.reading_services, self._first(datapipe))

    def _first(self, datapipe: Any) -> Any:
        """Return the graph for the first service, prepared by the services after it."""
        for i, service in enumerate(self.reading_services):
            if isinstance(service, ReadingServiceInterface):
                datapipe = service.in_front(datapipe, self.reading_services[:i])
        return datapipe

    def initialize(self, datapipe: Any) -> Any:
        return self._chained(datapipe, [None] * len(self.reading_services))

    def restore(self, datapipe: Any, serialized_state: bytes) -> Any:
        """Start the services like ``initialize``. A service with a saved state restores it instead."""
        return self._chained(datapipe, self._states(serialized_state))

    def _chained(self, datapipe: Any, states: list[bytes | None]) -> Any:
        self._tell_ranks()
        datapipe = self._first(datapipe)
        unchecked = False
        for i, (service, state) in enumerate(zip(self.reading_services, states, strict=True)):
            if not structure.is_pipe(datapipe):
                raise BadArgumentType(
                    f"{_name(self.reading_services[i - 1])} returned {type(datapipe).__name__}: {datapipe!r:.80}, and "
                    f"{_name(service)} after it needs a graph; put the service that returns something else last"
                )
            if unchecked and isinstance(service, ReadingServiceInterface):
                service.check(datapipe)
            unchecked = unchecked or _may_rewrite(service)
            self._begun.append(service)
            if state is None:
                datapipe = service.initialize(datapipe)
            elif isinstance(service, CheckpointableReadingServiceInterface):
                datapipe = service.restore(datapipe, state)
        return datapipe

    def _tell_ranks(self) -> None:
        """Let ranks compare their services: an element is given once only if all ranks have as many workers."""
        for service in self.reading_services:
            if isinstance(facts := getattr(service, "facts", None), dict):
                facts["all services"] = ", ".join(map(_counted, self.reading_services))

    # -- epochs --------------------------------------------------------------------------------------------------------

    def agree(self, run: Run, resumed: bool) -> Run:
        self._tell_ranks()  # resize() may have changed the number of workers
        for service in self.reading_services:
            if isinstance(service, ReadingServiceInterface):
                run = service.agree(run, resumed)
        return run

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: ResetFn | None = None) -> ResetFn | None:
        for service in self.reading_services:
            iter_reset_fn = service.initialize_iteration(seed_generator=seed_generator, iter_reset_fn=iter_reset_fn)
        return iter_reset_fn

    def finalize_iteration(self) -> None:
        _all_of(service.finalize_iteration for service in reversed(self._begun))

    def finalize(self) -> None:
        _all_of(service.finalize for service in reversed(self._begun))

    def resize(self, num_workers: int) -> None:
        """Change the number of workers from the next epoch on, in the service that has workers.

        Args:
            num_workers: The number of workers, at least 1; it must be the same on all ranks.
        """
        for service in self.reading_services:
            if callable(resize := getattr(service, "resize", None)):
                resize(num_workers)
                return
        raise BadArgument(
            f"resize({num_workers}): {_call(self.reading_services)} has no service whose number of workers can change; "
            "add one with workers, such as MultiProcessingReadingService"
        )

    # -- saving --------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> bytes:
        """Return the services' states as plain data. Return no bytes if none has one: positions are in the graph."""
        services = self.reading_services
        saved = [s.checkpoint() if isinstance(s, CheckpointableReadingServiceInterface) else None for s in services]
        return elements.encode(saved, what="service") if any(saved) else b""

    def _states(self, serialized: bytes) -> list[bytes | None]:
        check(type(serialized) is bytes, "service", "bytes, as checkpoint() returned them", serialized)
        services = self.reading_services
        states = elements.decode(serialized, what="service") if serialized else [None] * len(services)
        if type(states) is not list or not all(state is None or type(state) is bytes for state in states):
            raise StateError("service: the state was not saved by a SequentialReadingService; use the service that did")
        if len(states) != len(services):
            raise _WrongNumber(f"service: saved by {len(states)} services, and there are {len(services)}; use as many")
        for service, state in zip(services, states, strict=True):
            if state is not None and not isinstance(service, CheckpointableReadingServiceInterface):
                raise StateError(
                    f"service: {_name(service)} replaces the service that saved {len(state)} bytes here, and has no "
                    "restore() to take them; use the services that the state was saved with, in their order"
                )
        return states

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.reading_services))})"


class _WrongNumber(StateError, AssertionError):
    """Error for a number of states other than that of services; for old programs also an AssertionError."""


def _flat(services: Iterable[Any]) -> Iterator[Any]:
    """Yield the services of a chain, with a chain in it replaced by its services."""
    for given in services:
        service = service_named(given) if isinstance(given, str) else given
        if type(service) is SequentialReadingService:
            yield from service.reading_services
        elif callable(getattr(service, "initialize", None)) and not isinstance(service, type):
            yield service
        else:
            raise BadArgumentType(
                f"SequentialReadingService({service!r:.80}): expected reading services as separate arguments"
            )


def planned_by(services: Iterable[Any], datapipe: Any) -> Any:
    """Return a graph as long as the one that these services would return."""
    for service in services:
        if isinstance(service, ReadingServiceInterface):
            datapipe = service.planned(datapipe)
    return datapipe


def _check_order(services: tuple[Any, ...]) -> None:
    """Raise BadArgument for two services of one level, and for levels in another order."""
    by_level: dict[str, Any] = {}
    for service in services:
        level = getattr(type(service), "level", None)
        if level in by_level:
            raise BadArgument(
                f"{_call(services)}: {_name(by_level[level])} and {_name(service)} both {_DOES[level]}, "
                "which is done once; keep one of them"
            )
        behind = next((each for each in by_level.values() if level and _is_before(level, each)), None)
        if behind is not None:
            right = [each for each in services if each is not service]
            right.insert(right.index(behind), service)
            raise BadArgument(
                f"{_call(services)}: ranks come before workers, because the rank's shard is set before the graph is "
                "copied to the workers; a device comes last, because the main process feeds it. "
                f"Make it {_call(right)}"
            )
        if level is not None:
            by_level[level] = service


def _is_before(level: str, service: Any) -> bool:
    order = list(_DOES)
    return order.index(level) < order.index(type(service).level)


def _may_rewrite(service: Any) -> bool:
    """Return whether a service may return a graph other than the one it gets. Services with a level only split it."""
    return getattr(type(service), "level", None) is None


def _all_of(calls: Iterable[Callable[[], None]]) -> None:
    """Call all functions, even if some raise. Raise the first error at the end, with notes about further ones."""
    first: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:
            if first is None:
                first = error
            else:
                first.add_note(f"  and {getattr(call, '__qualname__', call)} raised {error!r}")
    try:
        if first is not None:
            raise first
    finally:
        del first  # its traceback holds this frame


def _name(service: Any) -> str:
    return type(service).__name__


def _counted(service: Any) -> str:
    """Return the name of a service, with its number of workers."""
    workers = getattr(service, "num_workers", None)
    return _name(service) if workers is None else f"{_name(service)} with {workers} workers"


def _call(services: Iterable[Any]) -> str:
    return f"SequentialReadingService({', '.join(map(_name, services))})"
