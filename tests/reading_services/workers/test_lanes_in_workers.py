"""Lanes in workers: functions for each lane, deaths, other numbers of workers between epochs, and what is read once.

``tests/laws/test_lanes.py`` has the law that the number of workers does not matter.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from multiprocessing import active_children
from typing import Any

import pytest
from torch.utils.data import DataLoader

from datapipes.errors import GraphError, StateError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
    WorkerInfo,
    get_worker_info,
)
from tests.many_ranks import on_ranks
from tests.reading_services.workers.in_turn import HANGS, numbers, processes
from tests.specimens.elements import add_ten, is_something, up_to
from tests.specimens.users import Doubled


def threads(workers: int, **options: Any) -> ThreadingReadingService:
    return ThreadingReadingService(workers, timeout=HANGS, **options)


def graph(length: int = 40, lanes: int = 6) -> Pipe:
    above = numbers(length).shuffle(buffer_size=9).sharding_filter()
    return above.shuffle(buffer_size=4).map(add_ten).batch(2).lanes(lanes).map(str)


def epochs(pipe: Pipe, service: ReadingServiceInterface | None = None, count: int = 2) -> list[list[Any]]:
    with DataLoader2(pipe, reading_service=service) as loader:
        loader.seed(1)
        return [list(loader) for _ in range(count)]


def test_the_length_is_known_and_the_same() -> None:
    for workers in (1, 4, 6):
        with DataLoader2(graph(), reading_service=threads(workers)) as loader:
            assert len(loader) == len(list(loader)) == len(graph())


def test_the_source_is_opened_once_in_each_worker() -> None:
    source = Opened(600)
    pipe = IterableWrapper(source, deepcopy=False).filter(is_something).sharding_filter().map(add_ten).lanes(12)
    assert epochs(pipe, threads(2), count=1) == [[x + 10 for x in range(600)]]
    assert source.opened == 2


class Opened:
    """An iterable that counts how often it is opened."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.opened = 0

    def __iter__(self) -> Iterator[int]:
        self.opened += 1
        yield from range(self.length)


def at_work(x: int) -> tuple[int, WorkerInfo | None]:
    return x, get_worker_info()


@pytest.mark.parametrize("make", [threads, processes])
def test_inside_a_lane_the_worker_is_the_lane(make: Any) -> None:
    pipe = numbers(9).sharding_filter().map(at_work).lanes(3)
    assert epochs(pipe, make(2), count=1) == [[(x, WorkerInfo(3, x % 3)) for x in range(9)]]


def marked(pipe: Pipe, info: WorkerInfo) -> Pipe:
    return pipe.map(partial(with_mark, (info.num_workers, info.worker_id)))


def marked_anew(pipe: Pipe, info: WorkerInfo, seeds: Any) -> Pipe:
    return pipe.map(partial(with_mark, (info.worker_id, seeds.generate_shared_seed(), seeds.generate_seed())))


def with_mark(mark: object, x: object) -> tuple[object, object]:
    return mark, x


def test_functions_of_the_service_are_called_for_each_lane() -> None:
    pipe = numbers(12).sharding_filter().lanes(4)
    found = [
        epochs(pipe, make(workers, worker_init_fn=marked, worker_reset_fn=marked_anew))
        for make, workers in ((threads, 1), (threads, 3), (threads, 4), (processes, 2))
    ]
    assert found[1:] == found[:-1]
    first, second = found[0]
    assert [x for _, x in first] == [((4, x % 4), x) for x in range(12)]
    assert [mark[0] for mark, _ in first] == [x % 4 for x in range(12)]
    assert [x for _, (_, x) in second] == [x for _, x in first]  # the function of the first epoch is kept


def test_more_workers_than_lanes_are_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"\.lanes\(2\) has fewer lanes than there are workers: 3 get none"):
        loader: DataLoader2[Any] = DataLoader2(graph(lanes=2), reading_service=threads(5))
    with loader:
        loader.seed(1)
        assert [list(loader), list(loader)] == epochs(graph(lanes=2))


def test_the_number_of_workers_changes_between_epochs() -> None:
    with DataLoader2(graph(), reading_service=threads(2)) as loader:
        loader.seed(1)
        found = []
        for workers in (2, 3, 1, 5):
            loader.reading_service.resize(workers)  # type: ignore[union-attr]  # it has one
            found.append(list(loader))
    assert found == epochs(graph(), count=4)


def test_out_of_order_gives_the_same_elements() -> None:
    whole = epochs(graph(300))
    for workers in (1, 2, 4):
        assert [sorted(epoch) for epoch in epochs(graph(300), threads(workers, in_order=False))] == [
            sorted(epoch) for epoch in whole
        ]
    with DataLoader2(graph(300), reading_service=threads(3, in_order=False)) as loader:
        loader.seed(1)
        begun = list(islice(loader, 50))
        state = loader.state_dict()
    with DataLoader2(graph(300)) as loader:
        loader.load_state_dict(state)
        assert sorted(begun + list(loader)) == sorted(whole[0])


DEATHS = {
    "shuffled": lambda n: graph(n),
    "uneven": lambda n: numbers(n).sharding_filter().flatmap(sometimes).batch(3).lanes(5),
    "a class that is replayed": lambda n: Doubled(numbers(n).shuffle().sharding_filter()).batch(3).lanes(5),
    "a buffer above": lambda n: numbers(n).flatmap(sometimes).shuffle(buffer_size=50).sharding_filter().lanes(5),
}


def sometimes(x: int) -> Iterator[int]:
    return up_to(x % 4)


@pytest.mark.parametrize("build", DEATHS.values(), ids=DEATHS)
@pytest.mark.filterwarnings("ignore:.*it is replaced:UserWarning")
def test_workers_that_die_are_replaced(build: Any) -> None:
    draws = random.Random(2)
    whole = epochs(build(4000), count=1)[0]
    service = MultiProcessingReadingService(3, "fork", timeout=HANGS, restart=60)
    kills = 0
    with DataLoader2(build(4000), reading_service=service) as loader:
        loader.seed(1)
        found = []
        for x in loader:
            found.append(x)
            if len(found) % (len(whole) // 12) == 0:
                kills += 1
                os.kill(draws.choice([child.pid for child in active_children() if child.pid]), signal.SIGKILL)
    assert found == whole
    assert kills >= 10


def fails_on(bad: frozenset[int], x: int) -> int:
    if x in bad:
        raise ValueError(x)
    return x


@pytest.mark.filterwarnings("ignore:.* goes on after:UserWarning")
def test_tolerated_errors_are_counted_over_loaders() -> None:
    tolerant = partial(fails_on, frozenset({3, 4, 11, 12, 19}))
    pipe = numbers(20).sharding_filter().map(tolerant, on_error="skip").lanes(4)
    for stop in (0, 1, 5, 9, 14):
        state = None
        for workers in (2, 0, 3):
            with DataLoader2(pipe, reading_service=threads(workers) if workers else None) as loader:
                if state is not None:
                    loader.load_state_dict(state)
                list(islice(loader, stop // 2))
                state = loader.state_dict()
        with DataLoader2(pipe, reading_service=threads(2)) as loader:
            assert state is not None
            loader.load_state_dict(state)
            list(loader)
            assert Counter(loader.errors).total() == 5, stop


def test_a_state_without_lanes_says_how_to_change_the_number_of_workers() -> None:
    pipe = numbers(9).sharding_filter()
    with DataLoader2(pipe, reading_service=threads(2)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    loader = DataLoader2(pipe, reading_service=threads(3))
    with loader, pytest.raises(StateError, match=r"saved with 2 workers.*\.lanes\(n\).* are for any number of workers"):
        loader.load_state_dict(state)


@pytest.mark.parametrize(("ranks", "workers"), [(2, 0), (2, 2), (3, 2)])
def test_ranks_give_the_stream_of_one(ranks: int, workers: int) -> None:
    """One element of each rank in turn, where all lanes have as many elements."""

    def run(rank: int) -> list[list[Any]]:
        services = [DistributedReadingService(HANGS), *(threads(workers) for _ in range(bool(workers)))]
        return epochs(graph(72), SequentialReadingService(*services))

    woven = [list(chain.from_iterable(zip(*parts, strict=True))) for parts in zip(*on_ranks(ranks, run), strict=True)]
    assert woven == epochs(graph(72))


def test_ranks_that_do_not_divide_the_lanes_are_refused() -> None:
    def run(rank: int) -> str:
        with pytest.raises(GraphError) as caught:
            epochs(graph(), DistributedReadingService(HANGS))
        return str(caught.value)

    assert set(on_ranks(4, run)) == {"lanes(6): 4 ranks do not divide it; 1, 2, 3 or 6 do"}


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_of_torch_give_the_stream_where_their_number_divides_the_lanes() -> None:
    def pipe() -> Pipe:
        return numbers(48).shuffle(buffer_size=9).set_seed(3).sharding_filter().batch(2).lanes(6)

    for workers in (0, 1, 2, 3):
        assert list(DataLoader(pipe(), batch_size=None, num_workers=workers)) == list(pipe())
