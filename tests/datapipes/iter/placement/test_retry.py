"""retry goes on exactly where the source failed: no element is lost, given twice, or in another order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes import iterate
from datapipes.errors import BadArgument, BadArgumentType, GraphError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.position_history import SnapshotBudget
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.datapipes.iter.mishaps import outcomes
from tests.specimens.specimen import numbers, unseekable

pytestmark = pytest.mark.filterwarnings("ignore:.* goes on after")


class Flaky:
    """The identity, which fails on some elements a number of times."""

    def __init__(self, failures: dict[int, int], error: type[Exception] = OSError) -> None:
        self.failures = failures
        self.left = dict(failures)
        self.error = error
        self.calls: list[int] = []

    def __call__(self, x: int) -> int:
        self.calls.append(x)
        if self.left.get(x, 0):
            self.left[x] -= 1
            raise self.error(f"{x} failed")
        return x


def stateful(source: Pipe, flaky: Flaky) -> Pipe:
    """Stages with positions above and below the one that fails."""
    return source.shuffle(buffer_size=3).set_seed(1).map(flaky).batch(2).unbatch().sliding_window(2, step=2)


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 4), max_size=5), st.integers(0, 5), st.booleans())
def test_it_is_the_source_without_those_that_fail_too_often(
    failures: dict[int, int], taken: int, seekable: bool
) -> None:
    source = numbers(10) if seekable else unseekable(10)
    lost = {x: 1 for x, times in failures.items() if times > 2}
    without = outcomes(source.map(Flaky(lost)))
    pipe = source.map(Flaky(failures)).retry(2, backoff=0)
    found = outcomes(pipe)
    seen = [x for x in found if isinstance(x, int)]
    assert seen == [x for x in without if isinstance(x, int)]
    assert [x for x in found if x not in seen] == [x for x in without if x not in seen]
    expected = list(stateful(source, Flaky({})))
    healed = {x: min(times, 2) for x, times in failures.items()}
    iterator = iterate(stateful(source, Flaky(healed)).retry(20, backoff=0))
    behind = list(islice(iterator, taken))
    again = iterate(stateful(source, Flaky(healed)).retry(20, backoff=0))
    again.load_state_dict(iterator.state_dict())
    assert behind + list(again) == behind + list(iterator) == expected


def test_errors_are_counted_and_told() -> None:
    flaky = Flaky({1: 2, 3: 1})
    iterator = iterate(numbers(5).map(flaky).retry(2, backoff=0))
    with pytest.warns(UserWarning, match=r"\.retry\(retries=2, backoff=0\) goes on after OSError: 1 failed"):
        assert list(iterator) == [0, 1, 2, 3, 4]
    assert list(iterator.errors.values()) == [3]


def test_only_the_errors_that_were_named() -> None:
    pipe = numbers(4).map(Flaky({1: 1, 2: 9}, ValueError)).retry(3, backoff=0)
    assert outcomes(pipe) == [0, "ValueError: 1 failed", "ValueError: 2 failed", 3]
    pipe = numbers(4).map(Flaky({1: 1, 2: 9}, ValueError)).retry(3, on=(KeyError, ValueError), backoff=0)
    assert outcomes(pipe) == [0, 1, "ValueError: 2 failed", 3]


def test_a_generator_that_broke_is_made_anew() -> None:
    left = [OSError("gone")]

    def lines(file: str) -> Any:
        yield f"{file} 1"
        if file == "b" and left:
            raise left.pop()
        yield f"{file} 2"

    assert list(IterableWrapper("abc").flatmap(lines).retry(backoff=0)) == ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"]


class Epochs(IterDataPipe[tuple[int, int]]):
    """A user's class that counts its epochs on ``self``."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe
        self.epoch = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.epoch += 1
        for x in self.source_datapipe:
            yield self.epoch, x


@pytest.mark.parametrize("laps", [1, 2])
@pytest.mark.parametrize("bad", [0, 2])
def test_each_attempt_of_a_users_class_is_in_the_same_epoch(bad: int, laps: int) -> None:
    flaky = Flaky({})

    def check(element: tuple[int, int]) -> tuple[int, int]:
        flaky(element[1])
        return element

    pipe: Any = Epochs(numbers(3)).map(check).cycle(laps).retry(backoff=0)
    for epoch in range(3):
        flaky.left = {bad: 2}
        assert list(pipe) == [(epoch + 1, x) for _ in range(laps) for x in range(3)]
        assert flaky.left == {bad: 0}
    pipe.source_datapipe.source_datapipe.datapipe.epoch = 7  # its user sets it
    assert next(iter(pipe)) == (8, 0)


def test_ctrl_c_is_not_tried_again_and_costs_no_element() -> None:
    interrupts = [KeyboardInterrupt()]
    flaky = Flaky({3: 1})

    def interrupted(x: int) -> int:
        if x == 1 and interrupts:
            raise interrupts.pop()
        return flaky(x)

    iterator = iterate(numbers(5).map(interrupted).retry(backoff=0))
    assert next(iterator) == 0
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert list(iterator) == [1, 2, 3, 4]


class Secretive(IterDataPipe[int]):
    """A user's class that cannot say where it is."""

    def __iter__(self) -> Iterator[int]:
        yield from range(3)

    def state_dict(self) -> dict[str, Any]:
        raise ValueError("no position")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing was saved."""


def test_a_position_that_cannot_be_told_is_an_error_only_when_it_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: True)
    iterator = iterate(Secretive().map(Flaky({2: 1})).retry(backoff=0))
    assert list(islice(iterator, 2)) == [0, 1]
    with pytest.raises(ValueError, match="no position"):
        iterator.state_dict()
    assert list(iterator) == [2]


def test_pauses_grow() -> None:
    pipe: Any = numbers(1).retry(9, backoff=2)
    assert [pipe._pause(attempt) for attempt in (1, 2, 3, 5, 6, 9)] == [2, 4, 8, 32, 60, 60]
    asked: list[int] = []

    def at_once(attempt: int) -> float:
        asked.append(attempt)
        return 0

    assert list(numbers(2).map(Flaky({1: 2})).retry(2, backoff=at_once)) == [0, 1]
    assert asked == [1, 2]


def test_what_is_refused() -> None:
    wrong: Any = ["OSError", (OSError, 5), KeyboardInterrupt]
    for on in wrong:
        with pytest.raises(BadArgumentType, match="on must be an exception class, or a tuple of them"):
            numbers(1).retry(on=on)
    with pytest.raises(BadArgument, match="retries must be at least 1"):
        numbers(1).retry(0)
    with pytest.raises(BadArgument, match="backoff must be in seconds, got -1"):
        numbers(1).retry(backoff=-1)
    left, right = numbers(3).fork(2)
    with pytest.raises(GraphError, match=r"put retry\(\) above the fork"):
        list(left.retry().zip(right))


def read(number: int) -> int:
    return FLAKY(number)


FLAKY = Flaky({7: 1, 30: 1, 31: 1})


def test_workers_try_again() -> None:
    graph = unseekable(40).sharding_filter().map(read).retry(2, backoff=0).batch(3)
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(num_workers=2)) as loader:
        assert sorted(x for batch in loader for x in batch) == list(range(40))
