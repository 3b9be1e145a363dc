"""One rank of two that load batches, in step or each for itself; read by a process of its own for each rank.

The loaders are kept from round to round. What torchdata 0.9 does is read only by the interpreter of its environment.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module
from typing import Any

import torch.distributed as dist

from benchmarks.workload import BATCH_SIZE, add_one

RANKS = 2
SYNCED, ALONE, OLD = "synced", "alone", "old"


def is_any(x: object) -> bool:
    return True


def join(rank: int, meeting: str) -> None:
    if not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
        atexit.register(dist.destroy_process_group)


def graph(wrapper: Any, batches: int, length_is_known: bool) -> Any:
    pipe = wrapper(range(RANKS * BATCH_SIZE * batches)).sharding_filter().map(add_one)
    return (pipe if length_is_known else pipe.filter(is_any)).batch(BATCH_SIZE).collate()


@cache
def ours(case: str, rank: int, meeting: str, batches: int, length_is_known: bool) -> Iterable[object]:
    from datapipes.graph import SHARDING_PRIORITIES, apply_sharding
    from datapipes.iter import IterableWrapper
    from loader2 import DataLoader2
    from reading_services import DistributedReadingService

    pipe = graph(IterableWrapper, batches, length_is_known)
    if case == ALONE:
        return DataLoader2(apply_sharding(pipe, RANKS, rank, SHARDING_PRIORITIES.DISTRIBUTED))
    join(rank, meeting)
    return DataLoader2(pipe, reading_service=DistributedReadingService())


@cache
def old(rank: int, meeting: str, batches: int, length_is_known: bool) -> Iterable[object]:
    pipes, dataloader2 = import_module("torchdata.datapipes.iter"), import_module("torchdata.dataloader2")
    join(rank, meeting)
    pipe = graph(pipes.IterableWrapper, batches, length_is_known)
    loader: Iterable[object] = dataloader2.DataLoader2(pipe, reading_service=dataloader2.DistributedReadingService())
    return loader


CASES: dict[str, Callable[..., Iterable[object]]] = {
    SYNCED: partial(ours, SYNCED),
    ALONE: partial(ours, ALONE),
    OLD: old,
}
