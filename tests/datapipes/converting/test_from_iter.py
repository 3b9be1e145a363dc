"""to_map_datapipe reads a stream once, at the first look-up, and finds its elements by key."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper
from datapipes.map import IterToMapConverter, SequenceWrapper
from tests.datapipes.iter.mishaps import failing_at, stopping_at


def converted(elements: list[Any], fn: Any = None) -> IterToMapConverter:
    dp = IterableWrapper(elements).to_map_datapipe(fn)
    assert isinstance(dp, IterToMapConverter)
    return dp


def test_pairs() -> None:
    dp = converted([("x", 1), ["y", None]])
    assert (dp["x"], dp["y"], len(dp)) == (1, None, 2)


def test_pairs_made_by_a_function() -> None:
    dp = converted(["one", "three"], lambda word: (len(word), word))
    assert (dp[3], dp[5]) == ("one", "three")


def test_with_keys_from_zero_on_it_can_be_iterated() -> None:
    dp = converted(list("ab"), lambda letter: ("ab".index(letter), letter))
    assert list(dp) == list(dp) == ["a", "b"]


def test_the_stream_is_read_at_the_first_look_up_and_only_then() -> None:
    read: list[int] = []

    def note(x: int) -> tuple[int, int]:
        read.append(x)
        return x, 10 * x

    dp: Any = IterableWrapper(range(3)).to_map_datapipe(note)
    assert (len(dp), read) == (3, [])
    assert (dp[2], dp[0], len(dp)) == (20, 0, 3)
    assert read == [0, 1, 2]


def test_a_missing_key_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="Index 'z' is invalid for IterToMapConverter"):
        converted([("x", 1)])["z"]


def test_of_one_key_twice_the_last_wins_with_a_warning() -> None:
    dp = converted([("x", 1), ("x", 2)])
    with pytest.warns(UserWarning, match="Found duplicate key 'x' in IterableWrapper"):
        assert dp["x"] == 2
    assert len(dp) == 1


def test_length_of_an_unsized_source_reads_it_with_a_warning() -> None:
    dp: Any = IterableWrapper([("x", 1), ("y", 2)]).filter(lambda pair: True).to_map_datapipe()
    with pytest.warns(UserWarning, match="Data from prior DataPipe are loaded to get length"):
        assert len(dp) == 2
    assert len(dp) == 2


@pytest.mark.parametrize(
    ("element", "error", "message"),
    [
        (5, TypeError, r"Cannot convert dictionary update element #1 \(int\)"),
        ((1, 2, 3), ValueError, "element #1: sequence element has length 3, not 2"),
        ("x", ValueError, "element #1: sequence element has length 1, not 2"),
    ],
)
def test_what_is_no_pair_is_an_error_at_the_look_up(element: Any, error: type[Exception], message: str) -> None:
    dp = converted([(0, 0), element])
    with pytest.raises(error, match=message):
        dp[0]


def test_errors_of_the_function_come_through() -> None:
    check, stop = failing_at(1), stopping_at(1)
    with pytest.raises(ValueError, match="1 is bad"):
        list(converted([0, 1, 2], lambda x: (check(x), x)))
    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        list(converted([0, 1, 2], lambda x: (stop(x), x)))


def test_refused_arguments() -> None:
    mapped: Any = SequenceWrapper("ab")
    with pytest.raises(BadArgumentType, match="IterToMapConverter can only apply on IterDataPipe, got SequenceWrapper"):
        IterToMapConverter(mapped)
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by to_map_datapipe\(\), got int: 3"):
        converted([], 3)
