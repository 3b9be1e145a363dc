"""map computes its function at every access, and none of its errors is taken for the end."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.map import Mapper, SequenceWrapper
from tests.datapipes.iter.mishaps import failing_at, stopping_at


def test_a_function_of_each_element() -> None:
    dp = SequenceWrapper([1, None]).map(str)
    assert isinstance(dp, Mapper)
    assert (dp[0], dp[-1], list(dp), len(dp)) == ("1", "None", ["1", "None"], 2)
    assert list(SequenceWrapper([]).map(str)) == []


def test_any_key() -> None:
    assert SequenceWrapper({"x": 1}).map(lambda x: x + 1)["x"] == 2


def test_without_a_function_nothing_changes() -> None:
    assert list(SequenceWrapper("ab").map()) == ["a", "b"]


def test_every_access_computes_anew() -> None:
    calls: list[str] = []
    dp = SequenceWrapper("ab").map(calls.append)
    assert (dp[1], dp[1], calls) == (None, None, ["b", "b"])


def test_what_cannot_be_called_is_refused_with_the_call() -> None:
    number: Any = 3
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by map\(\), got int: 3"):
        SequenceWrapper("ab").map(number)


def test_errors_of_the_source_and_of_the_function_come_through() -> None:
    dp = SequenceWrapper(range(3)).map(failing_at(1))
    with pytest.raises(ValueError, match="1 is bad"):
        list(dp)
    assert dp[2] == 2
    with pytest.raises(IndexError):
        dp[3]


def test_a_stray_stop_is_no_end() -> None:
    dp = SequenceWrapper(range(3)).map(stopping_at(1))
    with pytest.raises(
        RuntimeError, match=r"a StopIteration escaped from checked at mishaps.py:\d+, in \.map.*\[1\]"
    ) as it:
        list(dp)
    assert isinstance(it.value.__cause__, StopIteration)
