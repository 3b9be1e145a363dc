"""batch puts neighbours under one key, and takes only the end of its source for the end."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes import DataChunk
from datapipes.errors import BadArgument
from datapipes.map import Batcher, MapDataPipe, SequenceWrapper


class Unsized(MapDataPipe[int]):
    def __getitem__(self, key: int) -> int:
        if key >= 5:
            raise IndexError(key)
        return key


@pytest.mark.parametrize("source", [SequenceWrapper(range(5)), Unsized()])
@pytest.mark.parametrize(("drop_last", "batches"), [(False, [[0, 1], [2, 3], [4]]), (True, [[0, 1], [2, 3]])])
def test_batches(source: MapDataPipe[int], drop_last: bool, batches: list[list[int]]) -> None:
    dp = source.batch(2, drop_last)
    assert isinstance(dp, Batcher)
    assert list(dp) == [dp[i] for i in range(len(batches))] == batches
    assert type(dp[0]) is DataChunk
    for key in (len(batches), 99, -1):
        with pytest.raises(IndexError, match=rf"Index {key} is out of bound: there is no such batch, in \.batch\(2"):
            dp[key]


def test_none_and_nothing() -> None:
    assert list(SequenceWrapper([None] * 3).batch(2)) == [[None, None], [None]]
    assert list(SequenceWrapper([]).batch(2)) == []


@pytest.mark.parametrize(("count", "drop_last", "length"), [(0, False, 0), (4, False, 2), (5, False, 3), (5, True, 2)])
def test_length(count: int, drop_last: bool, length: int) -> None:
    assert len(SequenceWrapper(range(count)).batch(2, drop_last)) == length


def test_length_of_an_unsized_source() -> None:
    with pytest.raises(TypeError, match=r"^Batcher instance doesn't have valid length: \.batch\(2\)"):
        len(Unsized().batch(2))


def test_wrapper_class() -> None:
    assert SequenceWrapper(range(3)).batch(2, wrapper_class=tuple)[1] == (2,)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused_with_the_call(size: int) -> None:
    with pytest.raises(BadArgument, match=rf"Batch size is required to be larger than 0, in \.batch\({size}\)"):
        SequenceWrapper("ab").batch(size)


@pytest.mark.parametrize("drop_last", [False, True])
def test_an_index_error_of_a_function_is_not_the_end(drop_last: bool) -> None:
    def look_up(x: int) -> int:
        return [0, 1, 2][x]

    dp = SequenceWrapper(range(8)).map(look_up).batch(2, drop_last)
    assert dp[0] == [0, 1]
    with pytest.raises(IndexError, match="list index out of range"):
        dp[1]


def test_a_missing_key_comes_through() -> None:
    dp: Any = SequenceWrapper({0: "a", 2: "c"}).batch(2)
    with pytest.raises(KeyError, match="1"):
        dp[0]
