"""Throughput of a loader on this computer, by the clock, and the size of its steps.

Starting workers is not counted: neither is the first step. What a loader has made beforehand comes faster than it is
made, so counting begins only when a quarter of the time has gone by and all that was ready is used up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from datapipes.description.pipe import IterDataPipe
from datapipes.description.structure import walk
from datapipes.errors import BadArgument, BadArgumentType
from reading_services.ipu.host.accessor import AsynchronousDataAccessor
from reading_services.ipu.names.custom_types import tensors_of
from reading_services.ipu.options import Options
from reading_services.ipu.simulator.rows import wire_bytes

WARMING_UP = 0.25


@dataclass(frozen=True)
class Shape:
    """Size of one step of a loader: its rows, and its bytes as a device is sent them."""

    rows: int
    wire_bytes: int

    @classmethod
    def of(cls, step: Any) -> Shape:
        """The shape of a step; a step without tensors has as many rows as its length says, and no bytes."""
        tensors = list(tensors_of(step))
        rows = next((len(each) for each in tensors if each.dim()), None)
        if rows is None:
            rows = len(step) if isinstance(step, list) else 1
        return cls(rows, wire_bytes(tensors))


@dataclass(frozen=True)
class Rate:
    """Measured rate: how many steps and items a loader gave in how many seconds, and the longest that one step took."""

    steps: int
    items: int
    seconds: float
    longest: float

    @property
    def load(self) -> float:
        """Seconds for a step."""
        return self.seconds / self.steps

    @property
    def items_per_second(self) -> float:
        return self.items / self.seconds


def measured(loader: Iterable[Any], seconds: float = 2.0) -> Rate:
    """Iterate a loader for so many seconds, over and over again if it ends before, and tell its rate."""
    if not seconds > 0:
        raise BadArgument(f"seconds={seconds}: a loader is measured for more than 0 seconds")
    steps = items = 0
    started = before = warm = longest = 0.0
    for step in _again_and_again(loader):
        now = perf_counter()
        warm = warm or now + WARMING_UP * seconds
        if steps or (started and now >= warm):
            steps, items = steps + 1, items + Shape.of(step).rows
            longest = max(longest, now - before)
        else:
            started = now
        before = now
        if steps and now - started >= seconds:
            break
    if not steps:  # all it had came while it warmed up, and it cannot be iterated again
        raise BadArgument(
            f"{type(loader).__name__} ends within {WARMING_UP * seconds:.2f} s and cannot be iterated again: "
            "measure it for a shorter time, or give it more data"
        )
    return Rate(steps, items, before - started, longest)


def runs_ahead(loader: Any) -> bool:
    """Whether the loader works while the device does: in workers, in a thread, or in a process of its own."""
    if isinstance(loader, AsynchronousDataAccessor) or getattr(loader, "_accessor", None) is not None:
        return True  # the second is a DataLoader that is not in Sync mode
    if any(
        getattr(each, name, 0) for each in _services_of(loader) for name in ("num_workers", "prefetch_cnt", "ahead")
    ):
        return True
    graph = graph_of(loader)
    return graph is not None and any(getattr(type(stage), "_runs_ahead", False) for stage in walk(graph))


def workers_of(loader: Any) -> int:
    """Number of workers of a loader; 0 where it has none or does not tell."""
    return max(int(getattr(each, "num_workers", 0) or 0) for each in _services_of(loader))


def _services_of(loader: Any) -> list[Any]:
    """A loader and its services, those of a chain one by one."""
    service = getattr(loader, "reading_service", None)
    return [loader, service, *getattr(service, "reading_services", ())]


def options_of(loader: Any) -> Options | None:
    """The options that a loader was made with; None if it tells of none."""
    found = (getattr(each, "options", None) for each in _services_of(loader))
    return next((each for each in found if isinstance(each, Options)), None)


def graph_of(loader: Any) -> IterDataPipe[Any] | None:
    """The graph of a DataLoader2, or the loader itself if it is one; None for other loaders."""
    graph = getattr(loader, "datapipe", loader)
    return graph if isinstance(graph, IterDataPipe) else None


def first_step(loader: Iterable[Any]) -> Any:
    """The first step of a loader."""
    if not isinstance(loader, Iterable):
        raise BadArgumentType(f"{loader!r:.200} is no loader: it cannot be iterated")
    for step in loader:
        return step
    raise BadArgument(f"{type(loader).__name__} gives no step: has it as many rows as one step needs?")


def _again_and_again(loader: Iterable[Any]) -> Iterator[Any]:
    more = True
    while more:
        more = False
        for step in loader:
            more = True
            yield step
