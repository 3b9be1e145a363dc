"""SequenceWrapper is a sequence or a mapping as it was when it was wrapped."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.map import MapDataPipe, SequenceWrapper


@pytest.mark.parametrize("sequence", [["a", None, "c"], ("a", None), "ab", range(3), []])
def test_a_sequence(sequence: Any) -> None:
    dp = SequenceWrapper(sequence)
    assert isinstance(dp, MapDataPipe)
    assert list(dp) == list(dp) == list(sequence)
    assert len(dp) == len(sequence)
    with pytest.raises(IndexError, match="out of range"):
        dp[len(sequence)]


def test_negative_keys_and_slices_reach_the_sequence() -> None:
    dp = SequenceWrapper([1, 2, 3])
    assert dp[-1] == 3
    several: Any = dp[1:]
    assert several == [2, 3]


def test_a_mapping() -> None:
    dp = SequenceWrapper({"x": 1, "y": None})
    assert (dp["x"], dp["y"], len(dp)) == (1, None, 2)
    with pytest.raises(KeyError, match="z"):
        dp["z"]
    with pytest.raises(KeyError, match="0"):  # iteration begins with the key 0, as for any sequence
        list(dp)


def test_later_changes_do_not_show() -> None:
    data = [[1], [2]]
    dp = SequenceWrapper(data)
    data[0].append(9)
    data.append([3])
    assert list(dp) == [[1], [2]]


def test_without_deepcopy_the_sequence_is_shared() -> None:
    data = [[1]]
    dp = SequenceWrapper(data, deepcopy=False)
    data.append([2])
    assert list(dp) == data
    assert dp[0] is data[0]


def test_a_sequence_that_cannot_be_copied_is_used_itself() -> None:
    data = [(x for x in "ab")]
    with pytest.warns(UserWarning, match="the list of SequenceWrapper can not be deepcopied"):
        dp = SequenceWrapper(data)
    assert dp[0] is data[0]


@pytest.mark.parametrize("wrong", [5, {1, 2}, None])
def test_what_has_no_keys_is_refused(wrong: Any) -> None:
    with pytest.raises(BadArgumentType, match="SequenceWrapper needs a sequence or mapping, got "):
        SequenceWrapper(wrong)
