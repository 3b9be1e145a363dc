"""What is done to a traced stream is done to each frame, in the same order, and to nothing else."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from datapipes.iter import DataFrameTracer, IterableWrapper
from tests.datapipes.iter.mishaps import outcomes

FRAMES = [
    pd.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 2.0], "text": ["x", "yy", None]}),
    pd.DataFrame({"a": [-7], "b": [1.5], "text": ["zzz"]}),
]


def trace(**options: Any) -> Any:
    return IterableWrapper(FRAMES, deepcopy=False).trace_as_dataframe(**options)


def doubled(df: Any) -> None:
    df["c"] = df["a"] * 2 + 1 - df.b
    df["a"] = 10 + df["a"]
    df["b"] *= 2


def masked(df: Any) -> None:
    df.loc[df["a"] > 1, "b"] = df["a"].max()
    df["neither"] = ~((df["a"] < 0) | (df["b"] >= 2)) & (df["text"] != "x") ^ True


def swapped(df: Any) -> None:
    old = df["a"]
    df["a"] = df["b"]
    df["b"] = old


def called(df: Any) -> None:
    df["long"] = df["text"].fillna("").str.len()
    df["root"] = np.sqrt(abs(-df["a"])) + np.float64(2) * df["a"]
    df["rank"] = df["a"].rank(ascending=False, method="first")
    df["b"] = df["b"].where(df["b"].notna(), other=df["a"])
    df["turned"] = 2 - df["a"] + 7 // df["a"] - 5 % df["a"] + 2 / df["a"]
    df[["a", "b"]] = df[["b", "a"]]
    df["third"] = df["a"].apply(str)


@pytest.mark.parametrize("work", [doubled, masked, swapped, called])
def test_each_frame_becomes_what_pandas_makes_of_it(work: Callable[[Any], None]) -> None:
    df = trace()
    work(df)
    expected = [frame.copy() for frame in FRAMES]
    for frame in expected:
        work(frame)
    for dp in (df, pickle.loads(pickle.dumps(df)), copy.deepcopy(df), copy.copy(df)):
        found = list(dp)
        for made, frame in zip(found, expected, strict=True):
            pd.testing.assert_frame_equal(made, frame)
    assert "c" not in FRAMES[0], "the frames above are left alone"


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]
)
def test_operators_mean_what_they_mean_to_pandas(name: str) -> None:
    fn = getattr(operator, name)
    df = trace()
    pairs: list[tuple[Any, Callable[[Any], Any]]] = [
        (fn(df["a"], 2), lambda frame: fn(frame["a"], 2)),
        (fn(3.5, df["b"]), lambda frame: fn(3.5, frame["b"])),
        (fn(df["a"], df["b"]), lambda frame: fn(frame["a"], frame["b"])),
    ]
    for traced, expected in pairs:
        for found, frame in zip(traced.as_datapipe(), FRAMES, strict=True):
            pd.testing.assert_series_equal(found, expected(frame))


def test_what_stands_on_the_left_may_be_of_numpy_or_pandas() -> None:
    df = IterableWrapper(FRAMES[:1], deepcopy=False).trace_as_dataframe()
    numbers = FRAMES[0]["a"]
    for left in (numbers, numbers.to_numpy(), np.float32(2), [1, 2, 3], pd.Index(numbers)):
        (found,) = (left * df["a"]).as_datapipe()
        assert str(found) == str(left * numbers)
        (found,) = (left > df["a"]).as_datapipe()
        assert str(found) == str(left > numbers)


def test_a_traced_value_is_a_stream_of_what_it_becomes() -> None:
    df = trace()
    largest = df["a"].max()
    df["a"] = 0
    assert [list(largest.as_datapipe()), list(df["a"].max().as_datapipe())] == [[3, -7], [0, 0]]
    dropped = df.traced.drop(columns=["a", "text"]).as_datapipe()
    assert [list(frame.columns) for frame in dropped] == [["b"], ["b"]]
    assert [repr(largest), repr(df.traced)] == ["<traced call([2])>", "<traced frame>"]


def test_work_that_comes_later_does_not_reach_copies() -> None:
    df = trace()
    twin = copy.copy(df)
    df["c"] = 1
    assert ["c" in frame for frame in twin] == [False, False]
    assert ["c" in frame for frame in df] == [True, True]
    assert len(df) == 2


def test_methods_of_pipes_stay_methods_of_pipes() -> None:
    df = trace()
    df["c"] = df["a"] > 0
    assert [len(batch) for batch in df.batch(2)] == [2]
    assert [row[-1] for row in df._dataframes_as_tuples()] == [True, True, True, False]
    assert repr(df).endswith(".trace_as_dataframe()")
    assert isinstance(df, DataFrameTracer)


@pytest.mark.parametrize("ask", [bool, len, list, float, int, lambda value: 1 in value])
def test_a_traced_value_has_no_value_yet(ask: Callable[[Any], Any]) -> None:
    value = trace()["a"]
    with pytest.raises(TypeError, match="has no value before the frames are read"):
        ask(value)


def test_attributes_are_not_assigned() -> None:
    df = trace()
    for target in (df, df.traced):
        with pytest.raises(AttributeError, match=r"a column is assigned as an item: df\['c'\]"):
            target.c = 1


def test_a_schema_refuses_unknown_columns_at_once() -> None:
    df = trace(schema_df=FRAMES[0][:0])
    df["c"] = df["a"] + df.b
    df["d"] = df[["c", "b"]].sum(axis=1)
    assert [list(frame.columns) for frame in df] == [["a", "b", "text", "c", "d"]] * 2
    with pytest.raises(KeyError, match=r"no column \['e'\]: the columns are \['a', 'b', 'text', 'c', 'd'\]"):
        df["e"]
    with pytest.raises(KeyError, match=r"no column \['e'\]"):
        df[["a", "e"]]
    with pytest.raises(AttributeError, match="'e' is neither a column nor an attribute of the frames"):
        df.e  # noqa: B018 - asking is what is refused


def test_an_error_names_the_operation_and_costs_its_frame() -> None:
    df = IterableWrapper([*FRAMES, FRAMES[0].rename(columns={"a": "z"}), FRAMES[1]]).trace_as_dataframe()
    df["c"] = df["a"] + 1
    found = outcomes(df)
    assert [x if isinstance(x, str) else len(x) for x in found] == [3, 1, "KeyError: 'a'", 1]
    with pytest.raises(KeyError) as error:
        list(df)
    assert "in operation 1 of a trace: getitem(frame, 'a')" in error.value.__notes__


def test_two_traces_do_not_mix() -> None:
    one, other = trace(), trace()
    with pytest.raises(TypeError, match="belongs to another trace"):
        one["c"] = other["a"]
