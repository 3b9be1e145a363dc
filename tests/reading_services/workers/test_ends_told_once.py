"""A worker's end that its host reports once, beside another event: a call that needs that worker gets it later."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import ClassVar

import pytest

from datapipes.errors import WorkerDied
from datapipes.iter import IterableWrapper
from datapipes.position.seeds import Run
from reading_services.workers.pool import Number, PolledHost, Pool
from reading_services.workers.restarts import WorkerEnd
from reading_services.workers.transport.protocol import Items, OpenStream, ToConsumer, ToProducer, Window
from reading_services.workers.worker import Order, PoolSpec

WORKERS = 3
ORDERS = [Order(Run(0)) for _ in range(WORKERS)]


class ToldOnce(PolledHost):
    """Workers of which a test says what comes from them."""

    members: ClassVar[str] = "workers of a test"

    def __init__(self) -> None:
        super().__init__()
        self.comes: deque[list[tuple[Number, ToConsumer | None]]] = deque()
        self.gone: set[Number] = set()
        self.begun: list[int] = []
        self.openings: dict[int, int] = {}

    def ends(self, *numbers: int) -> list[tuple[Number, ToConsumer | None]]:
        self.gone |= set(numbers)
        return [(number, None) for number in numbers]

    def gives(self, number: int) -> list[tuple[Number, ToConsumer | None]]:
        return [(number, Items(self.openings[number], 1, 1, None))]

    def start(self, numbers: Collection[int]) -> None:
        self.begun += numbers

    def send(self, number: int, frame: ToProducer) -> None:
        if isinstance(frame, OpenStream):
            self.openings[number] = frame.opening

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer | None]] | None:
        assert self.comes or seconds is not None, "nothing will come any more"
        return self.comes.popleft() if self.comes else None

    def ended(self) -> set[Number]:
        return set(self.gone)

    def failure_at_start(self, number: int) -> BaseException | None:
        return None

    def end_of(self, number: Number) -> WorkerEnd | WorkerDied:
        return WorkerEnd(number, f"worker {number}", "left with exit code 7")

    def stacks_of(self, number: int) -> str:
        raise AssertionError

    def forget(self, numbers: Collection[int]) -> None:
        self.gone -= set(numbers)

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        self.gone = set()


@pytest.fixture
def place() -> ToldOnce:
    return ToldOnce()


@pytest.fixture
def pool(place: ToldOnce) -> Pool:
    made = Pool(PoolSpec(IterableWrapper([]), WORKERS, Window(items=1)), place)
    made.open(ORDERS)
    return made


def test_an_end_that_comes_with_an_element_of_another(pool: Pool, place: ToldOnce) -> None:
    place.comes.append([*place.gives(0), *place.ends(1)])
    assert pool.next_frame([0])[0] == 0
    with pytest.raises(WorkerDied, match="worker 1 left with exit code 7"):
        pool.next_frame([1])


def test_what_came_before_an_end_is_handed_on_first(pool: Pool, place: ToldOnce) -> None:
    place.comes += [[*place.gives(0), *place.ends(1)], place.gives(1)]
    assert [pool.next_frame([number])[0] for number in (0, 1)] == [0, 1]
    with pytest.raises(WorkerDied, match="worker 1"):
        pool.next_frame([2])


def test_two_ends_at_once_are_told_one_after_the_other(pool: Pool, place: ToldOnce) -> None:
    place.comes.append(place.ends(1, 2))
    with pytest.raises(WorkerDied, match="worker 1"):
        pool.next_frame([1])
    pool.open([None, ORDERS[1], None])
    with pytest.raises(WorkerDied, match="worker 2"):
        pool.next_frame([1])
    pool.open([None, ORDERS[1], ORDERS[2]])
    place.comes.append(place.gives(1))
    assert pool.next_frame([1])[0] == 1
    assert place.begun == [0, 1, 2, 1, 2]


def test_an_end_is_forgotten_with_its_opening(pool: Pool, place: ToldOnce) -> None:
    place.comes.append([*place.gives(0), *place.ends(1)])
    pool.next_frame([0])
    pool.stop()
    pool.open(ORDERS)
    place.comes.append(place.gives(1))
    assert pool.next_frame([1])[0] == 1


def test_a_place_that_was_closed_may_be_woken(place: ToldOnce) -> None:
    place.close()
    place.wake()
    place.was_woken()
