"""The end of a worker that its host reports once, beside frames of another worker: the pool keeps it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import ClassVar

import pytest

from datapipes.iter import IterableWrapper
from datapipes.position.seeds import Run
from reading_services.workers.pool import Number, PolledHost, Pool
from reading_services.workers.restarts import error_of
from reading_services.workers.transport.protocol import (
    EndReason,
    Items,
    OpenStream,
    ToConsumer,
    ToProducer,
    Window,
    WorkerEnd,
)
from reading_services.workers.worker import Order, PoolSpec

WORKERS = 3
ORDERS = [Order(Run(0)) for _ in range(WORKERS)]


class ToldOnce(PolledHost):
    """Workers of which a test says what comes from them."""

    members: ClassVar[str] = "workers of a test"

    def __init__(self) -> None:
        super().__init__()
        self.comes: deque[list[tuple[Number, ToConsumer]]] = deque()
        self.begun: list[int] = []
        self.openings: dict[int, int] = {}

    def ends(self, *numbers: int) -> list[tuple[Number, ToConsumer]]:
        return [(number, WorkerEnd(number, f"worker {number}", "left with exit code 7")) for number in numbers]

    def gives(self, number: int) -> list[tuple[Number, ToConsumer]]:
        return [(number, Items(self.openings[number], 1, 1, None))]

    def start(self, numbers: Collection[int]) -> None:
        self.begun += numbers

    def send(self, number: int, frame: ToProducer) -> None:
        if isinstance(frame, OpenStream):
            self.openings[number] = frame.opening

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer]] | None:
        assert self.comes or seconds is not None, "nothing will come any more"
        return self.comes.popleft() if self.comes else None

    def give_up_dispatcher(self) -> list[tuple[Number, ToConsumer]]:
        raise AssertionError

    def stacks_of(self, number: int) -> str:
        raise AssertionError

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        pass


@pytest.fixture
def place() -> ToldOnce:
    return ToldOnce()


@pytest.fixture
def pool(place: ToldOnce) -> Pool:
    made = Pool(PoolSpec(IterableWrapper([]), WORKERS, Window(items=1)), place)
    made.open(ORDERS)
    return made


def sender(pool: Pool, *asked: int) -> int:
    """Return the worker of the next frame, which is no end."""
    came = pool.next_frame(asked)
    assert not isinstance(came, WorkerEnd)
    return came[0]


def ended(pool: Pool, *asked: int) -> WorkerEnd:
    """Return the next frame, which is an end."""
    came = pool.next_frame(asked)
    assert isinstance(came, WorkerEnd)
    return came


def test_an_end_that_comes_with_an_element_of_another(pool: Pool, place: ToldOnce) -> None:
    place.comes.append([*place.gives(0), *place.ends(1)])
    assert sender(pool, 0) == 0
    assert str(error_of(ended(pool, 1))).startswith("worker 1 left with exit code 7, before its first element")


def test_frames_before_an_end_are_handed_on_first(pool: Pool, place: ToldOnce) -> None:
    place.comes.append([*place.gives(0), *place.gives(1), *place.ends(1)])
    assert [sender(pool, number) for number in (0, 1)] == [0, 1]
    assert (end := ended(pool, 2)).number == 1
    assert "in the middle of its work" in str(error_of(end))


def test_two_ends_at_once_are_handed_on_one_after_the_other(pool: Pool, place: ToldOnce) -> None:
    place.comes.append(place.ends(1, 2))
    assert ended(pool, 1).number == 1
    pool.open([None, ORDERS[1], None])
    assert ended(pool, 1).number == 2
    pool.open([None, ORDERS[1], ORDERS[2]])
    place.comes.append(place.gives(1))
    assert sender(pool, 1) == 1
    assert place.begun == [0, 1, 2, 1, 2]


def test_an_end_is_forgotten_with_its_opening(pool: Pool, place: ToldOnce) -> None:
    place.comes.append([*place.gives(0), *place.ends(1)])
    pool.next_frame([0])
    pool.stop()
    pool.open(ORDERS)
    place.comes.append(place.gives(1))
    assert sender(pool, 1) == 1


def test_a_worker_that_could_not_start_has_one_end(pool: Pool, place: ToldOnce) -> None:
    """The worker reports why it could not start, and its host reports that it has left."""
    refused = WorkerEnd(1, "worker 1", "has other files", EndReason.REFUSED)
    place.comes += [[(1, refused)], place.ends(1)]
    assert ended(pool, 1).reason is EndReason.REFUSED
    place.comes.append(place.gives(0))
    assert sender(pool, 0) == 0
    pool.open(ORDERS)
    assert place.begun == [0, 1, 2, 1]


def test_a_place_that_was_closed_may_be_woken(place: ToldOnce) -> None:
    place.close()
    place.wake()
    place.was_woken()
