"""concat gives one stream after another, whatever fails on the way."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import Concater, IterableWrapper
from datapipes.map import SequenceWrapper
from tests.datapipes.iter.mishaps import failing_at, outcomes


def numbers(start: int, stop: int) -> IterableWrapper[int]:
    return IterableWrapper(range(start, stop))


def test_one_after_another() -> None:
    dp = numbers(0, 2).concat(IterableWrapper([]), IterableWrapper([None, "a"]))
    assert isinstance(dp, Concater)
    assert list(dp) == list(dp) == [0, 1, None, "a"]
    assert len(dp) == 4


def test_a_pipe_behind_itself_is_read_twice() -> None:
    source = numbers(0, 2)
    assert list(source.concat(source)) == [0, 1, 0, 1]


def test_refused_inputs() -> None:
    number: Any = 5
    with pytest.raises(BadArgumentType, match=r"to be an `IterDataPipe`, got int: 5, in \.concat\(5\)"):
        numbers(0, 1).concat(number)
    mapped: Any = SequenceWrapper([1])
    with pytest.raises(BadArgumentType, match=r"a map-style pipe becomes one by \.to_iter_datapipe\(\)"):
        numbers(0, 1).concat(mapped)
    with pytest.raises(BadArgument, match="Expected at least one DataPipe"):
        Concater()


def test_an_error_costs_one_element() -> None:
    dp = numbers(0, 2).map(failing_at(1)).concat(numbers(2, 4).map(failing_at(2)))
    assert outcomes(dp) == [0, "ValueError: 1 is bad", "ValueError: 2 is bad", 3]
    assert outcomes(numbers(0, 2).concat(numbers(2, 4)).map(failing_at(1, 2))) == outcomes(dp)
