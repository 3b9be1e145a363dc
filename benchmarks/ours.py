"""The graphs in this library, as its users write them, and the loops in which they are consumed.

The library is imported when a stream is built: if it cannot be, its contenders say so in their rows and the others
still run.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

from benchmarks.workload import (
    BATCH_SIZE,
    BATCHED,
    BUFFER_SIZE,
    CSV_BATCH_SIZE,
    ELEMENTS,
    MAPPED,
    MAPS,
    SHUFFLED,
    add_one,
    features,
    is_even,
)


class Loader(Protocol):
    """The part of a DataLoader2 that the consumers need."""

    def __iter__(self) -> Iterator[Any]: ...

    def seed(self, seed: int, /) -> object: ...

    def state_dict(self) -> object: ...


def loaded(pipe: Any) -> Loader:
    from loader2 import DataLoader2
    from reading_services import InProcessReadingService

    loader: Loader = DataLoader2(pipe, reading_service=InProcessReadingService())
    loader.seed(0)
    return loader


def numbers(count: int = ELEMENTS) -> Any:
    from datapipes.iter import IterableWrapper

    return IterableWrapper(range(count))


def shuffled() -> Loader:
    pipe = numbers().shuffle(buffer_size=BUFFER_SIZE).sharding_filter().map(add_one).filter(is_even)
    return loaded(pipe.batch(BATCH_SIZE))


def batched() -> Loader:
    return loaded(numbers().map(add_one).filter(is_even).batch(BATCH_SIZE))


def mapped(maps: int = MAPS, count: int = ELEMENTS) -> Loader:
    return loaded(chain_of_maps(maps, count))


def chain_of_maps(maps: int, count: int) -> Any:
    pipe = numbers(count)
    for _ in range(maps):
        pipe = pipe.map(add_one)
    return pipe


def dealt(children: int, count: int) -> list[Any]:
    """The children of a demux that deals numbers out in turn."""
    return list(numbers(count).demux(children, lambda number: number % children))


def csv(paths: list[str]) -> Loader:
    from datapipes.iter import IterableWrapper

    pipe = IterableWrapper(paths).open_files().parse_csv().sharding_filter().map(features)
    return loaded(pipe.batch(CSV_BATCH_SIZE))


def in_parts(size: int, parts: int, between: Callable[[Loader], object]) -> Callable[[Loader], None]:
    """A consumer that takes `parts` parts of `size` outputs, calls `between` after each, and then takes the rest.

    Cutting a loop into parts has a small price of its own, so what saving costs is the difference to the same loop
    without it.
    """

    def consume(loader: Loader) -> None:
        outputs = iter(loader)
        for _ in range(parts):
            for _ in islice(outputs, size):
                pass
            between(loader)
        for _ in outputs:
            pass

    return consume


def save(loader: Loader) -> None:
    loader.state_dict()


def go_on(loader: Loader) -> None:
    """Do nothing between the parts, in the loop that does not save."""


CASES: dict[str, Callable[[], Loader]] = {SHUFFLED: shuffled, BATCHED: batched, MAPPED: mapped}
