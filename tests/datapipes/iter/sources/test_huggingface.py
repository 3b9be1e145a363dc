"""HuggingFaceHubReader, on files of this machine in the formats that the hub's data sets have."""

from __future__ import annotations

import gc
import json
import os
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datapipes.errors import BadArgument, StateError
from datapipes.iter import HuggingFaceHubReader
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.specimens.remote import rows as set_the_environment

ROWS = [{"x": x, "y": f"row {x}"} for x in range(23)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    set_the_environment()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    for part, rows in enumerate((ROWS[:10], ROWS[10:])):
        (tmp_path / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / f"{part}.csv").write_text("x,y\n" + "".join(f"{row['x']},{row['y']}\n" for row in rows))
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{part}.parquet", row_group_size=4)
    return tmp_path


def reader(files: Path, kind: str = "json", **options: Any) -> HuggingFaceHubReader:
    names = {"json": "*.jsonl", "csv": "*.csv", "parquet": "*.parquet"}
    options = {"split": "train", **options}
    return HuggingFaceHubReader(kind, data_files=str(files / names[kind]), cache_dir=str(files / "cache"), **options)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_rows(files: Path, kind: str, streaming: bool) -> None:
    dp = reader(files, kind, streaming=streaming)
    assert [dict(row) for row in dp] == ROWS
    with pytest.raises(TypeError, match="HuggingFaceHubReader instance doesn't have valid length"):
        len(dp)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What reads files in `datasets` leaves them for the garbage collector, where an iteration is left half-way."""
    yield
    with warnings.catch_warnings(action="ignore"):
        gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_resumed_anywhere(files: Path, kind: str, streaming: bool) -> None:
    dp = reader(files, kind, streaming=streaming).batch(2)
    whole = list(dp)
    for taken in (0, 1, 4, 5, 6, 11, 12):
        loader = DataLoader2(dp)
        it = iter(loader)
        for _ in range(taken):
            next(it)
        resumed = DataLoader2.from_state(pickle.loads(pickle.dumps(loader.state_dict())), datapipe=dp)
        assert list(resumed) == whole[taken:]


def test_splits(files: Path) -> None:
    assert len(list(reader(files, split=None))) == 23
    both = {"train": str(files / "0.jsonl"), "test": str(files / "1.jsonl")}
    several = HuggingFaceHubReader("json", data_files=both, cache_dir=str(files / "cache"))
    with pytest.raises(BadArgument, match=r"choose a split by split=\.\.\.; there are train, test"):
        list(several)


@pytest.mark.parametrize("own", [{}, {"x": 1}, 3, None, {"examples_iterable": {}, "epoch": "x"}])
def test_a_position_that_does_not_fit(files: Path, own: Any) -> None:
    it: Any = iter(reader(files, streaming=own is not None))
    next(it)
    state = it.state_dict()
    state = sealed({**state, "cells": {place: {"given": 99, "own": own} for place in state["cells"]}})
    fresh: Any = iter(reader(files, streaming=own is not None))

    def go_on() -> None:
        fresh.load_state_dict(state)
        next(fresh)

    with pytest.raises(StateError):
        go_on()


def test_an_error_further_down_costs_one_row(files: Path) -> None:
    def picky(row: dict[str, Any]) -> int:
        if row["x"] == 7:
            raise ValueError("seven")
        return int(row["x"])

    it = iter(reader(files).map(picky))
    found = [next(it) for _ in range(7)]
    with pytest.raises(ValueError, match="seven"):
        next(it)
    assert [*found, *it] == [x for x in range(23) if x != 7]


def numbers(**options: Any) -> Any:
    return datasets.Dataset.from_dict({"x": [*range(23)]}).to_iterable_dataset(**options)


LOADED: dict[str, Any] = {
    "a table": lambda: datasets.Dataset.from_dict({"x": [*range(23)]}),
    "a stream": lambda: numbers(num_shards=3),
    "a stream in batches": lambda: numbers(num_shards=2).batch(4),
    "a stream that maps and filters": lambda: numbers().map(doubled).filter(by_four),
    "a stream that shuffles": lambda: numbers(num_shards=2).shuffle(seed=1, buffer_size=5),
    "a stream that maps what is shuffled": lambda: numbers(num_shards=2).shuffle(seed=1, buffer_size=5).map(doubled),
}


def doubled(row: dict[str, int]) -> dict[str, int]:
    return {"x": 2 * row["x"]}


def by_four(row: dict[str, int]) -> bool:
    return row["x"] % 4 == 0


@pytest.mark.parametrize("kind", LOADED)
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_data_set_that_is_loaded_already_is_resumed_anywhere(kind: str, epoch: int) -> None:
    def loader() -> DataLoader2[Any]:
        return DataLoader2(HuggingFaceHubReader(LOADED[kind]()).batch(2))

    epochs = loader()
    whole = [list(epochs) for _ in range(2)][epoch]
    data = LOADED[kind]()
    if epoch and "stream" in kind:
        data.set_epoch(epoch)
    assert [row for batch in whole for row in batch] == list(data)
    for taken in (0, 1, 2, len(whole) - 1, len(whole)):
        begun = loader()
        for number in range(epoch):
            begun.seed(number)
            list(begun)
        begun.seed(7)  # which does not begin to count anew
        it = iter(begun)
        for _ in range(taken):
            next(it)
        resumed = DataLoader2.from_state(pickle.loads(pickle.dumps(begun.state_dict())), datapipe=loader().datapipe)
        assert list(resumed) == whole[taken:]


def test_two_iterations_of_a_stream_do_not_disturb_each_other() -> None:
    data = numbers(num_shards=2).map(doubled)
    dp = HuggingFaceHubReader(data)
    one, other = iter(dp), iter(dp)
    rows = [row for pair in zip(one, other, strict=True) for row in pair]
    assert rows[::2] == rows[1::2] == list(data)


def test_options_for_what_is_loaded_already() -> None:
    with pytest.raises(BadArgument, match="are for load_dataset, but this data set is already loaded"):
        HuggingFaceHubReader(numbers(), split="train")
