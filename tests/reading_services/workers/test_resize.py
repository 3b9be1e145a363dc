"""Another number of workers from one epoch to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datapipes.errors import BadArgument
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import InProcessReadingService, MultiProcessingReadingService, SequentialReadingService
from reading_services import ThreadingReadingService as Threading
from reading_services.workers.service import OnWorkers

SEED = 5
SERVICES: dict[str, Callable[[int], OnWorkers]] = {
    "processes": lambda n: MultiProcessingReadingService(n, "fork"),
    "threads": Threading,
}
services = pytest.mark.parametrize("of", SERVICES.values(), ids=SERVICES)


def graph(dispatched: bool = False) -> Pipe:
    numbers = IterableWrapper(range(40)).shuffle()
    return (numbers.sharding_round_robin_dispatch() if dispatched else numbers.sharding_filter()).map(str).batch(3)


def loader(service: Any, dispatched: bool = False) -> DataLoader2[Any]:
    dl: DataLoader2[Any] = DataLoader2(graph(dispatched), reading_service=service)
    dl.seed(SEED)
    return dl


def service_of(dl: DataLoader2[Any]) -> Any:
    """The service of a loader."""
    return dl.reading_service


def workers_of(dl: DataLoader2[Any]) -> OnWorkers:
    """The service with workers that a loader has, by itself or first in a chain."""
    service: Any = dl.reading_service
    service = getattr(service, "reading_services", [service])[0]
    assert isinstance(service, OnWorkers)
    return service


def second_epoch(service: Any, dispatched: bool) -> list[Any]:
    with loader(service, dispatched) as dl:
        list(dl)
        return list(dl)


@services
@pytest.mark.parametrize("dispatched", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_epoch_after_is_that_of_as_many_workers(
    of: Callable[[int], OnWorkers], dispatched: bool, workers: int
) -> None:
    with loader(of(2), dispatched) as dl:
        first = list(dl)
        workers_of(dl).resize(workers)
        assert list(dl) == second_epoch(of(workers), dispatched)
    assert first == list(loader(of(2), dispatched))


@services
def test_an_epoch_under_way_ends_as_it_began(of: Callable[[int], OnWorkers]) -> None:
    with loader(of(2)) as dl:
        whole = list(loader(of(2)))
        it = iter(dl)
        begun = [next(it), next(it)]
        workers_of(dl).resize(3)
        assert begun + list(it) == whole
        list(dl)
        assert workers_of(dl)._plan.workers == 3


@services
def test_before_the_first_epoch_it_is_as_if_made_so(of: Callable[[int], OnWorkers]) -> None:
    with loader(of(2)) as dl:
        workers_of(dl).resize(3)
        assert list(dl) == list(loader(of(3)))


def test_in_a_chain_of_services() -> None:
    service = SequentialReadingService(Threading(2), InProcessReadingService(prefetch_cnt=2))
    for resized in (workers_of, service_of):
        with loader(service) as dl:
            list(dl)
            resized(dl).resize(3)
            assert list(dl) == second_epoch(Threading(3), dispatched=False)


def test_a_chain_without_workers_has_none_to_resize() -> None:
    with pytest.raises(BadArgument, match=r"^resize\(3\): SequentialReadingService\(InProcess.*add one with workers"):
        SequentialReadingService(InProcessReadingService()).resize(3)
    with loader(SequentialReadingService(Threading(2))) as dl:
        with pytest.raises(BadArgument, match="num_workers=0"):
            service_of(dl).resize(0)
        assert list(dl) == list(loader(Threading(2)))


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    with loader(Threading(2)) as dl:
        with pytest.raises(BadArgument, match=r"num_workers=0"):
            workers_of(dl).resize(0)
        assert list(dl) == list(loader(Threading(2)))
    with pytest.warns(UserWarning, match="num_workers=0"):
        service = MultiProcessingReadingService(0)
    with pytest.raises(BadArgument, match="with no worker"):
        service.resize(2)
