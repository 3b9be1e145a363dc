"""Epochs without a seed draw theirs from torch's default generator when they begin, wherever the graph runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch

import reading_services.ipu as poptorch
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    InProcessReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)
from tests.many_ranks import on_ranks

SERVICES: dict[str, Callable[[], ReadingServiceInterface | None]] = {
    "none": lambda: None,
    "in process": InProcessReadingService,
    "ahead": lambda: InProcessReadingService(prefetch_cnt=3),
    "threads": lambda: ThreadingReadingService(2),
    "processes": lambda: MultiProcessingReadingService(2),
    "ranks": DistributedReadingService,
    "one after the other": lambda: SequentialReadingService(
        DistributedReadingService(), ThreadingReadingService(2), InProcessReadingService()
    ),
    "an IPU": lambda: SequentialReadingService(
        ThreadingReadingService(2), poptorch.IPUReadingService(poptorch.Options().deviceIterations(2))
    ),
}


def numbers() -> IterDataPipe[Any]:
    return IterableWrapper(range(24)).shuffle().sharding_filter().map(abs).shuffle(buffer_size=5)


def epochs_of(loader: DataLoader2[Any], number: int) -> list[Any]:
    return [[str(element) for element in loader] for _ in range(number)]


@pytest.fixture(autouse=True)
def _generator_of_torch() -> Any:
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())
def test_torchs_seed_decides_and_a_resumed_epoch_is_that_epoch(
    service: Callable[[], ReadingServiceInterface | None],
) -> None:
    graph = numbers().map(lambda number: torch.tensor([number])).batch(2).collate()
    with DataLoader2(graph, reading_service=service()) as loader:
        torch.manual_seed(5)
        first = epochs_of(loader, 2)
        torch.manual_seed(5)
        assert epochs_of(loader, 2) == first
        assert first[0] != first[1]
        torch.manual_seed(6)
        assert epochs_of(loader, 1) != first[:1]
        torch.manual_seed(5)
        elements = iter(loader)
        begun = [str(next(elements))]
        state = loader.state_dict()
    torch.manual_seed(7)
    with DataLoader2.from_state(state, service(), datapipe=graph) as resumed:
        assert begun + epochs_of(resumed, 1)[0] == first[0]
        torch.manual_seed(5)
        assert epochs_of(resumed, 1) == first[:1]


def test_what_functions_draw_in_workers_follows_as_well() -> None:
    graph = IterableWrapper(range(8)).sharding_filter().map(lambda _: (random.random(), torch.rand(1).item()))
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(2)) as loader:
        torch.manual_seed(5)
        first = epochs_of(loader, 2)
        torch.manual_seed(5)
        assert epochs_of(loader, 2) == first
        assert first[0] != first[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_torchs_seed_on_rank_0_decides_for_all(workers: int) -> None:
    def run(rank: int) -> list[Any]:
        services = [DistributedReadingService(timeout=300), *[ThreadingReadingService(2)] * (workers > 0)]
        found: list[Any] = []
        with DataLoader2(numbers(), reading_service=SequentialReadingService(*services)) as loader:
            for seed in (5, 5, 6):
                torch.manual_seed(seed if rank == 0 else 100 * rank + len(found))
                found.append(list(loader))
        return found

    ranks = on_ranks(2, run)
    for parts in zip(*ranks, strict=True):
        assert sorted(chain(*parts)) == list(range(24))
    for first, again, other in ranks:
        assert first == again != other


def test_a_seed_on_rank_0_begins_a_sequence_on_all() -> None:
    def run(rank: int) -> list[int]:
        with DataLoader2(numbers(), reading_service=DistributedReadingService(timeout=300)) as loader:
            if rank == 0:
                loader.seed(3)
            first = [*loader], [*loader]
            loader.seed(3)
            assert ([*loader], [*loader]) == first
            return first[1]

    assert sorted(chain(*on_ranks(2, run))) == list(range(24))
