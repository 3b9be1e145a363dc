"""The law of lanes: one graph with n lanes gives one stream, whatever number of workers runs it, and so do its states.

It is tried on the whole catalogue. A graph that is not sharded is sharded at its end.
"""

from __future__ import annotations

import pickle
from itertools import islice
from random import Random
from typing import Any

import pytest

from datapipes.description import structure
from datapipes.errors import GraphError
from datapipes.graph import Pipe
from datapipes.iter import Lanes
from datapipes.position.user_classes import is_sharding
from loader2 import DataLoader2
from loader2.testing.errors import EXPECTED, FaultySource
from loader2.testing.specimen import Tap, shown
from reading_services import MultiProcessingReadingService, ReadingServiceInterface, ThreadingReadingService
from tests.specimens.catalogue import SPECIMENS
from tests.specimens.elements import itself
from tests.specimens.lanes import LANES
from tests.specimens.specimen import Specimen

pytestmark = pytest.mark.filterwarnings("ignore")

REFUSED = {"iter.fullsync", "iter.pin_memory", "iter.sharding_round_robin_dispatch", "iter.to_device"}
"""Operators that cannot be above lanes."""

SHARDED = {"iter.in_memory_cache: one shard of three", "iter.sharding_filter: nobody shards"}
"""Specimens beside those of ``sharding_filter`` that are one shard already, and that specimen which is not."""

_MOST = 40
"""Events of a stream that may raise without end."""


def _by_operator() -> dict[str, list[Specimen]]:
    groups: dict[str, list[Specimen]] = {}
    for specimen in SPECIMENS:
        is_shard = (specimen.operator == "iter.sharding_filter") != (str(specimen) in SHARDED)
        if specimen.service is None and specimen.operator != "iter.lanes" and not is_shard:
            groups.setdefault(specimen.operator, []).append(specimen)
    return groups


def _sharded(specimen: Specimen) -> Pipe:
    graph = specimen.pipe()
    graph = graph if structure.is_stream(graph) else graph.to_iter_datapipe()
    return graph if any(map(is_sharding, structure.walk(graph))) else graph.sharding_filter().map(itself)


def _events(loader: DataLoader2[Any], most: int = _MOST) -> list[str]:
    """Up to so many elements and errors of an epoch, and its end."""
    iterator, events = iter(loader), list[str]()
    while len(events) < most:
        try:
            events.append(shown(next(iterator)))
        except StopIteration:
            events.append("the end")
            break
        except EXPECTED as error:
            text = str(error).partition(" before its position was saved: ")[2] or f"{type(error).__name__}: {error}"
            events.append(text)
    return events


def _two_epochs(graph: Pipe, service: ReadingServiceInterface | None = None) -> list[str]:
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=service)
    loader.seed(3)
    try:
        return _events(loader) + _events(loader)
    finally:
        loader.shutdown()


@pytest.mark.parametrize("specimens", _by_operator().values(), ids=_by_operator())
def test_the_number_of_workers_does_not_matter(specimens: list[Specimen]) -> None:
    for specimen in specimens:
        if specimen.operator in REFUSED:
            with pytest.raises(GraphError, match=r"lanes\(3\)"):
                DataLoader2(_sharded(specimen).lanes(3))
            continue
        whole = _two_epochs(_sharded(specimen).lanes(3))
        for workers in (1, 2, 3):
            threads = ThreadingReadingService(workers, timeout=60)
            assert _two_epochs(_sharded(specimen).lanes(3), threads) == whole, (str(specimen), workers)
        if not specimen.raises:  # in workers, an error above the sharding is raised by each of them
            threads = ThreadingReadingService(3, timeout=60)
            assert _two_epochs(_sharded(specimen), threads) == whole, f"{specimen}: three workers without lanes"


@pytest.mark.parametrize("specimen", LANES, ids=map(str, LANES))
def test_the_number_of_processes_does_not_matter(specimen: Specimen) -> None:
    whole = _two_epochs(specimen.pipe())
    for workers in (2, 3):
        service = MultiProcessingReadingService(workers, "fork", timeout=60)
        assert _two_epochs(specimen.pipe(), service) == whole


def _service(workers: int, processes: bool) -> ReadingServiceInterface | None:
    if not workers:
        return None
    if processes:
        return MultiProcessingReadingService(workers, "fork", timeout=60)
    return ThreadingReadingService(workers, timeout=60)


@pytest.mark.parametrize("case", range(100))
def test_a_state_is_loaded_with_any_number_of_workers(case: int) -> None:
    """A chain of loaders, each with another number of workers, over a graph whose source may fail."""
    random = Random(case)
    specimen = random.choice(LANES)
    hit = frozenset(random.sample(range(7), random.choice([0, 0, 1, 2])))
    buffer_size = random.choice([0, 1, 1000])

    def build() -> Pipe:
        graph = specimen.build(FaultySource(hit) if hit else Tap())
        for stage in structure.walk(graph):
            if isinstance(stage, Lanes):
                stage.buffer_size = buffer_size
        return graph

    loader: DataLoader2[Any] = DataLoader2(build())
    loader.seed(5)
    whole = _events(loader)
    loader.shutdown()
    state, found = None, list[str]()
    while found[-1:] != ["the end"] and len(found) < _MOST:
        workers = random.choice([0, 0, 1, 2, 3, 5])
        loader = DataLoader2(build(), reading_service=_service(workers, processes=case % 10 == 0))
        if state is None:
            loader.seed(5)
        else:
            loader.load_state_dict(pickle.loads(pickle.dumps(state)))
        found += _events(loader, min(random.randrange(1, 8), _MOST - len(found)))
        state = loader.state_dict()
        loader.shutdown()
    assert found == whole, (specimen.title, hit)


def test_laws_are_tried_on_many_graphs() -> None:
    assert len(list(islice((s for group in _by_operator().values() for s in group), 700))) > 600
