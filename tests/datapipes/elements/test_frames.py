"""Data frames go into a state and come back alike, or are refused when they are packed."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from datapipes.elements import UnsafeState, UnsavableElement, decode, encode
from datapipes.elements.frames import make_frame, make_series

DAYS = [datetime.datetime(2020, 1, 2), datetime.datetime(1999, 12, 31, 23, 59)]

FRAMES = [
    pd.DataFrame(),
    pd.DataFrame({"a": [1, 2], "b": [0.5, float("nan")], "c": [True, False]}),
    pd.DataFrame({"text": ["x", None], "objects": [{"a": 1}, [2, None]]}),
    pd.DataFrame({"day": pd.to_datetime(DAYS), "for": pd.to_timedelta([1, 2], unit="s")}),
    pd.DataFrame({"a": [1, 2]}, index=["first", "second"]),
    pd.DataFrame({"a": [1, 2]}, index=pd.Index(DAYS, name="day")),
    pd.DataFrame([[1, 2], [3, 4]], columns=[0, "a"], index=[7, 3]),
    pd.DataFrame([[1, 2]], columns=["a", "a"]),
    pd.DataFrame({"a": [1, 2, 3, 4]})[1::2],
    pd.DataFrame({"a": pd.array([1, None], "Int16"), "b": pd.array([0.5, None], "Float64")}),
    pd.DataFrame({"a": pd.array(["x", None], "string"), "b": pd.array([True, None], "boolean")}),
    pd.DataFrame({"a": pd.array([1, None], pd.ArrowDtype(pa.int32()))}),
    pd.DataFrame({"a": pd.array(["x", None], pd.ArrowDtype(pa.string()))}),
    pd.DataFrame(np.arange(6, dtype=np.float32).reshape(2, 3)),
    pd.DataFrame(index=range(5)),
    pd.DataFrame({"a": [1, 2, 3]}, index=["x", "x", None]),
    pd.DataFrame({"a": pd.Series(["x", None, DAYS[0]], dtype=object)}, index=pd.Index(list("abc"), dtype=object)),
    pd.DataFrame({"a": pd.Series(["x", "y"], dtype=object), "b": pd.Series(DAYS, dtype=object)}),
    pd.DataFrame([[1]], columns=pd.Index(["a"], dtype=object)),
]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_comes_back(frame: pd.DataFrame) -> None:
    found: Any = decode(encode(frame, what="it"), what="it")
    pd.testing.assert_frame_equal(found, frame)
    if len(frame) and frame.shape[1]:
        found.iloc[0, 0] = found.iloc[-1, -1] if frame.shape[1] == 1 else found.iloc[0, 0]  # it can be written to


@pytest.mark.parametrize("series", [FRAMES[1]["a"], FRAMES[2]["text"], FRAMES[9]["b"], FRAMES[8]["a"], FRAMES[16]["a"]])
def test_a_series_comes_back(series: Any) -> None:
    pd.testing.assert_series_equal(decode(encode(series, what="it"), what="it"), series)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame({"a": pd.Categorical(["x"])}), "the column 'a' is of the dtype category; convert it"),
        (pd.DataFrame({"a": pd.to_datetime(DAYS).tz_localize("UTC")}), "is of the dtype datetime64"),
        (pd.DataFrame({("a", "b"): [1]}), "the columns has several levels"),
        (pd.DataFrame({"a": [pd.Interval(0, 1)]}), "interval"),
        (pd.DataFrame({"a": [object()]}), "cannot be saved"),
        (type("Special", (pd.DataFrame,), {})({"a": [1]}), "Special"),
    ],
)
def test_what_would_not_come_back_is_refused(frame: Any, said: str) -> None:
    with pytest.raises(UnsavableElement, match=said):
        encode([frame], what="it")


COLUMN = ("", np.arange(2))


@pytest.mark.parametrize(
    ("labels", "index", "columns"),
    [
        ((None, range(1)), (None, range(3)), [COLUMN]),
        ((None, range(2)), (None, range(2)), [COLUMN]),
        ((None, range(1)), (None, range(2)), [("category", np.arange(2))]),
        ((None, range(1)), (None, range(2)), [("arrow struct<a: int32>", np.arange(2))]),
        ((None, range(1)), (None, range(2)), [("", [1, 2])]),
        ((None, range(1)), (None, range(2)), [("", np.zeros((2, 2)))]),
        ((None, range(1)), (None, ("", np.zeros((2, 2)))), [COLUMN]),
        ((None, range(1)), (None,), [COLUMN]),
        ((None, range(1)), (None, 5), [COLUMN]),
        ((None, range(1)), (None, range(2)), [("Int64", np.array(["x", {}], object))]),
    ],
)
def test_parts_that_fit_no_frame_are_refused(labels: Any, index: Any, columns: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        make_frame(labels, index, columns)


def test_parts_that_fit_no_series_are_refused() -> None:
    with pytest.raises(ValueError, match=r"[Ll]ength"):
        make_series("a", (None, range(3)), COLUMN)


def test_any_damage_is_an_error_or_a_frame() -> None:
    data = encode([FRAMES[2], FRAMES[9]], what="it")
    for at in range(len(data)):
        try:
            decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], what="it")
        except UnsafeState:
            continue
