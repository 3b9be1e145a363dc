"""Ranks, each with workers: every element is given by one worker of one rank, and seeds are common or own as they must.

Ranks are played one after the other (``ranked``); what real ones do is in the tests of the distributed service.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from itertools import chain, islice
from multiprocessing import active_children
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

from datapipes.errors import RanksDiffer
from datapipes.graph import Pipe
from datapipes.position.seeds import Run
from loader2 import DataLoader2
from loader2.random import SeedGenerator
from reading_services import InProcessReadingService, ReadingServiceInterface, SequentialReadingService, WorkerInfo
from tests.reading_services.ranked import Ranked
from tests.reading_services.workers.in_turn import SEED, Build, numbers, processes, taken_in_turn, threads

Make: TypeAlias = Callable[[], ReadingServiceInterface]

WAYS: dict[str, tuple[int, Make]] = {
    "no workers": (1, InProcessReadingService),
    "made ahead": (1, lambda: InProcessReadingService(prefetch_cnt=3)),
    "3 threads": (3, lambda: threads(3)),
    "2 processes": (2, lambda: processes(2)),
}

every_way = pytest.mark.parametrize(("n", "make"), WAYS.values(), ids=list(WAYS))


def loader_of(graph: Pipe, world: int, rank: int, workers: ReadingServiceInterface) -> DataLoader2[Any]:
    services = SequentialReadingService(Ranked(world, rank), workers)
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=services)
    loader.seed(SEED)
    return loader


def epochs_of_ranks(build: Build, world: int, make: Make, epochs: int = 1) -> list[list[list[Any]]]:
    """For each rank, its first epochs."""
    given = []
    for rank in range(world):
        with loader_of(build(), world, rank, make()) as loader:
            given.append([list(loader) for _ in range(epochs)])
    return given


def of_ranks(build: Build, world: int, make: Make) -> list[list[Any]]:
    """For each rank, its first epoch."""
    return [epoch for (epoch,) in epochs_of_ranks(build, world, make)]


def test_no_process_is_started_before_the_ranks_have_agreed() -> None:
    class Disagreeing(Ranked):
        def agree(self, run: Run, resumed: bool) -> Run:
            raise RanksDiffer("seeds: 1 on rank 0, 2 on rank 1")

    services = SequentialReadingService(Disagreeing(2, 0), processes(2))
    with DataLoader2(numbers(4).sharding_filter(), reading_service=services) as loader:
        before = active_children()
        with pytest.raises(RanksDiffer, match="seeds"):
            iter(loader)
        assert set(active_children()) <= set(before)


@every_way
@pytest.mark.parametrize("length", [0, 2, 3, 4, 50])
def test_each_element_is_given_once_in_every_epoch(n: int, make: Make, length: int) -> None:
    def build() -> Pipe:
        return numbers(length).shuffle().sharding_filter().map(abs)

    ranks = epochs_of_ranks(build, 3, make, epochs=2)
    first, second = zip(*ranks, strict=True)
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(length))
    assert first != second or length < 4
    for rank, epoch in enumerate(first):
        with loader_of(build(), 3, rank, make()) as loader:
            assert len(loader) == len(epoch)


@every_way
def test_a_worker_of_a_rank_is_one_shard_of_all(n: int, make: Make) -> None:
    whole: list[int] = list(loader_of(numbers(47).shuffle(), 1, 0, InProcessReadingService()))
    ranks = of_ranks(lambda: numbers(47).shuffle().sharding_filter(), 2, make)
    assert ranks == [taken_in_turn([whole[w + n * rank :: n * 2] for w in range(n)]) for rank in range(2)]
    unshuffled = of_ranks(lambda: numbers(11).sharding_filter(), 2, WAYS["2 processes"][1])
    assert unshuffled == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10]]


@every_way
def test_below_the_sharding_each_worker_of_each_rank_draws_its_own(n: int, make: Make) -> None:
    shards = 2 * n

    def build() -> Pipe:
        return numbers(20 * shards).sharding_filter().map(lambda x: x // shards).shuffle()

    ranks = of_ranks(build, 2, make)
    orders = [rank[w::n] for rank in ranks for w in range(n)]
    assert [sorted(order) for order in orders] == [list(range(20))] * shards
    assert len({tuple(order) for order in orders}) == shards
    assert of_ranks(build, 2, make) == ranks


def test_random_numbers_that_belong_to_nobody_differ_by_rank_and_worker() -> None:
    def drawn(_: int) -> tuple[float, float, float]:
        return random.random(), float(torch.rand(())), float(np.random.random())

    def build() -> Pipe:
        return numbers(8).sharding_filter().map(drawn)

    ranks = of_ranks(build, 2, lambda: processes(2))
    for kind in zip(*chain(*ranks), strict=True):
        assert len(set(kind)) == 8
    assert of_ranks(build, 2, lambda: processes(2)) == ranks


@pytest.mark.parametrize("service", [processes, threads])
def test_workers_are_given_seeds_of_their_own_and_seeds_that_all_have(service: Any) -> None:
    def seeds_of(datapipe: Pipe, info: WorkerInfo, seeds: SeedGenerator) -> Pipe:
        own, shared = seeds.generate_seed(), seeds.generate_shared_seed()
        return datapipe.map(lambda x: (own, shared))

    own, shared = zip(
        *chain(*of_ranks(lambda: numbers(4).sharding_filter(), 2, lambda: service(2, worker_reset_fn=seeds_of))),
        strict=True,
    )
    assert (len(set(own)), len(set(shared))) == (4, 1)


def test_what_is_dispatched_is_sharded_by_rank_and_dealt_to_its_workers() -> None:
    def build() -> Pipe:
        return numbers(20).shuffle().sharding_filter().sharding_round_robin_dispatch().map(abs)

    whole: list[int] = list(loader_of(numbers(20).shuffle(), 1, 0, InProcessReadingService()))
    assert of_ranks(build, 2, lambda: processes(2)) == [whole[0::2], whole[1::2]]


@every_way
def test_each_rank_resumes_anywhere(n: int, make: Make) -> None:
    def build() -> Pipe:
        return numbers(17).shuffle(buffer_size=4).sharding_filter().map(abs).shuffle(buffer_size=3).batch(2)

    for rank, whole in enumerate(of_ranks(build, 2, make)):
        for k in range(1, len(whole) + 1):
            with loader_of(build(), 2, rank, make()) as loader:
                assert list(islice(iter(loader), k)) == whole[:k]
                state = pickle.dumps(loader.state_dict())
            with loader_of(build(), 2, rank, make()) as again:
                again.load_state_dict(pickle.loads(state))
                assert list(iter(again)) == whole[k:]
