"""The order of what workers give: one element of each in turn, whatever their number, speed and parts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy
import pytest
import torch

from datapipes.errors import GraphError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import InProcessReadingService, WorkerInfo, get_worker_info
from tests.reading_services.workers.in_turn import (
    SEED,
    Build,
    Service,
    epochs_of,
    in_turn,
    numbers,
    processes,
    texts,
    threads,
)

both = pytest.mark.parametrize("service", [processes, threads])


def hundred(dp: Pipe) -> Pipe:
    return dp.map(lambda x: x * 100)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 100])
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_threads_give_the_order_of_one_process(workers: int, length: int) -> None:
    for prefetch in (0, 1, 10):
        found = epochs_of(lambda: numbers(length).sharding_filter(), threads(workers, prefetch_cnt=prefetch), 2)
        assert found == [texts(range(length))] * 2


def sharded(length: int) -> Pipe:
    return numbers(length).sharding_filter()


@pytest.mark.parametrize(("workers", "lengths"), [(1, (0, 1, 2)), (2, (0, 1, 2, 3, 100)), (5, (4, 5, 6))])
def test_processes_give_the_order_of_one_process(workers: int, lengths: tuple[int, ...]) -> None:
    for length in lengths:
        for prefetch in ((0, 0), (10, 10)) if length == 100 else ((1, 0),):
            service = processes(workers, worker_prefetch_cnt=prefetch[0], main_prefetch_cnt=prefetch[1])
            found = epochs_of(partial(sharded, length), service, 2)
            assert found == [texts(range(length))] * 2


GRAPHS: dict[str, Build] = {
    "batched after sharding": lambda: numbers(11).sharding_filter().batch(2),
    "batched before": lambda: numbers(11).batch(2).sharding_filter(),
    "shuffled before": lambda: numbers(30).shuffle(buffer_size=7).sharding_filter(),
    "shuffled after": lambda: numbers(30).sharding_filter().shuffle(buffer_size=7),
    "uneven by filter": lambda: numbers(40).sharding_filter().filter(lambda x: x % 2 == 1 or x > 33),
    "uneven by flatmap": lambda: numbers(12).sharding_filter().flatmap(lambda x: range(x if x % 2 else 0)),
    "nothing but in one": lambda: numbers(31).sharding_filter().filter(lambda x: x % 3 == 1),
    "forked": lambda: forked(numbers(9).sharding_filter()),
    "two sources": lambda: numbers(9).sharding_filter().zip(numbers(9).map(str).sharding_filter()),
    "not sharded": lambda: numbers(5).shuffle(buffer_size=3),
    "cycled": lambda: numbers(5).shuffle().sharding_filter().cycle(2),
}


def forked(pipe: Pipe) -> Pipe:
    a, b = pipe.fork(2)
    return a.map(str).zip(b.batch(1))


@both
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.filterwarnings("ignore:.*has no sharding_filter")
def test_parts_come_in_turn(service: Service, name: str) -> None:
    build = GRAPHS[name]
    for workers in (2, 3):
        assert epochs_of(build, service(workers), 2) == in_turn(build, workers, 2)


@both
def test_batches_of_parts(service: Service) -> None:
    loader: DataLoader2[Any] = DataLoader2(numbers(7).sharding_filter().batch(2).map(list), reading_service=service(2))
    with loader:
        assert list(loader) == [[0, 2], [1, 3], [4, 6], [5]]


@both
def test_a_shuffle_above_the_sharding_is_the_same_with_any_number_of_workers(service: Service) -> None:
    def build() -> Pipe:
        return numbers(20).shuffle(buffer_size=6).sharding_filter()

    expected = epochs_of(build, InProcessReadingService(), 3)
    assert expected[0] != expected[1] != expected[2]
    for workers in (1, 2, 3):
        assert epochs_of(build, service(workers), 3) == expected
    assert epochs_of(build, service(2), seed=SEED + 1) != expected[:1]


@both
def test_without_a_seed_epochs_differ_and_workers_agree(service: Service) -> None:
    def unseeded() -> list[list[int]]:
        with DataLoader2(numbers(50).shuffle().sharding_filter(), reading_service=service(2)) as loader:
            return [list(loader) for _ in range(3)]

    epochs = unseeded()
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    with torch.random.fork_rng(devices=[]):
        repeated = []
        for _ in range(2):
            torch.manual_seed(4)
            repeated.append(unseeded())
    assert repeated[0] == repeated[1] != epochs


@both
def test_in_any_order_all_come(service: Service) -> None:
    graph = numbers(100).sharding_filter().filter(lambda x: x % 3 == 0 or x > 60)
    with DataLoader2(graph, reading_service=service(3, in_order=False)) as loader:
        for _ in range(2):
            assert sorted(loader) == sorted(graph)


@both
def test_without_sharding_everything_comes_from_everybody_and_that_is_said(service: Service) -> None:
    with pytest.warns(UserWarning, match=r"has no sharding_filter\(\): each of the 2 workers gives all of them"):
        loader = DataLoader2(numbers(3).map(str), reading_service=service(2))
    with loader:
        assert list(loader) == ["0", "0", "1", "1", "2", "2"]
        assert len(loader) == 6


@both
def test_a_generator_is_refused_and_named(service: Service) -> None:
    with pytest.raises(GraphError, match="reads a generator, which can only be read once, and 2 workers"):
        DataLoader2(
            IterableWrapper((x for x in range(3)), deepcopy=False).sharding_filter(), reading_service=service(2)
        )
    with DataLoader2(IterableWrapper((x for x in range(3)), deepcopy=False), reading_service=service(1)) as loader:
        assert list(loader) == [0, 1, 2]


@both
def test_sharding_twice_on_one_path_is_refused(service: Service) -> None:
    with pytest.raises(GraphError, match="Sharding twice"):
        DataLoader2(numbers(9).sharding_filter().map(abs).sharding_filter(), reading_service=service(2))


class PartByItself(IterDataPipe[int]):
    """A user's source that asks which worker it is in."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        yield from range(9) if info is None else range(info.worker_id, 9, info.num_workers)

    def apply_sharding(self, *_: Any) -> None:
        """It takes its part by itself."""


@both
def test_a_source_can_ask_which_worker_it_is_in(service: Service) -> None:
    with DataLoader2(PartByItself().map(told), reading_service=service(2)) as loader:
        assert list(loader) == [(x, WorkerInfo(2, x % 2)) for x in range(9)]
    assert get_worker_info() is None


def told(x: int) -> tuple[int, WorkerInfo | None]:
    return x, get_worker_info()


def augmented(x: int) -> tuple[int, float, float, float]:
    return x, random.random(), float(numpy.random.rand()), float(torch.rand(1))


def test_what_is_random_in_a_function_is_repeated_in_processes() -> None:
    def build() -> Pipe:
        return numbers(8).sharding_filter().map(augmented)

    epochs = epochs_of(build, processes(2), 2)
    assert epochs_of(build, processes(2), 2) == epochs
    assert epochs[0] != epochs[1]
    assert len({draw.split(",", 1)[1] for draw in epochs[0]}) == 8, "workers draw alike"
    assert epochs_of(build, processes(2), seed=SEED + 1) != epochs[:1]


@both
@pytest.mark.parametrize("name", ["batched after sharding", "batched before", "not sharded", "two sources"])
@pytest.mark.filterwarnings("ignore:.*has no sharding_filter")
def test_the_length_is_that_of_what_comes(service: Service, name: str) -> None:
    for workers in (2, 3):
        with DataLoader2(GRAPHS[name](), reading_service=service(workers)) as loader:
            before = len(loader)
            assert [before, len(loader)] == [len(list(loader))] * 2


def test_the_length_is_not_known_if_the_workers_graphs_may_be_changed() -> None:
    loader = DataLoader2(numbers(6).sharding_filter(), reading_service=threads(2, worker_init_fn=lambda dp, _: dp))
    with pytest.raises(TypeError, match="worker_init_fn"):
        len(loader)
