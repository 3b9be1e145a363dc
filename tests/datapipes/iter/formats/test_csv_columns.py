"""read_csv_columns gives every row once, in blocks, its columns of the types that were asked for or are seen."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.errors import BadArgument, CorruptData
from datapipes.iter import CSVColumnReader, IterableWrapper
from tests.datapipes.iter.mishaps import outcomes


def read(data: bytes, *args: Any, **options: Any) -> Any:
    return IterableWrapper([("a.csv", io.BytesIO(data))], deepcopy=False).read_csv_columns(*args, **options)


def rows(dp: Any) -> list[dict[str, Any]]:
    return [row for batch in dp for row in batch.to_pylist()]


ROWS = b'x,y,name\n1,0.5,one\n2,1.5,"two\nlines"\n3,2.5,"a ""quote"""\n'


@pytest.mark.parametrize("block_size", [1, 5, 25, 1 << 20])
def test_columns_have_types(block_size: int) -> None:
    dp = read(ROWS, block_size=block_size)
    assert isinstance(dp, CSVColumnReader)
    names = ["one", "two\nlines", 'a "quote"']
    assert rows(dp) == [{"x": i + 1, "y": i + 0.5, "name": name} for i, name in enumerate(names)]
    schema = pa.schema({"x": pa.int64(), "y": pa.float64(), "name": pa.string()})
    assert {batch.schema for batch in read(ROWS, block_size=block_size)} == {schema}


def test_types_columns_and_names_that_are_asked_for() -> None:
    batches = list(read(ROWS, ["y", "x"], {"x": "float32", "y": pa.string()}))
    assert batches[0].schema == pa.schema({"y": pa.string(), "x": pa.float32()})
    assert rows(read(b"1;2\n3;4\n", names=["a", "b"], delimiter=";")) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert [batch["x"].tolist() for batch in read(ROWS, ["x"], as_="tensors")] == [[1, 2, 3]]
    for wrong in ({"columns": ["z"]}, {"types": {"z": "int8"}}):
        with pytest.raises(BadArgument, match=r"a.csv: there is no column 'z' among \['x', 'y', 'name'\]"):
            list(read(ROWS, **wrong))


def test_paths_and_files_without_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(ROWS)
    assert len(rows(IterableWrapper([str(tmp_path / "a.csv")]).read_csv_columns())) == 3
    for nothing in (b"", b"\n\n", b"x,y\n", b"x,y"):
        assert list(read(nothing)) == []
    with pytest.raises(
        TypeError, match=r"a.csv: read_csv_columns\(\) reads bytes; open the file with open_files\('rb'\)"
    ):
        list(IterableWrapper([("a.csv", io.StringIO("x\n1\n"))], deepcopy=False).read_csv_columns())
    with pytest.raises(BadArgument, match="block_size must be at least 1"):
        read(ROWS, block_size=0)


FIELDS = st.text(st.sampled_from('ab"\n, é'), min_size=1, max_size=6).map(lambda text: f"-{text}")


@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1), st.integers(1, 40), st.sampled_from(["\n", "\r\n"]))
def test_blocks_end_where_rows_do(fields: list[tuple[str, str]], block_size: int, newline: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=newline).writerows([("x", "y"), *fields])
    found = rows(read(text.getvalue().encode(), None, {"x": "string", "y": "string"}, block_size=block_size))
    assert [(row["x"], row["y"]) for row in found] == fields


def test_blocks_that_were_given_are_not_converted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_bytes(b"x\n" + b"".join(b"%d\n" % n for n in range(10, 20)))
    dp = IterableWrapper([str(tmp_path / "a.csv")]).read_csv_columns(block_size=6, as_="dict")
    it: Any = iter(dp)
    given_before = [next(it), next(it), next(it)]
    converted = []
    original = pa.csv.read_csv

    def noticed(*args: Any) -> Any:
        converted.append(args)
        return original(*args)

    monkeypatch.setattr(pa.csv, "read_csv", noticed)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    rest = list(again)
    assert [x for block in given_before + rest for x in block["x"]] == list(range(10, 20))
    assert len(converted) == 1 + len(rest)  # the first block says what types there are


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'x\n1\n"2\n3\n', r"a.csv, from line 3 on: a quote was opened and never closed"),
        (b"x\n1\n\0\n3\n", r"a.csv, line 3: line contains NUL"),
        (b"x,y\n1,2\n3\n", r"a.csv, in the block that begins at line 3: CSV parse error: .*Expected 2 columns, got 1"),
        (b"x\n1\n2\nz\n", r"a.csv, in the block that begins at line 4: .*invalid value 'z'"),
        (b"x,x\n1,2\n", r"a.csv.*: two columns have the name 'x'"),
        (b"x\n\xff\n", r"a.csv.*: column 'x' is not UTF-8 text"),
        (b"x\na\n\xff\n", r"a.csv, in the block that begins at line 3: .*UTF8"),
    ],
)
def test_damage_is_an_error_that_names_the_place(data: bytes, what: str) -> None:
    with pytest.raises(CorruptData, match=what):
        list(read(data, block_size=2))


def test_a_block_that_cannot_be_used_costs_no_other() -> None:
    found = outcomes(read(b"x\n1\nz\n3\n\0\n5\n", block_size=2, as_="dict"))
    assert [element for element in found if isinstance(element, dict)] == [{"x": [1]}, {"x": [3]}, {"x": [5]}]
    assert [element.partition(":")[0] for element in found if isinstance(element, str)] == ["CorruptData"] * 2


def test_a_row_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datapipes.iter.formats.csv_columns._LONGEST", 1000)
    found = outcomes(read(b'x\n1\n"' + b"2\n" * 5000, block_size=100, as_="dict"))
    assert found[0] == {"x": [1]}
    assert found[1].startswith("CorruptData: a.csv, line 3: a row of over 1")
    assert len(found) == 2
