"""A function that a service returns from ``initialize_iteration`` runs in the workers of the service behind it."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.graph import Pipe
from loader2 import DataLoader2
from reading_services import ReadingServiceInterface, SequentialReadingService, WorkerInfo
from tests.reading_services.workers.in_turn import Service, numbers, processes, threads

both = pytest.mark.parametrize("service", [processes, threads])


class Multiplying(ReadingServiceInterface):
    """Has each epoch's graph multiply by one more than the epoch before, wherever that graph is."""

    def __init__(self) -> None:
        self.epoch = 0

    def initialize(self, datapipe: Pipe) -> Pipe:
        return datapipe

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> Any:
        self.epoch += 1
        factor = 10 * self.epoch
        return lambda datapipe: datapipe.map(lambda x: x * factor)


@both
def test_it_runs_in_the_workers_before_their_own_function_and_what_it_returned_is_kept(service: Service) -> None:
    def own(datapipe: Pipe, info: WorkerInfo, seeds: Any) -> Pipe:
        return datapipe.map(lambda x: x + info.worker_id)

    services = SequentialReadingService(Multiplying(), service(2, worker_reset_fn=own))
    graph = numbers(4).sharding_filter()
    with DataLoader2(graph, reading_service=services) as loader:
        assert list(loader) == [0, 11, 20, 31]
        assert list(loader) == [0, 221, 400, 621], "both are applied to what they gave before"
        with pytest.raises(TypeError, match="may change its length"):
            len(loader)


@both
def test_it_runs_in_the_dispatcher(service: Service) -> None:
    graph = numbers(4).sharding_round_robin_dispatch().map(lambda x: x + 1)
    with DataLoader2(graph, reading_service=SequentialReadingService(Multiplying(), service(2))) as loader:
        # In the dispatcher, and on what the workers make of that.
        assert list(loader) == [10, 110, 210, 310]


@both
def test_an_epoch_that_goes_on_after_an_error_is_not_begun_again(service: Service) -> None:
    graph = numbers(6).sharding_filter().map(lambda x: 60 // (x - 2))
    with DataLoader2(graph, reading_service=SequentialReadingService(Multiplying(), service(2))) as loader:
        iterator = iter(loader)
        assert list(islice(iterator, 2)) == [-300, -600]
        with pytest.raises(ZeroDivisionError):
            next(iterator)
        assert list(iterator) == [600, 300, 200]


@both
def test_it_must_return_a_graph(service: Service) -> None:
    class Forgetting(Multiplying):
        def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> Any:
            return lambda datapipe: None

    services = SequentialReadingService(Forgetting(), service(2))
    loader: DataLoader2[int] = DataLoader2(numbers(4).sharding_filter(), reading_service=services)
    with loader, pytest.raises(BadArgumentType, match=r"lambda.* returned NoneType"):
        list(iter(loader))


def test_what_cannot_be_sent_to_the_workers_is_named() -> None:
    class Locked(Multiplying):
        def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> Any:
            generator = iter(x for x in range(1))
            return lambda datapipe: datapipe.map(lambda x: generator)

    services = SequentialReadingService(Locked(), processes(2))
    loader: DataLoader2[int] = DataLoader2(numbers(4).sharding_filter(), reading_service=services)
    with loader, pytest.raises(BadArgumentType, match="has to run in the workers when an epoch starts"):
        iter(loader)
