"""Real ranks with real workers: what they give, kept in step, and how they go on from states of their own."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias

import pytest

from datapipes.errors import RanksDiffer
from datapipes.graph import Pipe
from datapipes.ranks.topics import Uneven
from loader2 import DataLoader2, gather, scatter
from reading_services import (
    DistributedReadingService,
    InProcessReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
)
from tests.many_ranks import on_ranks
from tests.reading_services.workers.in_turn import HANGS, numbers, processes, threads

Make: TypeAlias = Callable[[], ReadingServiceInterface]

WAYS: dict[str, Make] = {
    "no workers": InProcessReadingService,
    "made ahead": lambda: InProcessReadingService(prefetch_cnt=3),
    "3 threads": lambda: threads(3),
    "2 processes": lambda: processes(2),
}

every_way = pytest.mark.parametrize("make", WAYS.values(), ids=list(WAYS))


def loader_of(graph: Pipe, make: Make, seed: int | None = None) -> DataLoader2[Any]:
    services = SequentialReadingService(DistributedReadingService(HANGS), make())
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=services)
    if seed is not None:
        loader.seed(seed)
    return loader


def epoch(make: Make, rank: int) -> list[int]:
    with loader_of(numbers(11).sharding_filter(), make) as loader:
        return list(loader)


def test_ranks_and_their_workers_share_the_elements_and_end_together() -> None:
    assert on_ranks(2, partial(epoch, WAYS["2 processes"])) == [[0, 1, 4, 5, 8], [2, 3, 6, 7, 10]]


def shuffled() -> Pipe:
    return numbers(41).shuffle(buffer_size=6).sharding_filter().map(abs).shuffle(buffer_size=4).batch(2)


def resumed(make: Make, rank: int) -> list[bool]:
    """Whether each state of an epoch goes on as the epoch did; the ranks' loaders are given other seeds."""
    with loader_of(shuffled(), make, rank) as loader:
        iterator = iter(loader)
        states, whole = [], []
        for batch in iterator:
            whole.append(batch)
            states.append(gather(loader.state_dict()))
        following = list(loader)
    found = []
    for k in (1, 4, len(states)):
        with loader_of(shuffled(), make) as again:
            again.load_state_dict(scatter(states[k - 1]))
            found.append(list(again) == whole[k:] and list(again) == following)
    return found


@every_way
def test_every_rank_goes_on_from_its_own_state(make: Make) -> None:
    assert on_ranks(2, partial(resumed, make)) == [[True] * 3] * 2


def drawn(rank: int) -> list[list[float]]:
    graph = numbers(8).sharding_filter().map(lambda _: random.random())
    with loader_of(graph, WAYS["2 processes"], rank) as loader:
        first = list(loader)
        loader.seed(rank)
        return [first, list(loader)]


def test_random_numbers_that_belong_to_nobody_differ_by_rank_and_worker_and_repeat() -> None:
    ranks = on_ranks(2, drawn)
    assert all(first == again for first, again in ranks)
    assert len(set(chain(*(first for first, _ in ranks)))) == 8


def with_other_workers(rank: int) -> str:
    with loader_of(numbers(8).sharding_filter(), lambda: threads(1 + rank)) as loader:
        try:
            list(islice(loader, 1))
        except RanksDiffer as error:
            return str(error)
    return "nothing"


def test_ranks_with_different_numbers_of_workers_are_refused() -> None:
    for said in on_ranks(2, with_other_workers):
        assert "ThreadingReadingService with 1 workers" in said
        assert "ThreadingReadingService with 2 workers" in said


def lengths(uneven: Uneven, make: Make, rank: int) -> set[int]:
    services = SequentialReadingService(DistributedReadingService(HANGS, uneven=uneven), make())
    with DataLoader2(numbers(11).sharding_filter().map(abs), reading_service=services) as loader:
        before, given = len(loader), len(list(loader))
        return {before, given, len(loader)}


@every_way
@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_the_length_is_known_before_and_after(make: Make, uneven: Uneven) -> None:
    ranks = on_ranks(2, partial(lengths, uneven, make))
    assert ranks[0] == ranks[1]
    assert len(ranks[0]) == 1
