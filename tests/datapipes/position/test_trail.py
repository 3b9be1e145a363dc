"""The trail, against a naive reference: read ahead at random, hand on, save in both ways, load, and go on."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes import iterate
from datapipes.errors import GraphError, StateError, UnsavableElement
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position import position_history
from datapipes.position.cells import Cell
from datapipes.position.position_history import (
    PositionHistory,
    SnapshotBudget,
    error_text,
    loaded_waiting,
    lost,
    saved_waiting,
)
from tests.datapipes.position.silent_at_times import SilentAtTimes

LENGTH = 60
STREAM: list[Any] = [ValueError(f"{i} is bad") if i % 9 in (0, 4, 5) else i for i in range(LENGTH)]


class Clock:
    """A clock that the test moves by fractions of a second that add up exactly."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Reader:
    """Reads ahead in the stream, from a position and a number of elements that were handed on since."""

    def __init__(self, clock: Clock, at: int | None = None, since: int = 0, waiting: list[Any] | None = None) -> None:
        self.clock = clock
        self.source = (at or 0) + since
        self.made = self.handed_on = since
        self.ahead: deque[Any] = deque(waiting or ())
        self.made += len(self.ahead)
        self.trail: PositionHistory[int] = PositionHistory()
        if at is not None:
            self.trail.mark(0, at, since)
        self.making, self.costs = 0.0, list[float]()

    def read(self, seconds: float, cost: float, savable: bool, must: bool, allowed: bool) -> None:
        """Take an element of the stream, and have the trail look as the rule says, if it is allowed to."""
        if self.source == LENGTH:
            return
        self.ahead.append(STREAM[self.source])
        self.source += 1
        self.made += 1
        self.making += seconds
        expected = min(self.costs[-2:], default=position_history._UNKNOWN)
        is_cheap = sum(self.costs) + expected <= position_history._SHARE * self.making
        looks = allowed and (must or is_cheap)

        def look() -> int:
            self.clock.now += cost
            self.costs.append(cost)
            if not savable:
                raise UnsavableElement("a stage above holds an element that cannot be saved")
            return self.source

        before = len(self.costs)
        known = self.trail.made(seconds, self.made, self.handed_on, look if allowed else None, must)
        assert (len(self.costs) > before, known) == (looks, looks and savable)
        if known:
            assert self.trail.after(self.made) == (self.source, 0)
            assert sum(upto <= self.handed_on for upto, _ in self.trail._marks) <= 2, "others are forgotten"

    def hand_on(self, number: int) -> list[str]:
        """Hand on elements, or as many as there are."""
        number = min(number, len(self.ahead))
        self.handed_on += number
        return [shown(self.ahead.popleft()) for _ in range(number)]

    def resumed(self) -> Reader:
        """Another one, from a position that was looked at."""
        return Reader(self.clock, *self.trail.after(self.handed_on))

    def resumed_with_what_waits(self) -> Reader:
        """Another one, from the position of now and what waits; it has no mark, since it began elsewhere."""
        saved = saved_waiting(CELL, [x if isinstance(x, Exception) else ["number", x] for x in self.ahead])
        assert (saved is None) == (not self.ahead)
        waiting = [x for _, x in loaded_waiting(CELL, saved, "number")]
        reader = Reader(self.clock, waiting=waiting)
        reader.source = self.source
        return reader

    def rest(self) -> list[str]:
        """All that is still to come."""
        return [*map(shown, self.ahead), *map(shown, STREAM[self.source :])]


CELL = Cell()
CELL.stage = IterableWrapper("ab")


def shown(each: Any) -> str:
    """An outcome; an error that was saved is another one than it was."""
    return "an error" if isinstance(each, Exception) else str(each)


TICKS = st.integers(1, 1 << 12).map(lambda ticks: ticks / (1 << 10))
COSTS = TICKS.map(lambda seconds: seconds / 32)
READ = st.tuples(st.integers(1, 6), TICKS, COSTS, st.sampled_from([True, True, False]), st.booleans())
STEPS = st.lists(READ | READ | st.integers(1, 6) | st.just("resume"), min_size=5, max_size=20)


@given(STEPS, st.booleans())
def test_reading_ahead(steps: list[Any], allowed: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        clock = Clock()
        patched.setattr(position_history, "perf_counter", clock)
        reader, had = Reader(clock), list[str]()
        for step in steps:
            match step:
                case int():
                    had += reader.hand_on(step)
                case "resume":
                    reader = reader.resumed() if allowed else reader.resumed_with_what_waits()
                case (number, seconds, cost, savable, must):
                    for i in range(number):
                        reader.read(seconds, cost, savable, must and i == 0, allowed)
            position, since = reader.trail.after(reader.handed_on)
            assert reader.trail.just_after(reader.handed_on) == (None if since else position)
            for again in [reader, reader.resumed_with_what_waits(), *([reader.resumed()] if allowed else [])]:
                assert had + again.rest() == list(map(shown, STREAM))


def test_the_first_look_is_not_free_and_what_it_costs_is_waited_for() -> None:
    looked: list[int] = []

    def looks(upto: int, seconds: float) -> bool:
        before = len(looked)
        where.made(seconds, upto, 0, lambda: looked.append(upto))
        return len(looked) > before

    where: PositionHistory[None] = PositionHistory()
    assert not looks(1, 0.0), "nothing was made that could pay for it"
    assert looks(2, 1.0)
    where.looking.took(0.2)  # to pack and send it
    where.looking.took(0.2)
    assert not looks(3, 10.0), "it would pay for the last ones, and not for another"
    assert looks(4, 2.0)


@pytest.mark.parametrize("error", [UnsavableElement("of a stage above"), LookupError("in a user's state_dict()")])
def test_a_look_that_fails_is_an_error_only_when_somebody_saves(error: Exception) -> None:
    def look() -> None:
        raise error

    where: PositionHistory[None] = PositionHistory()
    assert not where.made(1.0, 1, 0, look, must=True)
    assert where.after(1) == (None, 1)
    assert where.refusal == error_text(error)
    assert where.made(1.0, 1, 0, lambda: None, must=True)
    assert where.refusal is None


@pytest.mark.parametrize(
    "graph", [SilentAtTimes(12).prefetch(2), SilentAtTimes(12).threadpool_map(str, scheduled_tasks=2).map(int)]
)
def test_a_class_that_does_not_say_where_it_is_keeps_nobody_from_going_on(
    graph: IterDataPipe[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: True)
    whole, refused = list(range(1, 13)), 0
    for k in range(len(whole)):
        iterator = iterate(graph)
        assert list(islice(iterator, k)) == whole[:k]
        try:
            again = iterate(graph)
            again.load_state_dict(iterator.state_dict())
            assert list(again) == whole[k:]
        except LookupError:
            refused += 1
        assert list(iterator) == whole[k:]
    assert refused < len(whole)


def test_what_waits_is_checked_when_it_is_loaded() -> None:
    saved = saved_waiting(CELL, [["result", 5], ["lost", "OSError: gone"], OSError("x" * 900)])
    (result, five), *errors = loaded_waiting(CELL, saved, "element", "result")
    assert (result, five) == ("result", 5)
    for (kind, error), text in zip(errors, ("OSError: gone", "OSError: xxx"), strict=True):
        assert (kind, type(error)) == ("lost", GraphError)
        assert f"IterableWrapper('ab') met an error before its position was saved: {text}" in str(error)
    for other in (saved, CELL.encode([5]), CELL.encode([["lost", 5]]), b"x", 5):
        with pytest.raises(StateError):
            list(loaded_waiting(CELL, other, "element"))


def test_an_error_that_is_saved_twice_is_told_as_it_was() -> None:
    again = lost(CELL, error_text(ValueError("no row 3")))
    assert error_text(lost(CELL, error_text(again))) == error_text(again) == "ValueError: no row 3"
