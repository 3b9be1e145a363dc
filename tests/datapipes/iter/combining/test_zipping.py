"""zip and zip_longest keep their inputs in step: a row of which an element fails is given up as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper, Zipper, ZipperLongest
from datapipes.map import SequenceWrapper
from tests.datapipes.iter.mishaps import failing_at, outcomes

BAD = "ValueError: {} is bad"


def numbers(count: int, *bad: int) -> Any:
    return IterableWrapper(range(count)).map(failing_at(*bad)) if bad else IterableWrapper(range(count))


def test_zip_ends_with_the_shortest() -> None:
    dp = numbers(3).zip(IterableWrapper("abcd"), IterableWrapper([None] * 9))
    assert isinstance(dp, Zipper)
    assert list(dp) == list(dp) == [(0, "a", None), (1, "b", None), (2, "c", None)]
    assert len(dp) == 3
    assert list(numbers(0).zip(numbers(3))) == list(numbers(3).zip(numbers(0))) == []
    assert list(numbers(2).zip()) == [(0,), (1,)]


def test_zip_longest_fills_up() -> None:
    dp = numbers(1).zip_longest(IterableWrapper("ab"), numbers(0))
    assert isinstance(dp, ZipperLongest)
    assert list(dp) == list(dp) == [(0, "a", None), (None, "b", None)]
    assert len(dp) == 2
    assert list(numbers(2).zip_longest(numbers(1), fill_value=-1)) == [(0, 0), (1, -1)]
    assert list(numbers(0).zip_longest(numbers(0))) == []


def test_a_pipe_zipped_with_itself_is_read_twice() -> None:
    source = IterableWrapper(range(2))
    assert list(source.zip(source)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("method", ["zip", "zip_longest"])
def test_refused_inputs(method: str) -> None:
    with pytest.raises(BadArgumentType, match=rf"to be an `IterDataPipe`, got int: 5, in \.{method}\(5\)"):
        getattr(numbers(1), method)(5)
    with pytest.raises(BadArgumentType, match=r"got SequenceWrapper.*; a map-style pipe becomes one by \.to_iter_data"):
        getattr(numbers(1), method)(SequenceWrapper([1]))


@pytest.mark.parametrize("kind", [Zipper, ZipperLongest])
def test_no_input_is_refused(kind: Any) -> None:
    with pytest.raises(BadArgument, match="Expected at least one DataPipe"):
        kind()


@pytest.mark.parametrize("method", ["zip", "zip_longest"])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("bad", [0, 2, 4])
def test_an_input_that_raises_costs_one_row(method: str, which: int, bad: int) -> None:
    inputs = [numbers(5, bad) if i == which else numbers(5) for i in range(3)]
    found = outcomes(getattr(inputs[0], method)(*inputs[1:]))
    assert found == [BAD.format(bad) if i == bad else (i, i, i) for i in range(5)]


def test_inputs_that_raise_in_one_row_are_all_heard() -> None:
    assert outcomes(numbers(4, 1).zip(numbers(4, 1), numbers(4, 1))) == [(0, 0, 0), *[BAD.format(1)] * 3, *rows(2, 3)]
    assert outcomes(numbers(4, 1).zip(numbers(4), numbers(4, 1))) == [(0, 0, 0), *[BAD.format(1)] * 2, *rows(2, 3)]


def rows(*elements: int) -> list[tuple[int, ...]]:
    return [(x, x, x) for x in elements]


def test_inputs_that_have_ended_do_not_count_as_those_that_raised() -> None:
    bad = BAD.format(3)
    first = numbers(5).zip_longest(numbers(1), numbers(5, 3), numbers(5))
    assert outcomes(first)[2:] == [(2, None, 2, 2), bad, (4, None, 4, 4)]
    second = numbers(1).zip_longest(numbers(5, 3), numbers(5))
    assert outcomes(second)[2:] == [(None, 2, 2), bad, (None, 4, 4)]
    third = numbers(3).zip_longest(numbers(5, 3), numbers(5))  # ends in the very row that is given up
    assert outcomes(third)[2:] == [(2, 2, 2), bad, (None, 4, 4)]


def test_an_error_below_costs_nothing_but_its_row() -> None:
    assert outcomes(numbers(3).zip(numbers(3)).map(failing_at((1, 1)))) == [(0, 0), "ValueError: (1, 1) is bad", (2, 2)]


def test_a_row_given_up_is_remembered_by_a_state() -> None:
    dp = numbers(4, 1).zip(numbers(4), numbers(4))
    it: Any = iter(dp)
    assert next(it) == (0, 0, 0)
    with pytest.raises(ValueError, match="1 is bad"):
        next(it)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert list(again) == list(it) == rows(2, 3)
