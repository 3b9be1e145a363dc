"""Tools of the cases of ``tests.faults.cases``: a loader with workers, and what is seen of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Any

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

SECOND = 1.0
method = "fork"
"""How workers are started."""


def service(workers: int = 2, **options: Any) -> MultiProcessingReadingService:
    return MultiProcessingReadingService(workers, method, **options)


def loader(fn: Callable[[Any], Any], length: int = 1000, **options: Any) -> DataLoader2[Any]:
    return DataLoader2(IterableWrapper(range(length)).sharding_filter().map(fn), reading_service=service(**options))


def same(x: Any) -> Any:
    return x


def pids(dl: DataLoader2[Any]) -> list[int]:
    pool = vars(dl.reading_service)["_pool"]
    return [member.process.pid for member in pool._host.processes if member.named != "the dispatcher"]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def within(seconds: float, started: float) -> None:
    took = monotonic() - started
    assert took < seconds, f"it took {took:.2f} s, and may take {seconds} s"


def raised_by(dl: Iterable[Any]) -> tuple[list[Any], BaseException]:
    """Elements of a loader, and the error that ends it."""
    given: list[Any] = []
    try:
        given.extend(dl)
    except BaseException as error:
        return given, error
    raise AssertionError(f"no error, after {len(given)} elements")
