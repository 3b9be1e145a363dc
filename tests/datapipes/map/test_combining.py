"""concat, zip and unzip of collections find the right element under each key, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType, GraphError
from datapipes.iter import IterableWrapper
from datapipes.map import Concater, MapDataPipe, SequenceWrapper, Zipper


class Unsized(MapDataPipe[int]):
    def __getitem__(self, key: int) -> int:
        return key


def test_concat() -> None:
    dp = SequenceWrapper("ab").concat(SequenceWrapper([]), SequenceWrapper([None, 1, 2]))
    assert isinstance(dp, Concater)
    assert list(dp) == [dp[i] for i in range(5)] == ["a", "b", None, 1, 2]
    assert len(dp) == 5


def test_concat_counts_negative_keys_from_the_end_of_all() -> None:
    dp = SequenceWrapper("ab").concat(SequenceWrapper("cd"))
    assert [dp[i] for i in (-1, -2, -3, -4)] == ["d", "c", "b", "a"]


@pytest.mark.parametrize("key", [3, 99, -4])
def test_concat_past_the_end(key: int) -> None:
    dp = SequenceWrapper("ab").concat(SequenceWrapper("c"))
    with pytest.raises(IndexError, match=rf"Index {key} is out of range: there are 3 elements"):
        dp[key]


def test_zip() -> None:
    dp = SequenceWrapper("abc").zip(SequenceWrapper([1, None]))
    assert isinstance(dp, Zipper)
    assert list(dp) == [dp[0], dp[1]] == [("a", 1), ("b", None)]
    assert len(dp) == 2
    with pytest.raises(IndexError, match="Index 2 is out of range for one of the input MapDataPipes"):
        dp[2]


def test_zip_takes_any_key() -> None:
    dp = SequenceWrapper({"x": 1}).zip(SequenceWrapper({"x": 2, "y": 3}))
    assert dp["x"] == (1, 2)
    with pytest.raises(KeyError, match="y"):
        dp["y"]


@pytest.mark.parametrize("method", ["concat", "zip"])
def test_refused_inputs(method: str) -> None:
    combine = getattr(SequenceWrapper("ab"), method)
    with pytest.raises(BadArgumentType, match=rf"to be `MapDataPipe`, got int: 5, in \.{method}\(5\)"):
        combine(5)
    with pytest.raises(BadArgumentType, match="to be `MapDataPipe`, got IterableWrapper"):
        combine(IterableWrapper([1]))
    with pytest.raises(BadArgumentType, match=r"to be `Sized`, but Unsized\(\) has no __len__"):
        combine(Unsized())


@pytest.mark.parametrize("kind", [Concater, Zipper])
def test_no_input_is_refused(kind: Any) -> None:
    with pytest.raises(BadArgument, match="Expected at least one DataPipe"):
        kind()


def test_unzip() -> None:
    source = SequenceWrapper([("a", 1, None), ("b", 2, None)])
    columns = source.unzip(3)
    assert [list(column) for column in columns] == [["a", "b"], [1, 2], [None, None]]
    assert columns[1][-1] == 2
    (only,) = source.unzip(3, columns_to_skip=[0, 2])
    assert list(only) == [1, 2]
    assert len(only) == 2


def test_unzip_refuses_to_give_nothing() -> None:
    source = SequenceWrapper([("a", 1)])
    with pytest.raises(BadArgument, match="Expected `sequence_length` to be larger than 0, got 0"):
        source.unzip(0)
    with pytest.raises(GraphError, match="All instances are being filtered out in UnZipper"):
        source.unzip(2, columns_to_skip=[0, 1])
