"""Parquet files: every row once, one row group at a time, and nothing read again on resuming."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datapipes.errors import BadArgument, CorruptData
from datapipes.iter import IterableWrapper, ParquetDataFrameLoader, ParquetReader, RowGroupLister
from tests.datapipes.iter.mishaps import outcomes
from tests.http_server import File, serving, status


def table(rows: int, start: int = 0) -> Any:
    numbers = range(start, start + rows)
    return pa.table(
        {"x": pa.array(numbers, pa.int64()), "name": [f"name {n}" for n in numbers] or pa.nulls(0, pa.string())}
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Ten rows in row groups of four, four and two."""
    pq.write_table(table(10), tmp_path / "a.parquet", row_group_size=4, write_page_checksum=True)
    return str(tmp_path / "a.parquet")


def of(*paths: Any) -> Any:
    return IterableWrapper(list(paths), deepcopy=False)


def test_a_batch_for_each_row_group(path: str) -> None:
    dp = of(path).read_parquet()
    assert isinstance(dp, ParquetReader)
    batches = list(dp)
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert pa.Table.from_batches(batches).equals(table(10))


def test_paths_streams_and_urls(path: str) -> None:
    expected = [{"x": [0, 1, 2, 3]}, {"x": [4, 5, 6, 7]}, {"x": [8, 9]}]
    assert list(of(path, Path(path)).read_parquet(["x"], as_="dict")) == expected * 2
    assert list(of(f"file://{path}").read_parquet(["x"], as_="dict")) == expected
    assert list(of(path).open_files("rb").read_parquet(["x"], as_="dict")) == expected
    assert list(of(("a", io.BytesIO(Path(path).read_bytes()))).read_parquet(["x"], as_="dict")) == expected
    with pytest.raises(TypeError, match=r"read_parquet\(\) needs paths, or pairs of a path and a stream, got int"):
        list(of(5).read_parquet())


@given(st.lists(st.integers(0, 7), max_size=4), st.integers(1, 5))
def test_batches_are_full_but_for_the_last_of_a_row_group(groups: list[int], size: int) -> None:
    file = io.BytesIO()
    with pq.ParquetWriter(file, table(0).schema) as writer:
        for rows in groups:
            writer.write_table(table(rows), row_group_size=max(rows, 1))
    found = list(of(("a", io.BytesIO(file.getvalue()))).read_parquet(batch_size=size))
    expected = [min(size, rows - start) for rows in groups for start in range(0, rows, size)]
    assert [batch.num_rows for batch in found] == expected
    assert [x for batch in found for x in batch.to_pydict()["x"]] == [x for rows in groups for x in range(rows)]


def test_columns_as_tensors(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(6), pa.float32()), 2)
    data = {
        "x": pa.array([1, 2, 3], pa.int16()),
        "v": vectors,
        "b": [True, False, True],
        "s": ["a", "b", "c"],
        "n": [1, None, 3],
    }
    pq.write_table(pa.table(data), tmp_path / "a.parquet")
    (found,) = of(str(tmp_path / "a.parquet")).read_parquet(["x", "v", "b"], as_="tensors")
    assert found["x"].dtype == torch.int16
    assert found["v"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["b"].tolist() == [True, False, True]
    found["x"] += 1  # its memory is its own
    for name, what in (("s", "is of type string"), ("n", "has nulls")):
        with pytest.raises(TypeError, match=f"column '{name}' {what}, but tensors are made of numbers"):
            list(of(str(tmp_path / "a.parquet")).read_parquet([name], as_="tensors"))


def test_frames(path: str) -> None:
    dp = of(path).load_parquet_as_df({"x": "float32"}, ["x"])
    assert isinstance(dp, ParquetDataFrameLoader)
    frames = list(dp)
    assert [type(frame) for frame in frames] == [pd.DataFrame] * 3
    assert [frame["x"].dtype for frame in frames] == ["float32"] * 3
    assert [frame["x"].tolist() for frame in frames] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert pd.concat(of(path).load_parquet_as_df(), ignore_index=True).equals(table(10).to_pandas())


def test_row_groups_can_be_shared_before_they_are_read(path: str) -> None:
    dp = of(path, path).list_row_groups()
    assert isinstance(dp, RowGroupLister)
    assert list(dp) == [(path, number) for number in (0, 1, 2)] * 2
    shared = dp.sharding_filter()
    shared.apply_sharding(3, 1)
    assert list(shared.read_parquet(["x"], batch_size=3, as_="dict")) == [{"x": [4, 5, 6]}, {"x": [7]}] * 2
    assert [frame["x"].tolist() for frame in shared.load_parquet_as_df()] == [[4, 5, 6, 7]] * 2
    with pytest.raises(CorruptData, match=r"a.parquet: there is no row group 3, it has 3"):
        list(of((path, 3)).read_parquet())


def test_row_groups_of_streams_are_listed_by_path(path: str) -> None:
    streams = of(path, path).open_files(mode="rb")
    groups = list(streams.list_row_groups())
    assert groups == [(path, number) for number in (0, 1, 2)] * 2
    file = io.BytesIO(Path(path).read_bytes())
    assert list(of((path, file)).list_row_groups()) == groups[:3]
    assert file.closed
    rows = streams.list_row_groups().shuffle().sharding_filter().read_parquet(["x"], as_="dict")
    assert sorted(x for batch in rows for x in batch["x"]) == sorted([*range(10), *range(10)])


@pytest.mark.parametrize(
    ("batch_size", "taken", "groups"), [(None, 1, [1, 2]), (3, 3, [1, 2]), (3, 4, [2]), (3, 2, [1, 2])]
)
def test_resuming_reads_nothing_of_the_row_groups_that_were_given(
    path: str, batch_size: int | None, taken: int, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    dp = of(path).read_parquet(batch_size=batch_size, as_="dict")
    it: Any = iter(dp)
    for _ in range(taken):
        next(it)
    state, rest = it.state_dict(), list(it)
    read: list[int] = []
    one, many = pq.ParquetFile.read_row_group, pq.ParquetFile.iter_batches

    def one_noticed(self: Any, group: int, **options: Any) -> Any:
        read.append(group)
        return one(self, group, **options)

    def many_noticed(self: Any, size: int, groups: list[int], **options: Any) -> Any:
        read.extend(groups)
        return many(self, size, groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", one_noticed)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", many_noticed)
    again: Any = iter(dp)
    again.load_state_dict(state)
    assert list(again) == rest
    assert read == groups


def test_a_row_group_that_is_damaged_costs_its_own_batches(path: str) -> None:
    data = bytearray(Path(path).read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    data[start + 40] ^= 1
    Path(path).write_bytes(data)
    found = outcomes(of(path).read_parquet(["x"], batch_size=3, as_="dict"))
    assert [found[i] for i in (0, 1, 4)] == [{"x": [0, 1, 2]}, {"x": [3]}, {"x": [8, 9]}]
    for number in (0, 1):
        error = found[2 + number]
        assert error.startswith(f"CorruptData: {path}, row group 1, batch {number}: ")
        assert "CRC checksum verification failed" in error
    assert len(outcomes(of(path).load_parquet_as_df())) == 3


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"nonsense" * 9])
def test_what_is_no_parquet_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    for method in ("read_parquet", "load_parquet_as_df", "list_row_groups"):
        with pytest.raises(CorruptData, match=r"a.parquet: \w+"):
            list(getattr(of(str(tmp_path / "a.parquet")), method)())


def test_a_file_that_is_missing_and_a_column_that_is(path: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
        list(of("none.parquet").read_parquet())
    with pytest.raises(BadArgument, match=r"a.parquet: there is no column 'y' among \['x', 'name'\]"):
        list(of(path).read_parquet(["x", "y"]))


def test_arguments_are_checked(path: str) -> None:
    with pytest.raises(BadArgument, match=r"batch_size must be at least 1, or None, in \.read_parquet\(batch_size=0\)"):
        of(path).read_parquet(batch_size=0)
    with pytest.raises(BadArgument, match=r"as_ must be one of batch, dict, tensors, got 'rows'"):
        of(path).read_parquet(as_="rows")
    with pytest.raises(BadArgument, match=r"pandas has no device but 'cpu', got 'cuda'"):
        of(path).load_parquet_as_df(device="cuda")


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [
        ("read_parquet", "pyarrow.parquet", "parquet"),
        ("list_row_groups", "pyarrow.parquet", "parquet"),
        ("load_parquet_as_df", "pyarrow.parquet", "dataframes"),
        ("load_parquet_as_df", "pandas", "dataframes"),
        ("read_arrow", "pyarrow.ipc", "parquet"),
        ("read_csv_columns", "pyarrow.csv", "parquet"),
    ],
)
def test_a_package_that_is_missing_is_named(
    method: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"{method}\(\) needs .*: pip install 'loader2\[{extra}\]'"):
        getattr(of(), method)()


@pytest.mark.parametrize("shard", range(3))
def test_sharding_may_come_before_reading(path: str, shard: int) -> None:
    below = of(path, path).load_parquet_as_df(columns=["x"]).sharding_filter()
    above = of(path, path).list_row_groups().sharding_filter()
    for sharded in (below, above):
        sharded.apply_sharding(3, shard)
    expected = [frame["x"].tolist() for frame in below]
    assert [frame["x"].tolist() for frame in above.load_parquet_as_df(columns=["x"])] == expected
    assert [columns["x"] for columns in above.read_parquet(as_="dict")] == expected


@pytest.mark.parametrize("file", [{}, {"ranges": False}, {"breaks": [40]}])
def test_over_http_under_the_one_policy(file: dict[str, Any]) -> None:
    data = io.BytesIO()
    pq.write_table(pa.table({"x": list(range(100))}), data, row_group_size=40)
    with serving() as server:
        server.pages["/t"] = File(data.getvalue(), **file)
        found = list(IterableWrapper([server.url("/t")]).read_parquet(as_="dict"))
        assert [len(batch["x"]) for batch in found] == [40, 40, 20]
        server.pages["/t"] = status(404)
        with pytest.raises(FileNotFoundError, match=r"token=\*\*\*"):
            list(IterableWrapper([f"{server.url('/t')}?token=abc"]).read_parquet())
