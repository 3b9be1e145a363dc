"""collate and filter on pandas frames."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper

pandas = pytest.importorskip("pandas")


def frame() -> Any:
    return pandas.DataFrame({"x": [1, 2, 3], "y": [0.5, 0.25, 0.0], "s": list("abc")}, index=[7, 5, 6])


def test_a_mask_keeps_rows() -> None:
    frames = IterableWrapper([frame(), frame()[:1], frame()[1:]])
    kept = list(frames.filter(lambda rows: rows["x"] > 1))
    assert [rows["s"].tolist() for rows in kept] == [["b", "c"], ["b", "c"]]
    assert [rows.index.tolist() for rows in kept] == [[5, 6], [5, 6]]
    assert [rows["s"].tolist() for rows in frames.filter(lambda rows: len(rows) == 2)] == [["b", "c"]]
    assert [rows.tolist() for rows in frames.filter(lambda _: True).map(lambda f: f["x"]).filter(lambda c: c == 1)] == [
        [1],
        [1],
    ]


def test_a_mask_between_other_stages() -> None:
    dp = IterableWrapper([frame()]).filter(lambda f: f["x"] != 2).map(lambda f: f["s"].tolist()).batch(1)
    assert list(dp) == [[["a", "c"]]]


def test_a_gap_in_a_mask_keeps_nothing() -> None:
    mask = pandas.Series([True, None, False], dtype="boolean")
    (kept,) = IterableWrapper([frame()]).filter(lambda _: mask)
    assert kept["s"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("element", "answer", "message"),
    [
        (frame(), lambda f: f["x"], "Boolean output is required for `filter_fn`, got a Series of dtype int64"),
        (frame(), lambda f: f["x"][:1] > 0, "a mask of 1 rows for a frame of 3"),
        ([1, 2], lambda _: frame()["x"] > 0, "Boolean output is required for `filter_fn` of a list"),
    ],
)
def test_what_is_no_mask(element: Any, answer: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(IterableWrapper([element]).filter(answer))


@pytest.mark.parametrize("wrapped", [lambda f: f, lambda f: [f], lambda f: (f,)])
def test_collate_makes_a_named_tuple_of_tensors(wrapped: Callable[[Any], Any]) -> None:
    (result,) = IterableWrapper([wrapped(frame())]).collate(None)
    assert result._fields == ("x", "y", "s")
    assert torch.equal(result.x, torch.tensor([1, 2, 3]))
    assert torch.equal(result.y, torch.tensor([0.5, 0.25, 0.0], dtype=torch.float64))
    assert result.s == ["a", "b", "c"]


def test_collate_by_column() -> None:
    (result,) = IterableWrapper([frame()]).collate({"y": lambda column: column.sum(), "s": "".join})
    assert (result.x.tolist(), result.y, result.s) == ([1, 2, 3], 0.75, "abc")


def test_the_result_can_be_pickled() -> None:
    odd = pandas.DataFrame({"a b": [1], "class": [True], "n": pandas.array([2], dtype="Int64")})
    (result,) = IterableWrapper([odd]).collate(None)
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result)
    assert again == result == (torch.tensor([1]), torch.tensor([True]), torch.tensor([2]))
    assert result._fields == ("_0", "_1", "n")


@pytest.mark.parametrize("element", [[], 3, [3], "text"])
def test_collate_wants_one_frame(element: Any) -> None:
    with pytest.raises(RuntimeError, match="expects exactly one DataFrame in each element"):
        list(IterableWrapper([element]).collate(None))
    with pytest.raises(RuntimeError, match="got 2 values: DataFrame, DataFrame"):
        list(IterableWrapper([[frame(), frame()]]).collate({}))


def test_collate_wants_known_columns_and_functions() -> None:
    with pytest.raises(RuntimeError, match=r"Conversion keys mismatch: the frame has no columns \['z'\]"):
        list(IterableWrapper([frame()]).collate({"z": list}))
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by collate\(\)"):
        IterableWrapper([frame()]).collate({"x": 3})  # type: ignore[dict-item]  # that is what is refused
