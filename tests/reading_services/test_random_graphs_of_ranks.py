"""Random graphs on ranks with workers: together they give what one process gives, and each is resumed anywhere.

Ranks are played one after the other (``ranked``), and nothing keeps them in step.
"""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.graph import Pipe
from loader2 import DataLoader2
from loader2.testing.comparing import taken
from reading_services import InProcessReadingService, ReadingServiceInterface, SequentialReadingService
from tests.naive_functions import tagged
from tests.naive_graphs import Graph
from tests.reading_services.ranked import Ranked
from tests.reading_services.workers.in_turn import Service, processes, taken_in_turn, threads
from tests.reading_services.workers.test_random_graphs_in_workers import SLOW, UNSHARDED
from tests.test_random_graphs import SEEDS

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* goes on after ValueError"),
    pytest.mark.filterwarnings("ignore:random_split deals elements out by their number"),
]


def sharded(graph: Graph, dispatched: bool) -> Pipe:
    shard = graph.build().sharding_filter()
    return (shard.sharding_round_robin_dispatch() if dispatched else shard).map(tagged)


def check(
    service: Service, graph: Graph, seed: int, world: int, workers: int, dispatched: bool, saved: list[float]
) -> None:
    with DataLoader2(sharded(graph, dispatched)) as loader:
        loader.seed(seed)
        whole = taken(iter(loader))
    parts = 1 if dispatched else max(workers, 1)
    for rank in range(world):
        mine = taken_in_turn([whole[part + parts * rank :: parts * world] for part in range(parts)])

        def loaded(rank: int = rank) -> DataLoader2[object]:
            inner: ReadingServiceInterface = service(workers) if workers else InProcessReadingService()
            services = SequentialReadingService(Ranked(world, rank), inner)
            return DataLoader2(sharded(graph, dispatched), reading_service=services)

        k = round(saved[rank] * len(mine))
        with loaded() as loader:
            loader.seed(seed)
            assert taken(iter(loader)) == mine
            loader.seed(seed)
            iterator = iter(loader)
            assert taken(iterator, k) == mine[:k]
            state = pickle.dumps(loader.state_dict())
            assert taken(iterator) == mine[k:]
        with loaded() as again:
            again.load_state_dict(pickle.loads(state))
            assert taken(iter(again)) == mine[k:]


CASE = (UNSHARDED, SEEDS, st.integers(1, 3), st.integers(0, 3), st.booleans(), st.lists(st.floats(0, 1), min_size=3))


@settings(max_examples=40, suppress_health_check=SLOW)
@given(*CASE)
def test_with_threads(graph: Graph, seed: int, world: int, workers: int, deal: bool, saved: list[float]) -> None:
    check(threads, graph, seed, world, workers, deal, saved)


@settings(max_examples=8, suppress_health_check=SLOW)
@given(*CASE)
def test_with_processes(graph: Graph, seed: int, world: int, workers: int, deal: bool, saved: list[float]) -> None:
    check(processes, graph, seed, world, workers, deal, saved)
