"""Specimens of the operators that read records and tables: TFRecord, JSON, Parquet, Arrow, columns of CSV."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from tests.records import example, tfrecord
from tests.specimens.specimen import Specimen, Tap, shuffled

TFRECORDS = ("a.tfrecord", "empty.tfrecord", "b.tfrecord")
JSONS = ("a.json", "b.json", "c.json")
JSONLS = ("a.jsonl", "empty.jsonl", "b.jsonl")
PARQUETS = ("a.parquet", "b.parquet", "empty.parquet")
ARROWS = ("a.arrow", "b.arrows", "empty.arrows")
TABLES = ("a.columns", "empty.columns", "b.columns")


def table(start: int, stop: int) -> Any:
    schema = pa.schema({"x": pa.int64(), "name": pa.string()})
    return pa.table([list(range(start, stop)), [f"name {x}" for x in range(start, stop)]], schema)


@cache
def records() -> Path:
    """The folder of these files; it goes when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="specimens-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    for name, numbers in (("a.tfrecord", range(3)), ("empty.tfrecord", range(0)), ("b.tfrecord", range(3, 5))):
        (path / name).write_bytes(tfrecord(*(example(number=[n], text=[b"text %d" % n]) for n in numbers)))
    for i, name in enumerate(JSONS):
        (path / name).write_text(json.dumps({"x": [i, None, "ä"]}))
    for name, numbers in (("a.jsonl", range(3)), ("empty.jsonl", range(0)), ("b.jsonl", range(3, 5))):
        (path / name).write_text("\n".join(json.dumps({"x": n}) for n in numbers))
    for name, start, stop in (("a.parquet", 0, 8), ("b.parquet", 8, 10), ("empty.parquet", 0, 0)):
        pq.write_table(table(start, stop), path / name, row_group_size=3)
    for name, start, stop in (("a.arrow", 0, 7), ("b.arrows", 7, 10), ("empty.arrows", 0, 0)):
        make = pa.ipc.new_file if name == "a.arrow" else pa.ipc.new_stream
        with make(str(path / name), table(0, 0).schema) as writer:
            writer.write_table(table(start, stop), max_chunksize=3)
    for name, numbers in (("a.columns", range(3)), ("empty.columns", range(0)), ("b.columns", range(3, 5))):
        (path / name).write_text("x,name\n" * bool(numbers) + "".join(f'{n},"a\nname {n}"\n' for n in numbers))
    return path


def of(*names: str) -> Pipe:
    return IterableWrapper([str(records() / name) for name in names])


def count_of(element: Any) -> Any:
    """A pair that is handed on, with the path shortened."""
    return element[0].rpartition("/")[2], element[1]


def opened(tap: Tap, *names: str) -> Pipe:
    return tap(of(*names)).open_files("rb")


def forked_batches(tap: Tap) -> Pipe:
    a, b = tap(of(*PARQUETS)).read_parquet(batch_size=2, as_="dict").fork(2)
    return a.batch(2).mux(b)


def forked_records(tap: Tap) -> Pipe:
    a, b = opened(tap, *TFRECORDS).load_from_tfrecord().fork(2)
    return a.batch(2).mux(b)


def damaged_records(tap: Tap) -> Pipe:
    path = records() / "damaged.tfrecord"
    data = bytearray((records() / "a.tfrecord").read_bytes() * 2)
    data[20] ^= 1
    path.write_bytes(data[:-1])
    return IterableWrapper([str(path), str(records() / "b.tfrecord")]).open_files("rb").load_from_tfrecord()


def damaged_lines(tap: Tap) -> Pipe:
    path = records() / "damaged.jsonl"
    path.write_bytes(b'{"x": 1}\n{"x": \n\xff\n\n{"x": 2}\n')
    return IterableWrapper([str(path), str(records() / "a.jsonl")]).open_files("rb").parse_jsonl(return_path=False)


def damaged_groups(tap: Tap) -> Pipe:
    path = records() / "damaged.parquet"
    data = (records() / "a.parquet").read_bytes()
    path.write_bytes(data[:8] + b"\xff" * 30 + data[38:])
    return IterableWrapper([str(path), str(records() / "b.parquet")]).read_parquet(batch_size=2)


def damaged_columns(tap: Tap) -> Pipe:
    path = records() / "damaged.columns"
    path.write_bytes(b"x,y\n1,2\n3\n5,6\n7,\0\n9,10\n" + b'11,"12\n')
    return IterableWrapper([str(path), str(records() / "a.columns")]).read_csv_columns(["x"], block_size=4)


SPEC = {"text": ((), None), "number": ((1, -1), torch.float32)}

RECORDS = [
    Specimen("iter.load_from_tfrecord", "all features", lambda tap: opened(tap, *TFRECORDS).load_from_tfrecord()),
    Specimen(
        "iter.load_from_tfrecord",
        "some, below a prefetch",
        lambda tap: opened(tap, *TFRECORDS).prefetch(2).load_from_tfrecord(SPEC).batch(2),
    ),
    shuffled(
        "iter.load_from_tfrecord",
        "shuffled files, shuffled records",
        lambda tap: tap(of(*TFRECORDS)).shuffle().open_files("rb").load_from_tfrecord(SPEC).shuffle(buffer_size=2),
    ),
    Specimen("iter.load_from_tfrecord", "forked", forked_records),
    Specimen("iter.load_from_tfrecord", "damaged files", damaged_records, raises=True),
    Specimen("iter.parse_json_files", "binary", lambda tap: opened(tap, *JSONS).parse_json_files().map(count_of)),
    shuffled(
        "iter.parse_json_files",
        "text, shuffled",
        lambda tap: tap(of(*JSONS, *JSONS)).shuffle().open_files().parse_json_files(parse_int=float).map(count_of),
    ),
    Specimen("iter.parse_jsonl", "binary", lambda tap: opened(tap, *JSONLS).parse_jsonl().map(count_of)),
    Specimen(
        "iter.parse_jsonl",
        "text, in batches",
        lambda tap: tap(of(*JSONLS)).open_files().parse_jsonl(return_path=False).batch(2),
    ),
    shuffled(
        "iter.parse_jsonl",
        "shuffled",
        lambda tap: tap(of(*JSONLS)).shuffle().open_files("b").parse_jsonl(return_path=False).shuffle(buffer_size=2),
    ),
    Specimen("iter.parse_jsonl", "damaged files", damaged_lines, raises=True),
    Specimen("iter.list_row_groups", "of files", lambda tap: tap(of(*PARQUETS)).list_row_groups().map(count_of)),
    shuffled(
        "iter.list_row_groups",
        "shuffled, then read",
        lambda tap: tap(of(*PARQUETS)).list_row_groups().shuffle().read_parquet(as_="dict").shuffle(buffer_size=2),
    ),
    Specimen("iter.read_parquet", "row groups", lambda tap: tap(of(*PARQUETS)).read_parquet()),
    Specimen(
        "iter.read_parquet",
        "rows, as tensors",
        lambda tap: tap(of(*PARQUETS)).read_parquet(["x"], batch_size=2, as_="tensors").prefetch(2),
    ),
    Specimen("iter.read_parquet", "streams", lambda tap: opened(tap, *PARQUETS).read_parquet(batch_size=2)),
    shuffled(
        "iter.read_parquet",
        "shuffled batches",
        lambda tap: tap(of(*PARQUETS)).shuffle().read_parquet(batch_size=1).shuffle(buffer_size=3).batch(2),
    ),
    Specimen("iter.read_parquet", "forked", forked_batches),
    Specimen("iter.read_parquet", "damaged files", damaged_groups, raises=True),
    Specimen("iter.load_parquet_as_df", "row groups", lambda tap: tap(of(*PARQUETS)).load_parquet_as_df()),
    shuffled(
        "iter.load_parquet_as_df",
        "shuffled frames",
        lambda tap: tap(of(*PARQUETS)).load_parquet_as_df({"x": "int16"}, ["x"]).shuffle(buffer_size=2),
    ),
    Specimen("iter.read_arrow", "files and streams", lambda tap: tap(of(*ARROWS)).read_arrow()),
    Specimen(
        "iter.read_arrow", "of streams, a column", lambda tap: opened(tap, *ARROWS).read_arrow(["x"], as_="tensors")
    ),
    shuffled("iter.read_arrow", "shuffled", lambda tap: tap(of(*ARROWS)).shuffle().read_arrow().shuffle(buffer_size=2)),
    Specimen("iter.read_csv_columns", "blocks", lambda tap: tap(of(*TABLES)).read_csv_columns(block_size=4)),
    Specimen(
        "iter.read_csv_columns",
        "of streams, one column",
        lambda tap: opened(tap, *TABLES).read_csv_columns(["x"], {"x": "float32"}, block_size=9, as_="tensors"),
    ),
    shuffled(
        "iter.read_csv_columns",
        "shuffled",
        lambda tap: tap(of(*TABLES)).shuffle().read_csv_columns(block_size=4, as_="dict").shuffle(buffer_size=2),
    ),
    Specimen("iter.read_csv_columns", "damaged files", damaged_columns, raises=True),
]
