"""Random graphs, sharded at their end and mapped in workers, give what one process gives, and are resumed anywhere."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datapipes.description import structure
from datapipes.graph import Pipe
from datapipes.iter import ShardingRoundRobinDispatcher
from datapipes.position.user_classes import is_sharding
from loader2 import DataLoader2
from loader2.testing.comparing import taken
from tests.naive_functions import tagged
from tests.naive_graphs import Graph
from tests.reading_services.workers.in_turn import Service, epochs_of, in_turn, processes, threads
from tests.test_random_graphs import GRAPH, SEEDS

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* goes on after ValueError"),
    pytest.mark.filterwarnings("ignore:random_split deals elements out by their number"),
]


def sharded(graph: Graph, where: str) -> Pipe:
    if where == "dispatched":
        return graph.build().sharding_round_robin_dispatch().map(tagged)
    return graph.build().sharding_filter().map(tagged).batch(2)


def check(service: Service, graph: Graph, seed: int, workers: int, where: str, saved: float) -> None:
    build = partial(sharded, graph, where)
    whole = in_turn(build, 1 if where == "dispatched" else workers, 2, seed)
    assert epochs_of(build, service(workers), 2, seed) == whole
    k = round(saved * len(whole[0]))
    with DataLoader2(build(), reading_service=service(workers)) as loader:
        loader.seed(seed)
        assert taken(iter(loader), k) == whole[0][:k]
        state = pickle.dumps(loader.state_dict())
    with DataLoader2(build(), reading_service=service(workers)) as again:
        again.load_state_dict(pickle.loads(state))
        if k:
            assert taken(iter(again)) == whole[0][k:]


UNSHARDED = GRAPH.filter(lambda graph: not any(map(is_sharding, structure.walk(graph.build()))))
"""Workers shard a graph once."""

CASE = (UNSHARDED, SEEDS, st.integers(1, 3), st.sampled_from(["sharded", "dispatched"]), st.floats(0, 1))
SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow]


@settings(max_examples=60, suppress_health_check=SLOW)
@given(*CASE)
def test_in_threads(graph: Graph, seed: int, workers: int, where: str, saved: float) -> None:
    check(threads, graph, seed, workers, where, saved)


@settings(max_examples=20, suppress_health_check=SLOW)
@given(*CASE)
def test_in_processes(graph: Graph, seed: int, workers: int, where: str, saved: float) -> None:
    check(processes, graph, seed, workers, where, saved)


LANES = 4
UNDISPATCHED = UNSHARDED.filter(
    lambda graph: not any(isinstance(stage, ShardingRoundRobinDispatcher) for stage in structure.walk(graph.build()))
)


@settings(max_examples=60, suppress_health_check=SLOW)
@given(UNDISPATCHED, SEEDS, st.lists(st.integers(0, 4), min_size=2, max_size=3), st.lists(st.floats(0, 1), min_size=2))
def test_in_lanes(graph: Graph, seed: int, workers: list[int], saved: list[float]) -> None:
    """The lanes give what as many workers give, and a state is for any number of workers."""

    def build() -> Pipe:
        return sharded(graph, "sharded").lanes(LANES)

    whole = in_turn(partial(sharded, graph, "sharded"), LANES, 1, seed)[0]
    state, done = None, 0
    for number, part in zip(workers, [*saved[: len(workers) - 1], 1.0], strict=False):
        with DataLoader2(build(), reading_service=threads(number) if number else None) as loader:
            if state is None:
                loader.seed(seed)
            else:
                loader.load_state_dict(pickle.loads(state))
            upto = done + round(part * (len(whole) - done))
            if upto > done:
                assert taken(iter(loader), upto - done) == whole[done:upto]
            done, state = upto, pickle.dumps(loader.state_dict())
