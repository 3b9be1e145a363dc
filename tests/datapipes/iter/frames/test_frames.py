"""Data frames are made of rows, taken apart, and regrouped, and lose no row; pandas is asked for when it is needed."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgument, StateError
from datapipes.iter import IterableWrapper, IterDataPipe
from tests.datapipes.iter.mishaps import failing_at, outcomes

Point = namedtuple("Point", "x y")


def numbered(count: int, size: int = 3) -> IterDataPipe[Any]:
    return IterableWrapper(range(count))._to_dataframes_pipe(size, columns=["x"])


@pytest.mark.parametrize(
    ("rows", "columns", "found"),
    [
        ([(1, "a"), (2, "b")], None, {0: [1, 2], 1: ["a", "b"]}),
        ([[1, "a"]], ["n", "t"], {"n": [1], "t": ["a"]}),
        ([{"a": 1}, {"a": 2, "b": 3}], ["a"], {"a": [1, 2]}),
        (["one", "two"], ["t"], {"t": ["one", "two"]}),
        ([1.5], ["n"], {"n": [1.5]}),
        ([np.array([1, 2]), np.array([3, 4])], None, {0: [1, 3], 1: [2, 4]}),
        ([torch.tensor([1, 2])], ["a", "b"], {"a": [1], "b": [2]}),
        ([torch.tensor(1)], ["a"], {"a": [1]}),
        ([Point(1, 2)], None, {"x": [1], "y": [2]}),
    ],
)
def test_rows_of_every_kind_make_a_frame(rows: list[Any], columns: Any, found: dict[Any, list[Any]]) -> None:
    (frame,) = IterableWrapper(rows)._to_dataframes_pipe(columns=columns)
    assert frame.to_dict("list") == found
    (other,) = IterableWrapper(rows).dataframe(columns=columns)
    pd.testing.assert_frame_equal(frame, other)


@pytest.mark.parametrize(
    ("options", "dtypes"),
    [
        ({"dtype": "float32", "columns": ["a", "b"]}, ["float32", "float32"]),
        ({"dtype": {"a": "int8", "b": float}}, ["int8", "float64"]),
        ({"dtype": pa.schema([("a", pa.int16()), ("b", pa.float32())])}, ["int16[pyarrow]", "float[pyarrow]"]),
        ({"dtype": pa.struct([("a", pa.int16()), ("b", pa.string())])}, ["int16[pyarrow]", "string[pyarrow]"]),
        ({"dtype": "int8", "dtype_generator": lambda: "int16", "columns": ["a", "b"]}, ["int8", "int8"]),
        ({"dtype_generator": lambda: {"a": "int16", "b": "str"}}, ["int16", "str"]),
    ],
)
def test_dtypes(options: Any, dtypes: list[str]) -> None:
    (frame,) = IterableWrapper([(1, 2), (3, 4)]).dataframe(**options)
    assert list(frame.columns) == ["a", "b"]
    assert [str(dtype) for dtype in frame.dtypes] == dtypes


def test_a_frame_that_cannot_be_made_may_be_left_out() -> None:
    rows = IterableWrapper([1, 2, 3, "x", 5])
    assert outcomes(rows.dataframe(2, dtype="int8"))[1].startswith("ValueError")
    tolerant = rows.dataframe(2, dtype="int8", on_error="skip", max_errors=1)
    with pytest.warns(UserWarning, match="goes on after ValueError"):
        assert [list(frame[0]) for frame in tolerant] == [[1, 2], [5]]


def test_lengths_and_arguments() -> None:
    assert len(IterableWrapper(range(7)).dataframe(3)) == 3
    with pytest.raises(BadArgument, match="device must be '' or 'cpu', got 'cuda'"):
        IterableWrapper(range(7)).dataframe(3, device="cuda")
    with pytest.raises(TypeError, match="A callable function is expected"):
        IterableWrapper(range(7)).dataframe(3, dtype_generator="int8")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(AssertionError, match="larger than 0"):
        IterableWrapper(range(7))._to_dataframes_pipe(0)
    with pytest.raises(TypeError, match="A callable function is expected"):
        numbered(7)._dataframes_filter("x")  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    "method",
    [
        *("dataframe", "_to_dataframes_pipe", "_dataframes_as_tuples", "_dataframes_per_row", "_dataframes_concat"),
        *("_dataframes_shuffle", "trace_as_dataframe"),
    ],
)
def test_without_pandas_the_extra_is_named(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RuntimeError, match=rf"^{method}\(\) requires pandas: .*pip install loader2\[dataframes\]"):
        getattr(IterableWrapper([1]), method)()


def test_pandas_is_imported_only_when_it_is_used() -> None:
    program = "import sys, datapipes.iter, loader2; print('pandas' in sys.modules, 'pyarrow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["False", "False"]


def test_frames_are_taken_apart_and_put_together() -> None:
    frames = IterableWrapper([(1, "a"), (2, "b"), (3, "c")])._to_dataframes_pipe(2)
    assert list(frames._dataframes_as_tuples()) == [(1, "a"), (2, "b"), (3, "c")]
    assert [frame.shape for frame in frames._dataframes_per_row()] == [(1, 2)] * 3
    (whole,) = frames._dataframes_concat(5)
    assert list(whole.index) == [0, 1, 0], "rows keep their labels"
    assert [frame.shape for frame in frames._dataframes_per_row()._dataframes_concat(2)] == [(2, 2), (1, 2)]
    with pytest.raises(AttributeError, match="itertuples"):
        list(IterableWrapper([[1]])._dataframes_as_tuples())


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 6), max_size=6), st.integers(1, 4), st.integers(0, 9))
def test_regrouping_loses_no_row(sizes: list[int], divisor: int, after: int) -> None:
    ends = np.cumsum([0, *sizes])
    frames = [pd.DataFrame({"x": range(a, b)}) for a, b in pairwise(ends)]
    first = next((size for size in sizes if size), 0)
    source = IterableWrapper(frames)
    for dp, rows in (
        (source._dataframes_filter(lambda row: row.x % divisor == 0), [x for x in range(ends[-1]) if x % divisor == 0]),
        (source._dataframes_shuffle().set_seed(1), None),
    ):
        found = list(dp)
        given_rows = [x for frame in found for x in frame["x"]]
        assert (sorted(given_rows) if rows is None else given_rows) == list(range(ends[-1]) if rows is None else rows)
        assert all(len(frame) == first for frame in found[:-1])
        assert all(0 < len(frame) <= first for frame in found[-1:])
        it: Any = iter(dp)
        taken = [next(it) for _ in found[:after]]
        again: Any = iter(dp)
        again.load_state_dict(it.state_dict())
        rest = list(again)
        assert [x for frame in taken + rest for x in frame["x"]] == given_rows


def test_a_shuffle_follows_its_seed() -> None:
    dp = numbered(20)._dataframes_shuffle()
    orders = [[row for (row,) in dp.set_seed(seed)._dataframes_as_tuples()] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert [len(frame) for frame in dp] == [3] * 6 + [2]
    assert list(next(iter(dp.set_shuffle(False)))["x"]) == [0, 1, 2]


def test_a_filter_must_say_yes_or_no() -> None:
    found = outcomes(numbered(3)._dataframes_filter(lambda row: row))
    assert found[0].startswith("ValueError: Boolean output is required for `filter_fn`, got Series")
    assert [len(frame) for frame in numbered(3)._dataframes_filter(lambda row: np.True_)] == [3]


def test_a_function_that_raises_costs_its_frame() -> None:
    found = outcomes(numbered(6, 2)._dataframes_filter(lambda row: failing_at(3)(row.x) >= 0))
    assert [x if isinstance(x, str) else list(x["x"]) for x in found] == [[0, 1], "ValueError: 3 is bad", [4, 5]]


@pytest.mark.parametrize("saved", [7, {"size": 1}, {"size": 0, "given": 0, "frames": b"?"}])
def test_an_odd_state_is_refused(saved: Any) -> None:
    dp = numbered(9)._dataframes_filter(lambda row: True)
    it: Any = iter(dp)
    next(it)
    state = it.state_dict()
    state["cells"][max(state["cells"])] = saved
    with pytest.raises(StateError, match="_dataframes_filter"):
        iter(dp).load_state_dict(state)  # type: ignore[attr-defined]  # our iterator
