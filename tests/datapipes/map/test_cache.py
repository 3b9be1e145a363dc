"""in_memory_cache makes each element once, and remembers no failure."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.map import InMemoryCacheHolder, MapDataPipe, SequenceWrapper
from tests.datapipes.iter.mishaps import failing_at


def test_each_element_is_made_once() -> None:
    made: list[Any] = []

    def note(x: Any) -> list[Any]:
        made.append(x)
        return [x]

    dp: Any = SequenceWrapper(["a", None]).map(note).in_memory_cache()
    assert isinstance(dp, InMemoryCacheHolder)
    assert dp.cache == {}
    assert dp[1] is dp[1]
    assert list(dp) == list(dp) == [["a"], [None]]
    assert made == [None, "a"]
    assert dp.cache == {0: ["a"], 1: [None]}


def test_none_is_remembered_too() -> None:
    made: list[str] = []
    dp = SequenceWrapper("a").map(made.append).in_memory_cache()
    assert (dp[0], dp[0], made) == (None, None, ["a"])


def test_length() -> None:
    assert len(SequenceWrapper("ab").in_memory_cache()) == 2

    class Unsized(MapDataPipe[int]):
        def __getitem__(self, key: int) -> int:
            return key

    with pytest.raises(TypeError, match="valid length"):
        len(Unsized().in_memory_cache())


def test_a_failure_is_tried_again() -> None:
    bad = [1]
    dp = SequenceWrapper(range(3)).map(lambda x: failing_at(*bad)(x)).in_memory_cache()
    with pytest.raises(ValueError, match="1 is bad"):
        dp[1]
    bad.clear()
    assert dp[1] == 1
    with pytest.raises(IndexError):
        dp[3]


def test_any_key_that_can_be_hashed() -> None:
    assert SequenceWrapper({"x": 1}).in_memory_cache()["x"] == 1
    with pytest.raises(TypeError, match="unhashable"):
        SequenceWrapper([1]).in_memory_cache()[[0]]
