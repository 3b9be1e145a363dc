"""Files close when they are read, left, or found damaged: at once, and not when the garbage collector comes by."""

from __future__ import annotations

import csv
import gc
import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datapipes.errors import CorruptStream
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper

TABLE = pa.table({"x": list(range(1000)), "y": [str(i) for i in range(1000)]})


def contents(pipe: Any) -> Any:
    return pipe.map(lambda pair: pair[1].read())


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in range(20):
            info = tarfile.TarInfo(f"{number}.txt")
            info.size = 1000
            archive.addfile(info, io.BytesIO(os.urandom(1000)))
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(20):
            archive.writestr(f"{number}.txt", b"x" * 1000)
    return file.getvalue()


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(TABLE, file, row_group_size=300)
    return file.getvalue()


def arrow(make: Callable[..., Any]) -> bytes:
    file = io.BytesIO()
    with make(file, TABLE.schema) as writer:
        writer.write_table(TABLE, 100)
    return file.getvalue()


WAYS: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    "tar": (tar(), lambda path: contents(path.open_files("b").load_from_tar())),
    "tar.gz": (gzip.compress(tar()), lambda path: contents(path.open_files("b").load_from_tar("r|*"))),
    "zip": (zipped(), lambda path: contents(path.open_files("b").load_from_zip())),
    "gzip": (gzip.compress(os.urandom(5000)), lambda path: contents(path.open_files("b").decompress("gzip"))),
    "csv": (b"a,b\n" + b"1,2\n" * 999 + b"1,\xff\n1", lambda path: path.open_files("b").parse_csv()),
    "header": (b"a,b\xff\n1,2\n", lambda path: path.open_files("r").parse_csv_as_dict()),
    "json": (b"[1, 2]", lambda path: path.open_files("b").parse_json_files()),
    "lines": (b"one\n" * 100, lambda path: path.open_files("r").readlines()),
    "parquet": (parquet(), lambda path: path.read_parquet(batch_size=100)),
    "frames": (parquet(), lambda path: path.open_files("b").load_parquet_as_df()),
    "groups": (parquet(), lambda path: path.list_row_groups().read_parquet()),
    "arrow file": (arrow(pa.ipc.new_file), lambda path: path.read_arrow()),
    "arrow stream": (arrow(pa.ipc.new_stream), lambda path: path.read_arrow()),
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def open_files(folder: Path) -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    return [path for path in found if path.startswith(str(folder))]


def outcomes(pipe: Pipe, most: int) -> int:
    """How many elements and errors come of a pipe, at most so many, before it is left."""
    iterator, met = iter(pipe), 0
    while met < most:
        try:
            next(iterator)
        except StopIteration:
            break
        except (ValueError, csv.Error):
            pass
        met += 1
    return met


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("part", [1.0, 0.7, 0.3])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_stays_open(way: str, part: float, tmp_path: Path) -> None:
    content, read = WAYS[way]
    (tmp_path / "file").write_bytes(content[: round(part * len(content))])
    pipe = read(IterableWrapper([str(tmp_path / "file")]))
    for most in (1, 2, 5, 5000):
        assert outcomes(pipe, most) < 5000
        for _ in range(500):  # a thread of pyarrow's may hold a file a little longer
            if not open_files(tmp_path):
                break
            Event().wait(0.01)  # no event is sent for it
        assert open_files(tmp_path) == []


@pytest.mark.parametrize("method", ["readlines", "parse_jsonl", "read_from_stream"])
def test_a_broken_stream_is_one_error_and_then_the_next_file(method: str) -> None:
    whole = gzip.compress(b"1\n2\n")
    pairs = [("cut.gz", io.BytesIO(whole[:-9])), ("whole.gz", io.BytesIO(whole))]
    iterator = iter(getattr(IterableWrapper(pairs, deepcopy=False).decompress(), method)())
    found: list[Any] = []
    with pytest.raises(CorruptStream, match=r"^cut.gz"):
        found.extend(iterator)
    assert {path for path, _ in iterator} == {"whole.gz"}
