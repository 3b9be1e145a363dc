"""Data frames are made of rows; pandas is asked for when it is needed."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper
from tests.datapipes.iter.mishaps import outcomes

Point = namedtuple("Point", "x y")


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
    (frame,) = IterableWrapper(rows).dataframe(columns=columns)
    assert frame.to_dict("list") == found


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
    with pytest.raises(BadArgument, match="device must be None or 'cpu', got 'cuda'"):
        IterableWrapper(range(7)).dataframe(3, device="cuda")
    with pytest.raises(TypeError, match="A callable function is expected"):
        IterableWrapper(range(7)).dataframe(3, dtype_generator="int8")  # type: ignore[arg-type]  # what is refused


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"^dataframe\(\) needs the package `pandas`: .*loader2\[dataframes\]"
    ):
        IterableWrapper([1]).dataframe()


def test_pandas_is_imported_only_when_it_is_used() -> None:
    program = "import sys, datapipes.iter, loader2; print('pandas' in sys.modules, 'pyarrow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=500)
    assert found.stdout.split() == ["False", "False"]
