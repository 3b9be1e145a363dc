"""enumerate, header and repeat count what they hand on; an element that failed is not counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datapipes.errors import BadArgument
from datapipes.iter import Enumerator, Header, IterableWrapper, Repeater
from tests.datapipes.iter.mishaps import failing_at, outcomes


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


class Pulls:
    """Counts how many elements were taken from it."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Iterator[int]:
        for i in range(100):
            self.count += 1
            yield i


def test_enumerate() -> None:
    dp = IterableWrapper(["a", None]).enumerate()
    assert isinstance(dp, Enumerator)
    assert list(dp) == list(dp) == [(0, "a"), (1, None)]
    assert len(dp) == 2
    assert list(IterableWrapper("ab").enumerate(starting_index=7)) == [(7, "a"), (8, "b")]
    assert list(IterableWrapper("ab").enumerate(-1)) == [(-1, "a"), (0, "b")]
    assert list(numbers(0).enumerate()) == []


def test_enumerate_leaves_no_gap_for_an_element_that_failed() -> None:
    assert outcomes(numbers(4).map(failing_at(1)).enumerate(5)) == [(5, 0), "ValueError: 1 is bad", (6, 2), (7, 3)]
    dp = numbers(4).enumerate().map(failing_at((1, 1)))
    assert outcomes(dp) == [(0, 0), "ValueError: (1, 1) is bad", (2, 2), (3, 3)]


@pytest.mark.parametrize(("limit", "there"), [(0, 0), (-1, 0), (2, 2), (5, 5), (9, 5), (None, 5)])
def test_header(limit: int | None, there: int) -> None:
    dp = numbers(5).header(limit)
    assert isinstance(dp, Header)
    assert list(dp) == list(dp) == list(range(there))
    assert len(dp) == there


def test_header_is_ten_by_default() -> None:
    assert list(numbers(20).header()) == list(range(10))
    assert list(IterableWrapper([None] * 20).header()) == [None] * 10


def test_header_takes_no_more_than_it_gives() -> None:
    pulls = Pulls()
    source = IterableWrapper(pulls, deepcopy=False)
    assert list(iter(source.header(3))) == [0, 1, 2]
    assert pulls.count == 3
    assert list(iter(source.header(0))) == []
    assert pulls.count == 3


def test_header_does_not_count_an_element_that_failed() -> None:
    assert outcomes(numbers(9).map(failing_at(1)).header(3)) == [0, "ValueError: 1 is bad", 2, 3]
    assert outcomes(numbers(9).header(3).map(failing_at(1))) == [0, "ValueError: 1 is bad", 2]


def test_header_length_of_an_unsized_source() -> None:
    unsized = numbers(2).filter(lambda x: True)
    with pytest.warns(UserWarning, match=r"length of \.header\(limit=5\) is inferred to be equal to its limit"):
        assert len(unsized.header(5)) == 5
    with pytest.raises(TypeError, match=r"The length of \.header\(limit=None\) cannot be determined"):
        len(unsized.header(None))
    assert list(unsized.header(None)) == [0, 1]


def test_repeat() -> None:
    dp = IterableWrapper(["a", None]).repeat(2)
    assert isinstance(dp, Repeater)
    assert list(dp) == list(dp) == ["a", "a", None, None]
    assert len(dp) == 4
    assert list(numbers(0).repeat(3)) == []


def test_repeat_gives_one_object_several_times() -> None:
    first, second = IterableWrapper([[1]]).repeat(2)
    assert first is second


@pytest.mark.parametrize("times", [1, 0, -2])
def test_repeat_refuses_less_than_two_times_with_the_call(times: int) -> None:
    with pytest.raises(BadArgument, match=rf"must be > 1, got {times}, in \.repeat\({times}\)"):
        numbers(1).repeat(times)
