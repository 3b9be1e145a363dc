"""Specimens of nodes of torchdata's as sources."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torchdata import nodes
from torchdata.stateful_dataloader.sampler import RandomSampler

from datapipes.graph import Pipe
from datapipes.iter import NodeWrapper
from tests.specimens.elements import add_ten
from tests.specimens.specimen import Specimen, numbers, shuffled


def batches(length: int, epoch: int) -> Any:
    return nodes.Batcher(nodes.IterableWrapper(range(length)), 2, drop_last=False)


def prefetched(epoch: int) -> Any:
    return nodes.Prefetcher(nodes.Mapper(nodes.IterableWrapper(range(7)), add_ten), 2, snapshot_frequency=3)


def by_threads(epoch: int) -> Any:
    return nodes.ParallelMapper(nodes.IterableWrapper(range(6)), add_ten, num_workers=2)


def mixed(epoch: int) -> Any:
    sources = {"a": nodes.IterableWrapper("abcd"), "b": nodes.IterableWrapper(range(5))}
    return nodes.MultiNodeWeightedSampler(sources, {"a": 1.0, "b": 2.0}, seed=epoch)


def sampled(epoch: int) -> Any:
    generator = torch.Generator().manual_seed(epoch)
    return nodes.MapStyleWrapper(range(10, 19), RandomSampler(range(9), generator=generator))


def of_node(make: Any) -> Pipe:
    return NodeWrapper(make)


def nothing_mixed(tap: Any) -> Pipe:
    return of_node(partial(batches, 0)).mix({tap(numbers(5)): 2}, stop="repeat", seed=1)


NODES = [
    Specimen("iter.NodeWrapper", "batches", lambda tap: of_node(partial(batches, 7)).batch(2)),
    Specimen("iter.NodeWrapper", "nothing", lambda tap: of_node(partial(batches, 0))),
    Specimen("iter.NodeWrapper", "nothing, mixed", nothing_mixed),
    Specimen("iter.NodeWrapper", "prefetched", lambda tap: of_node(prefetched).map(add_ten)),
    Specimen("iter.NodeWrapper", "by threads, prefetched here", lambda tap: of_node(by_threads).prefetch(2)),
    Specimen("iter.NodeWrapper", "mixed", lambda tap: of_node(mixed).map(str), random="pinned"),
    Specimen("iter.NodeWrapper", "sampled", lambda tap: of_node(sampled), random="pinned"),
    shuffled("iter.NodeWrapper", "shuffled", lambda tap: of_node(partial(batches, 9)).shuffle(buffer_size=3)),
    Specimen(
        "iter.NodeWrapper",
        "forked",
        lambda tap: of_node(partial(batches, 5)).fork(2)[0].cycle(2),
        after_fault="otherwise",
    ),
]
