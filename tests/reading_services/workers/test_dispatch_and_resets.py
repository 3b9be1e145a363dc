"""Dispatching together with functions that change graphs, with states, and with processes that inherit nothing."""

from __future__ import annotations

from itertools import islice
from typing import Any

import cloudpickle
import pytest

from datapipes.graph import Pipe, find_dps, traverse_dps
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper, Shuffler
from loader2 import DataLoader2
from reading_services import WorkerInfo
from reading_services.workers.dispatched import without_dispatched
from tests.reading_services.workers.in_turn import Service, numbers, processes, texts, threads

both = pytest.mark.parametrize("service", [processes, threads])


class Marked:
    """Says in which epoch an element was made, and by whom; each of its kind is one function of a graph."""

    def __init__(self, name: str, epoch: int = 0, worker: int = -1) -> None:
        self.name = name
        self.epoch = epoch
        self.worker = worker

    def __call__(self, x: Any) -> tuple[Any, str, int, int]:
        return x, self.name, self.epoch, self.worker


def told(datapipe: Pipe, info: WorkerInfo, seeds: Any) -> Pipe:
    for mapper in find_dps(traverse_dps(datapipe), Mapper):
        # Another function, because threads have stages of their own, and share what these refer to.
        mapper.fn = Marked(mapper.fn.name, seeds.generate_shared_seed() % 1000, info.worker_id)
    return datapipe


def graph() -> Pipe:
    above = numbers(20).shuffle(buffer_size=6).map(Marked("above"))
    return above.sharding_round_robin_dispatch().map(Marked("below")).shuffle(buffer_size=2)


def loader_of(service: Any) -> DataLoader2[Any]:
    loader: DataLoader2[Any] = DataLoader2(graph(), reading_service=service)
    loader.seed(3)
    return loader


@both
def test_a_reset_function_is_called_in_the_dispatcher_and_in_each_worker(service: Service) -> None:
    with loader_of(service(2, worker_reset_fn=told)) as loader:
        epochs = [list(loader), list(loader)]
    for epoch in epochs:
        assert {above[1:2] + above[3:] for above, *_ in epoch} == {("above", 0)}
        assert {worker for *_, worker in epoch} == {0, 1}
        assert len({above[2] for above, *_ in epoch}) == 1
    assert epochs[0][0][0][2] != epochs[1][0][0][2], "each epoch has seeds of its own"


@both
def test_it_is_called_with_the_same_seeds_when_an_epoch_is_resumed(service: Service) -> None:
    with loader_of(service(2, worker_reset_fn=told)) as loader:
        first, second = texts(iter(loader)), texts(iter(loader))
    for number in (1, 4, 9, 19):
        with loader_of(service(2, worker_reset_fn=told)) as loader:
            list(islice(iter(loader), number))
            state = loader.state_dict()
        with loader_of(service(2, worker_reset_fn=told)) as again:
            again.load_state_dict(state)
            assert texts(iter(again)) == first[number:]
            assert texts(iter(again)) == second


def test_processes_that_inherit_nothing() -> None:
    with loader_of(processes(2, worker_reset_fn=told)) as loader:
        first, second = texts(iter(loader)), texts(iter(loader))
    with loader_of(processes(2, multiprocessing_context="forkserver", worker_reset_fn=told)) as loader:
        iterator = iter(loader)
        assert texts(islice(iterator, 7)) == first[:7]
        state = loader.state_dict()
        assert texts(iterator) == first[7:]
        assert texts(iter(loader)) == second
    with loader_of(processes(2, worker_reset_fn=told)) as again:  # a state does not tell how processes were started
        again.load_state_dict(state)
        assert texts(iter(again)) == first[7:]


def test_what_is_dispatched_is_sent_to_the_dispatcher_alone() -> None:
    end = IterableWrapper([bytes(1 << 20)]).sharding_round_robin_dispatch().map(len)
    of_workers, dispatched = without_dispatched(end)
    assert len(cloudpickle.dumps(of_workers)) < 1 << 12
    assert dispatched is not None
    assert list(dispatched) == [bytes(1 << 20)]
    with DataLoader2(end, reading_service=processes(2)) as loader:
        assert len(loader) == 1


def seeded(datapipe: Pipe, info: WorkerInfo, seeds: Any) -> Pipe:
    for shuffler in find_dps(traverse_dps(datapipe), Shuffler):
        shuffler.set_seed(7)
    return datapipe


@both
@pytest.mark.parametrize("above", [IterDataPipe.sharding_filter, IterDataPipe.sharding_round_robin_dispatch])
def test_a_seed_that_a_reset_function_sets_begins_anew_in_each_epoch(service: Service, above: Any) -> None:
    def loader(**functions: Any) -> DataLoader2[Any]:
        return DataLoader2(above(numbers(20).shuffle().set_seed(7)), reading_service=service(2, **functions))

    with loader() as dl:
        epochs = [list(dl) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    with loader(worker_init_fn=seeded_once) as dl:
        assert [list(dl) for _ in range(3)] == epochs
    with loader(worker_reset_fn=seeded) as dl:
        assert [list(dl), list(dl)] == [epochs[0]] * 2
        iterator = iter(dl)
        begun = list(islice(iterator, 5))
        state = dl.state_dict()
    with loader(worker_reset_fn=seeded) as dl:
        dl.load_state_dict(state)
        assert begun + list(dl) == list(dl) == epochs[0]


def seeded_once(datapipe: Pipe, info: WorkerInfo) -> Pipe:
    return seeded(datapipe, info, None)
