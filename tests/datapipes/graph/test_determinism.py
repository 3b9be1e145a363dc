"""The determinism guard: what it refuses, and for how long."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from datapipes import guaranteed_datapipes_determinism, non_deterministic
from datapipes.iter import IterDataPipe


@non_deterministic
class Arrivals(IterDataPipe[int]):
    """A pipe whose order always varies."""

    def __iter__(self) -> Iterator[int]:
        yield 1


@non_deterministic(lambda workers: workers > 1)
class Gathered(IterDataPipe[int]):
    """A pipe whose order varies with more than one worker."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __iter__(self) -> Iterator[int]:
        yield self.workers


def test_marked_pipes_work_without_the_guard() -> None:
    assert list(Arrivals()) == [1]
    assert list(pickle.loads(pickle.dumps(Gathered(3)))) == [3]


def test_guard_refuses_them_within_its_block_only() -> None:
    with guaranteed_datapipes_determinism():
        with pytest.raises(TypeError, match="Arrivals is non-deterministic"):
            Arrivals()
        with pytest.raises(TypeError, match="Gathered is non-deterministic"):
            Gathered(2)
        assert list(Gathered(1)) == [1]
        with guaranteed_datapipes_determinism():
            pass
        with pytest.raises(TypeError, match="non-deterministic"):
            Arrivals()
    Arrivals()


def test_wrong_use_is_refused() -> None:
    with pytest.raises(TypeError, match="only an IterDataPipe"):
        non_deterministic(int)  # type: ignore[type-var]  # the mistake under test
    with pytest.raises(TypeError, match="takes a class"):
        non_deterministic(3)  # type: ignore[call-overload]  # the mistake under test

    @non_deterministic(lambda: 1)  # type: ignore[arg-type, return-value]  # the mistake under test
    class Odd(IterDataPipe[int]):
        def __iter__(self) -> Iterator[int]:
            yield 1

    with guaranteed_datapipes_determinism(), pytest.raises(TypeError, match="must return a bool"):
        Odd()
