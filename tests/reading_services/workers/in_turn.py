"""Expected output of workers, made without any: the shards of a graph, each read by itself, and one of each in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from datapipes.graph import SHARDING_PRIORITIES, Pipe, apply_sharding
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, ReadingServiceInterface, ThreadingReadingService
from tests.specimens.specimen import shown

SEED = 5
HANGS = 300.0  # seconds after which a worker that sends nothing is an error

T = TypeVar("T")

Build: TypeAlias = Callable[[], Pipe]
Service: TypeAlias = Callable[..., ReadingServiceInterface]


def numbers(length: int) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def processes(workers: int, **options: Any) -> MultiProcessingReadingService:
    """Worker processes that are forks, and are an error when they hang."""
    return MultiProcessingReadingService(workers, **{"multiprocessing_context": "fork", "timeout": HANGS, **options})


def threads(workers: int, **options: Any) -> ThreadingReadingService:
    """Worker threads that are an error when they hang."""
    return ThreadingReadingService(workers, **{"timeout": HANGS, **options})


def texts(elements: Iterable[Any]) -> list[str]:
    return [shown(element) for element in elements]


def epochs_of(build: Build, service: ReadingServiceInterface, epochs: int = 1, seed: int = SEED) -> list[list[str]]:
    """The first epochs of a graph with a service."""
    with DataLoader2(build(), reading_service=service) as loader:
        loader.seed(seed)
        return [texts(iter(loader)) for _ in range(epochs)]


def in_turn(build: Build, workers: int, epochs: int = 1, seed: int = SEED) -> list[list[str]]:
    """The same, as it is defined."""
    by_worker = []
    for number in range(workers):
        shard = apply_sharding(build(), workers, number, SHARDING_PRIORITIES.MULTIPROCESSING)
        loader: DataLoader2[Any] = DataLoader2(shard)
        loader.seed(seed)
        by_worker.append([texts(iter(loader)) for _ in range(epochs)])
    return [taken_in_turn(shards) for shards in zip(*by_worker, strict=True)]


def taken_in_turn(streams: Iterable[list[T]]) -> list[T]:
    """One element of each stream after the other; a stream that has ended is passed over."""
    longest = sorted(streams, key=len)[-1:] or [[]]
    return [stream[i] for i in range(len(longest[0])) for stream in streams if i < len(stream)]
