"""cycle goes over the whole stream again and again; each lap is an opening of its own."""

from __future__ import annotations

from itertools import islice

import pytest

from datapipes.errors import BadArgument, GraphError
from datapipes.iter import Cycler, IterableWrapper
from tests.datapipes.iter.mishaps import failing_at, outcomes

BAD = "ValueError: 1 is bad"


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_so_many_laps(count: int) -> None:
    dp = numbers(2).cycle(count)
    assert isinstance(dp, Cycler)
    assert list(dp) == list(dp) == [0, 1] * count
    assert len(dp) == 2 * count


def test_without_end() -> None:
    dp = IterableWrapper([None, 1]).cycle()
    assert list(islice(dp, 5)) == [None, 1, None, 1, None]
    with pytest.raises(TypeError, match=r"^\.cycle\(\) cycles forever"):
        len(dp)


@pytest.mark.parametrize("count", [None, 3])
def test_an_empty_source_ends_it(count: int | None) -> None:
    assert list(numbers(0).cycle(count)) == []
    assert list(numbers(3).filter(lambda x: False).cycle(count)) == []


def test_each_lap_is_shuffled_anew() -> None:
    elements = list(numbers(50).shuffle().set_seed(1).cycle(2))
    first, second = elements[:50], elements[50:]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


def test_a_negative_count_is_refused_with_the_call() -> None:
    with pytest.raises(BadArgument, match=r"Expected non-negative count, got -1, in \.cycle\(count=-1\)"):
        numbers(1).cycle(-1)


def test_a_lap_in_which_all_elements_fail_is_not_empty() -> None:
    assert outcomes(IterableWrapper([1]).map(failing_at(1)).cycle(3)) == [BAD] * 3
    assert outcomes(IterableWrapper([1]).map(failing_at(1)).cycle(), most=5) == [BAD] * 5


def test_one_child_of_a_fork_cannot_go_back_alone() -> None:
    a, b = numbers(2).fork(2)
    with pytest.raises(GraphError, match=r"put cycle\(\) above the fork"):
        list(a.cycle(2).zip(b))
    a, b = numbers(2).cycle(2).fork(2)
    assert list(a.zip(b)) == [(0, 0), (1, 1)] * 2
