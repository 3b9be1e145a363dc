"""Position of a threadpool_map: what is ahead is made again, or saved, and nothing is done twice to one element."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from datapipes.errors import StateError, UnsavableElement
from datapipes.iter import IterableWrapper
from datapipes.operator_support import task_queue
from datapipes.position import position_history
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import failing_at, outcomes

BOUND = 300  # seconds, for what takes none


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


def test_errors_left_out_are_counted_in_a_position() -> None:
    def build() -> Any:
        return numbers(9).threadpool_map(failing_at(1, 2, 6), scheduled_tasks=3, on_error="skip")

    it: Any = iter(build())
    with pytest.warns(UserWarning, match="goes on after"):
        assert [next(it), next(it)] == [0, 3]
    again: Any = iter(build())
    again.load_state_dict(it.state_dict())
    with pytest.warns(UserWarning, match="goes on after"):
        assert list(again) == [4, 5, 7, 8]
    assert list(again.errors.values()) == [3]


def test_saving_waits_for_nobody_where_looking_at_positions_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_history, "perf_counter", lambda: 0.0)  # looking takes no time, and
    monkeypatch.setattr(task_queue, "perf_counter", count().__next__)  # a second passes from one element to the next
    go = threading.Event()

    def wait(x: int) -> int:
        if x > 1:
            assert go.wait(BOUND)
        return 10 * x

    def build() -> Any:
        return numbers(8).shuffle(buffer_size=1).threadpool_map(wait, scheduled_tasks=4, max_workers=2)

    it: Any = iter(build())
    assert [next(it), next(it)] == [0, 10]
    state = it.state_dict()
    assert state["cells"][2]["ahead"] is None
    go.set()
    again: Any = iter(build())
    again.load_state_dict(state)
    assert list(it) == list(again) == [20, 30, 40, 50, 60, 70]


def forked(fn: Callable[[Any], Any]) -> Any:
    """If a sibling reads the stages above as well, no cell may carry a table: the elements ahead are saved."""
    rows, others = IterableWrapper([{"x": x} for x in range(6)]).fork(2, copy="deep")
    return rows.threadpool_map(fn, scheduled_tasks=3, max_workers=2).zip(others)


def test_no_call_is_made_twice_on_one_element() -> None:
    def change(row: dict[str, int]) -> dict[str, int]:
        row["x"] += 100
        return row

    whole = list(forked(change))
    assert [row["x"] for row, _ in whole] == [100, 101, 102, 103, 104, 105]
    for given in range(6):
        it: Any = iter(forked(change))
        assert [next(it) for _ in range(given)] == whole[:given]
        state = it.state_dict()
        again: Any = iter(forked(change))
        again.load_state_dict(state)
        assert list(again) == whole[given:]
        assert list(it) == whole[given:], "saving has changed what follows"


def test_saving_what_is_ahead_takes_back_the_calls_that_have_not_begun() -> None:
    go = threading.Event()
    running = threading.Semaphore(0)

    def wait(row: dict[str, int]) -> int:
        if row["x"] > 0:
            running.release()
            assert go.wait(BOUND)
        return row["x"]

    it: Any = iter(forked(wait))
    assert next(it)[0] == 0
    for _ in range(2):
        assert running.acquire(timeout=BOUND)
    timer = threading.Timer(0.05, go.set)
    timer.start()
    state = it.state_dict()
    timer.join()
    again: Any = iter(forked(wait))
    again.load_state_dict(state)
    assert [x for x, _ in again] == [x for x, _ in it] == [1, 2, 3, 4, 5]


def test_a_result_that_cannot_be_saved_is_an_error_when_it_is_saved() -> None:
    it: Any = iter(forked(lambda row: threading.Lock()))
    next(it)
    with pytest.raises(UnsavableElement, match=r"buffered by \.threadpool_map"):
        it.state_dict()
    assert len(list(it)) == 5


@pytest.mark.parametrize(
    "change",
    [{"given": -1}, {"ahead": 5}, {"ahead": b"x"}, {"errors": [0, 0]}, {"nonsense": None}],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    dp = numbers(5).threadpool_map(str)
    it: Any = iter(dp)
    next(it)
    state = it.state_dict()
    state["cells"][1].update(change)
    again: Any = iter(dp)
    with pytest.raises(StateError, match=r"\.threadpool_map\(str\)"):
        again.load_state_dict(sealed(state))


@pytest.mark.parametrize("runs_ahead", ["threadpool_map", "prefetch"])
def test_an_error_of_the_source_is_saved_in_its_place(runs_ahead: str) -> None:
    def build() -> Any:
        first, second = numbers(12).fork(2)  # no snapshot is taken of shared stages
        if runs_ahead == "prefetch":
            ahead: Any = second.map(failing_at(4, 7)).prefetch(6)
        else:
            ahead = second.map(failing_at(4, 7)).threadpool_map(failing_at(2, 3), scheduled_tasks=6)
        return first.map(failing_at(0, 1)).zip(ahead)

    def kinds(stream: Any, most: int = 100) -> list[Any]:
        return ["an error" if isinstance(each, str) else each for each in outcomes(stream, most)]

    whole = kinds(build())
    assert whole.count("an error") >= 4
    for given in range(len(whole)):
        it: Any = iter(build())
        assert kinds(it, given) == whole[:given]
        again: Any = iter(build())
        again.load_state_dict(it.state_dict())
        assert kinds(again) == whole[given:]
        assert kinds(it) == whole[given:]
