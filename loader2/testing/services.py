"""check_service: the laws, tried on an author's reading service with a few graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from datapipes.errors import BadArgumentType
from datapipes.graph import Pipe
from datapipes.iter import Batcher, IterableWrapper, Mapper, ShardingFilter, ShardingRoundRobinDispatcher, Shuffler
from loader2.testing.ending import child_pids
from loader2.testing.laws import PLACED, check
from loader2.testing.specimen import Specimen, Tap
from reading_services import ReadingServiceInterface


def check_service(
    make: Callable[[], ReadingServiceInterface], *, laws: Iterable[str] = PLACED, regroups: bool = False
) -> None:
    """Raise LawBroken unless a reading service keeps every law, on graphs with shards, shuffles and dispatching.

    The elements are compared with those of the same graphs in this process. A service that starts processes is tried
    at some of the positions, since each try starts them again.

    Args:
        make: Makes the service: its class, or a function.
        laws: The names of the laws to try; all of them by default.
        regroups: Set it if the service gives other elements than the graph on purpose, as one that makes batches.

    >>> from reading_services import InProcessReadingService
    >>> check_service(InProcessReadingService)
    """
    __tracebackhide__ = True
    if not callable(make):
        name = type(make).__name__
        raise BadArgumentType(f"check_service makes the service: check_service({name}), or a function that returns it")
    specimens = [replace(graph, service=make, regroups=regroups, is_as_here=not regroups) for graph in graphs()]
    starts = _starts_processes(specimens[0])
    for law in laws:
        for specimen in specimens:
            check(replace(specimen, starts_processes=starts, thorough=not starts), [law])
        if law in _OF_MANY:
            many = Specimen("a reading service", "many elements", _many, stops=())
            check(replace(many, service=make, regroups=regroups, is_as_here=not regroups), [law])


_OF_MANY = ("same elements", "honest len")
"""Laws that are also tried with many elements, of which a service may lose some."""


def graphs() -> list[Specimen]:
    """Return the graphs that a service is tried on."""
    one = partial(Specimen, "a reading service")
    return [
        one("shards", _sharded),
        # Each worker meets a fault above the sharding, so the elements after it may depend on the worker.
        one("shards of a shuffle", _shuffled, random="by seed", after_fault="otherwise"),
        one("what is dispatched", _dispatched),
    ]


def _sharded(tap: Tap) -> Pipe:
    return Mapper(ShardingFilter(tap(IterableWrapper(range(6)))), tap.function(_plus_ten))


def _shuffled(tap: Tap) -> Pipe:
    return Mapper(ShardingFilter(Shuffler(tap(IterableWrapper(range(5))), buffer_size=3)), _plus_ten)


def _dispatched(tap: Tap) -> Pipe:
    return Mapper(ShardingRoundRobinDispatcher(Batcher(tap(IterableWrapper(range(7))), 2)), sum)


def _many(tap: Tap) -> Pipe:
    return ShardingFilter(tap(IterableWrapper(range(1000))))


def _plus_ten(element: Any) -> Any:
    return element + 10


def _starts_processes(specimen: Specimen) -> bool:
    before = child_pids()
    loader = specimen.loader()
    try:
        next(iter(loader), None)
        return bool(child_pids() - before)
    finally:
        loader.shutdown()
