"""The graphs in torchdata 0.9, through its DataLoader2. Read only by the interpreter of its own environment.

The modules are imported by name because this checkout's own environment has a torchdata without them.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from benchmarks.workload import (
    BATCH_SIZE,
    BATCHED,
    BUFFER_SIZE,
    CSV,
    CSV_BATCH_SIZE,
    ELEMENTS,
    MAPPED,
    MAPS,
    SHUFFLED,
    add_one,
    features,
    is_even,
)

_iter = import_module("torchdata.datapipes.iter")
_dataloader2 = import_module("torchdata.dataloader2")


def shuffled() -> Iterable[object]:
    pipe = _iter.IterableWrapper(range(ELEMENTS)).shuffle(buffer_size=BUFFER_SIZE).sharding_filter()
    return _loaded(pipe.map(add_one).filter(is_even).batch(BATCH_SIZE))


def batched() -> Iterable[object]:
    return _loaded(_iter.IterableWrapper(range(ELEMENTS)).map(add_one).filter(is_even).batch(BATCH_SIZE))


def mapped() -> Iterable[object]:
    pipe = _iter.IterableWrapper(range(ELEMENTS))
    for _ in range(MAPS):
        pipe = pipe.map(add_one)
    return _loaded(pipe)


def csv(*paths: str) -> Iterable[object]:
    pipe = _iter.IterableWrapper(list(paths)).open_files().parse_csv().sharding_filter()
    return _loaded(pipe.map(features).batch(CSV_BATCH_SIZE))


def _loaded(pipe: Any) -> Iterable[object]:
    loader = _dataloader2.DataLoader2(pipe, reading_service=_dataloader2.InProcessReadingService())
    loader.seed(0)
    stream: Iterable[object] = loader
    return stream


CASES: dict[str, Callable[..., Iterable[object]]] = {SHUFFLED: shuffled, BATCHED: batched, MAPPED: mapped, CSV: csv}
