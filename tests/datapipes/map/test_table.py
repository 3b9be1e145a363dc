"""TableWrapper: rows of tables by number, alone and in batches that are read at once."""

from __future__ import annotations

import pickle
from typing import Any
from unittest.mock import patch

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.map import SequenceWrapper, TableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

LENGTH = 20

NUMBERS = {
    "int8": np.arange(LENGTH, dtype=np.int8),
    "int64": np.arange(LENGTH) - 2**62,
    "uint32": np.arange(LENGTH, dtype=np.uint32) + 2**31,
    "float32": np.linspace(0, 1, LENGTH, dtype=np.float32),
    "float64": np.where(np.arange(LENGTH) % 3, 0.1, np.nan),
    "bool": np.arange(LENGTH) % 3 == 0,
}
TEXTS = [f"row {i}" for i in range(LENGTH)]
PAIRS = pa.array([[i, i + 0.5] for i in range(LENGTH)], pa.list_(pa.float32(), 2))

TABLES: dict[str, Any] = {
    "pyarrow": pa.table({**NUMBERS, "text": TEXTS}),
    "record batch": pa.record_batch({**NUMBERS, "text": TEXTS}),
    "chunks": pa.concat_tables([pa.table({**NUMBERS, "text": TEXTS}).slice(i, 3) for i in range(0, LENGTH, 3)]),
    "pandas": pd.DataFrame({**NUMBERS, "text": TEXTS}, index=range(5, 5 + LENGTH)),
    "polars": pl.DataFrame({**NUMBERS, "text": TEXTS}),
    "columns": {**NUMBERS, "text": TEXTS},
}


def same(x: Any) -> Any:
    return x


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and bool(torch.equal(one.nan_to_num(7), other.nan_to_num(7)))
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and (one == other or one != one)


@pytest.mark.parametrize("kind", TABLES)
def test_rows_are_dicts_of_pythons_values(kind: str) -> None:
    dp = TableWrapper(TABLES[kind])
    expected = [
        {**{name: column[i].item() for name, column in NUMBERS.items()}, "text": TEXTS[i]} for i in range(LENGTH)
    ]
    assert len(dp) == LENGTH
    assert equal(list(dp), expected)
    assert equal(dp[-1], expected[-1])
    assert equal(dp.__getitems__([3, 1]), [expected[3], expected[1]])


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("shards", [1, 3])
def test_batches_are_those_put_together_row_by_row(kind: str, shards: int) -> None:
    def batches(between: bool) -> list[Any]:
        pipe: Any = TableWrapper(TABLES[kind]).to_iter_datapipe().shuffle(buffer_size=6).set_seed(1).sharding_filter()
        pipe.apply_sharding(shards, shards - 1)
        return list((pipe.map(same) if between else pipe).batch(3).collate())

    assert equal(batches(between=False), batches(between=True))


def test_rows_of_tensors_have_the_types_of_the_columns() -> None:
    table = pa.table({**NUMBERS, "pair": PAIRS})
    dp = TableWrapper(table, as_="tensors")
    assert equal(dp[2]["pair"], torch.tensor([2, 2.5]))
    assert {name: str(value.dtype) for name, value in dp[0].items()} == {
        **{name: f"torch.{name}" for name in NUMBERS},
        "pair": "torch.float32",
    }
    whole, by_row = (
        list(stream.batch(4).collate()) for stream in (dp.to_iter_datapipe(), dp.to_iter_datapipe().map(same))
    )
    assert equal(whole, by_row)
    whole[0]["int64"].zero_()  # it is the loop's own
    assert dp[1]["int64"] == 1 - 2**62


@pytest.mark.parametrize("as_", ["dict", "tensors"])
def test_a_batch_of_rows_is_read_by_one_call(as_: Any) -> None:
    table = pa.table(NUMBERS)
    graphs = [
        TableWrapper(table, as_=as_).shuffle().batch(8),
        TableWrapper(table, as_=as_).to_iter_datapipe(range(LENGTH - 1, -1, -1)).batch(8, wrapper_class=tuple),
        TableWrapper(table, as_=as_).shuffle().batch(8).collate(collate_fn=len),
        TableWrapper(table, as_=as_).shuffle().sharding_filter().batch(8).map(len),
    ]
    expected = [[*map(type, graph)] for graph in graphs]
    with patch.object(TableWrapper, "__getitem__", None):
        assert [[*map(type, graph)] for graph in graphs] == expected


def test_columns_are_not_made_into_rows() -> None:
    graph = TableWrapper(pa.table(NUMBERS)).shuffle().batch(8).collate()
    with patch.object(TableWrapper, "_rows", None):
        assert [len(batch["bool"]) for batch in graph] == [8, 8, 4]


class Changed(TableWrapper):
    """A table of which one value is another."""

    def __getitem__(self, key: Any) -> dict[str, Any]:
        return {**super().__getitem__(key), "x": 7}


def test_what_is_derived_from_it_gives_its_own_rows() -> None:
    dp = Changed({"x": [1, 2, 3]})
    assert [batch["x"].tolist() for batch in dp.to_iter_datapipe().batch(2).collate()] == [[7, 7], [7]]
    assert list(dp.to_iter_datapipe().batch(3)) == [[{"x": 7}] * 3]


@pytest.mark.parametrize("taken", range(8))
@pytest.mark.parametrize("collated", [False, True])
def test_resumed_anywhere(taken: int, collated: bool) -> None:
    def loader() -> DataLoader2[Any]:
        batches: Any = TableWrapper(TABLES["polars"]).shuffle().batch(3)
        dl: DataLoader2[Any] = DataLoader2(batches.collate() if collated else batches)
        dl.seed(2)
        return dl

    whole, begun = list(loader()), loader()
    batches = iter(begun)
    for _ in range(taken):
        next(batches)
    resumed = loader()
    resumed.load_state_dict(pickle.loads(pickle.dumps(begun.state_dict())))
    assert equal(list(resumed), whole[taken:])


def test_rows_that_an_earlier_state_holds_come_first() -> None:
    """A batch that an error had cut short, saved when rows were read one by one."""

    begun = DataLoader2(TableWrapper({"x": [1, 2, 3]}).to_iter_datapipe([0, 1, 2, 9, 4, 5]).batch(2))
    batches = iter(begun)
    next(batches)
    with pytest.raises(IndexError, match="no row 9"):
        next(batches)
    read_at_once = DataLoader2(TableWrapper({"x": [1, 2, 3, 4, 5, 6]}).to_iter_datapipe().batch(2))
    read_at_once.load_state_dict(begun.state_dict(), strict=False)
    assert list(read_at_once) == [[{"x": 3}, {"x": 5}], [{"x": 6}]]


def test_two_workers_read_their_own_rows() -> None:
    graph = TableWrapper(TABLES["polars"]).shuffle().sharding_filter().batch(4).collate()
    dl: DataLoader2[Any] = DataLoader2(graph, reading_service=MultiProcessingReadingService(num_workers=2))
    try:
        texts = [text for batch in dl for text in batch["text"]]
    finally:
        dl.shutdown()
    assert sorted(texts) == sorted(TEXTS)


def test_torchs_loader_asks_for_a_batch_at_once() -> None:
    dp = TableWrapper(pa.table(NUMBERS))
    with patch.object(TableWrapper, "__getitem__", None):
        batches = list(DataLoader(dp, batch_size=8))
    assert [batch["int8"].tolist() for batch in batches] == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]


@pytest.mark.parametrize("kind", [None, "torch", "numpy"])
def test_rows_of_hugging_face_are_read_at_once(kind: str | None) -> None:
    data: Any = datasets.Dataset.from_dict({"row": [[float(i), 1.0] for i in range(7)], "number": [*range(7)]})
    dp: Any = SequenceWrapper(data.with_format(kind))
    with patch.object(datasets.Dataset, "_getitem", wraps=dp.sequence._getitem) as asked:
        found = list(dp.shuffle().set_seed(1).batch(3))
    assert asked.call_count == 3
    assert repr(found) == repr(list(dp.shuffle().set_seed(1).map(same).batch(3)))


@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars"])
def test_rows_of_hugging_face_that_are_tables_are_read_one_by_one(kind: str) -> None:
    data: Any = datasets.Dataset.from_dict({"number": [*range(5)]}).with_format(kind)
    dp: Any = SequenceWrapper(data).to_iter_datapipe()
    assert repr(list(dp.batch(3))) == repr(list(dp.map(same).batch(3)))


@pytest.mark.parametrize(
    ("table", "as_", "message"),
    [
        (3, "dict", "TableWrapper needs a table that Arrow can read, got int"),
        ({"x": [1, "a"]}, "dict", "TableWrapper needs a table that Arrow can read, got dict"),
        ({"x": [1]}, "rows", "as_ must be one of dict, tensors, got 'rows'"),
        (pa.table([[1], [2]], names=["a", "a"]), "dict", r"two columns have the same name, among \['a', 'a'\]"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "dict", r"two columns have the same name, among \['a', 'a'\]"),
        ({"x": ["a"]}, "tensors", "cannot give rows of this table: column 'x' is of type string"),
        (pa.table({"x": pa.array(["a"], pa.string_view())}), "dict", "cannot give rows of this table: .*string_view"),
    ],
)
def test_what_is_no_table(table: Any, as_: Any, message: str) -> None:
    with pytest.raises((BadArgument, BadArgumentType), match=message):
        TableWrapper(table, as_=as_)


@pytest.mark.parametrize("key", [20, -21])
def test_a_row_that_is_not_there(key: int) -> None:
    with pytest.raises(IndexError, match=f"there is no row {key}: the table has 20"):
        TableWrapper(TABLES["pyarrow"])[key]


def test_batches_of_rows_that_are_not_there() -> None:
    batches = iter(TableWrapper({"x": [1, 2, 3]}).to_iter_datapipe(range(5)).batch(2))
    assert next(batches) == [{"x": 1}, {"x": 2}]
    with pytest.raises(IndexError, match="3 out of bounds"):
        next(batches)
