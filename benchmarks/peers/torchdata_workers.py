"""The graphs of `benchmarks.workers` in torchdata 0.9, in two workers. Read only by the interpreter of its environment.

A loader keeps its workers from round to round, as the others do.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module
from typing import Any

from benchmarks.workers import ALONE, DICTS, ROWS, SLOW, WORKERS, burns, row, three
from benchmarks.workload import features

_iter = import_module("torchdata.datapipes.iter")
_collate = import_module("torch.utils.data").default_collate
_dataloader2 = import_module("torchdata.dataloader2")


def dicts(batch: int) -> Any:
    pipe = _iter.IterableWrapper(range(DICTS if batch else ALONE)).sharding_filter().map(three)
    return pipe.batch(batch, wrapper_class=list) if batch else pipe


def tensors() -> Any:
    return _iter.IterableWrapper(range(ROWS)).sharding_filter().map(row).batch(16).collate(_collate)


def lines(path: str, seconds: str) -> Any:
    pipe = _iter.IterableWrapper([path]).open_files().parse_csv().sharding_filter().map(features)
    return (pipe.map(partial(burns, float(seconds))) if float(seconds) else pipe).batch(32, wrapper_class=list)


def slow() -> Any:
    return _iter.IterableWrapper(range(SLOW)).sharding_filter().map(partial(burns, 1e-3)).batch(8, wrapper_class=list)


GRAPHS: dict[str, Callable[..., Any]] = {
    "dicts": partial(dicts, 32),
    "dicts alone": partial(dicts, 0),
    "tensors": tensors,
    "lines": lines,
    "slow": slow,
}


@cache
def _loaded(case: str, *arguments: str) -> Iterable[object]:
    service = _dataloader2.MultiProcessingReadingService(num_workers=WORKERS)
    stream: Iterable[object] = _dataloader2.DataLoader2(GRAPHS[case](*arguments), reading_service=service)
    return stream


CASES: dict[str, Callable[..., Iterable[object]]] = {case: partial(_loaded, case) for case in GRAPHS}
