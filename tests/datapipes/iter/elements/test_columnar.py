"""rows2columnar and add_index: rows, and what is wrong with one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from datapipes.iter import IndexAdder, IterableWrapper, Rows2Columnar
from tests.datapipes.iter.mishaps import failing_at, outcomes


def columns(rows: list[Any], names: Any = None) -> Any:
    dp = IterableWrapper([rows]).rows2columnar(names)
    assert isinstance(dp, Rows2Columnar)
    assert len(dp) == 1
    (batch,) = dp
    assert type(batch) is defaultdict
    return dict(batch)


def test_rows_that_are_dicts() -> None:
    rows = [{"x": 1, "y": 2}, {"y": 4, "x": 3}]
    assert columns(rows) == columns(rows, []) == {"x": [1, 3], "y": [2, 4]}
    assert columns(rows, {"y"}) == {"y": [2, 4]}
    assert columns([{"x": 1}, {"y": 2}]) == {"x": [1], "y": [2]}
    assert columns([]) == {}


def test_rows_that_are_lists() -> None:
    assert columns([[1, 2], (3, 4)], ["x", "y"]) == {"x": [1, 3], "y": [2, 4]}
    assert columns([[1], [2, 3]], ["x", "y"]) == {"x": [1, 2], "y": [3]}


def test_rows_that_do_not_fit() -> None:
    with pytest.raises(KeyError, match=r"row 1 of the batch lacks the columns \['y'\]; it has \['x'\]"):
        columns([{"x": 1, "y": 2}, {"x": 3}], ["x", "y"])
    with pytest.raises(IndexError, match=r"row 0 of the batch has 2 columns, but column_names has 1: \['x'\]"):
        columns([[1, 2]], ["x"])
    with pytest.raises(IndexError, match=r"row 0 of the batch has 1 columns, but column_names has 0"):
        columns([[1]])
    with pytest.raises(TypeError, match=r"column_names, a set, has no order: give a list"):
        columns([[1]], {"x"})


def test_a_batch_that_does_not_fit_can_be_left_out() -> None:
    batches = IterableWrapper([[{"x": 1}], [{}], [{"x": 2}]]).rows2columnar(["x"], on_error="skip")
    with pytest.warns(UserWarning, match="goes on after KeyError"):
        assert list(batches) == [{"x": [1]}, {"x": [2]}]


def test_add_index() -> None:
    dp = IterableWrapper([{"x": 5}, {"x": 6}]).add_index("number")
    assert isinstance(dp, IndexAdder)
    assert list(dp) == list(dp) == [{"x": 5, "number": 0}, {"x": 6, "number": 1}]
    assert len(dp) == 2
    assert list(IterableWrapper([{"index": "old"}]).add_index()) == [{"index": 0}]


def test_add_index_wants_dicts_and_leaves_a_gap_for_what_is_none() -> None:
    assert outcomes(IterableWrapper([{}, (1, 2), {}]).add_index()) == [  # type: ignore[misc]  # one is no dict
        {"index": 0},
        "NotImplementedError: We only support adding index to row or batch in dict type, got tuple: (1, 2)",
        {"index": 2},
    ]


def test_add_index_leaves_no_gap_for_what_failed_above() -> None:
    rows = IterableWrapper([0, 1, 2]).map(failing_at(1)).map(lambda x: {"x": x})
    assert outcomes(rows.add_index()) == [{"x": 0, "index": 0}, "ValueError: 1 is bad", {"x": 2, "index": 1}]
