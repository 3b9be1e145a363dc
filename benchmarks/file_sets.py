"""The files that `benchmarks.file_formats` reads: made anew for each run, the same in every run."""

import csv
import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

ROWS = 100_000
RECORDS = 20_000
MEMBERS = 5_000
SAMPLES = 2_000
ROW_GROUPS = 40


@dataclass(frozen=True)
class FileSet:
    """Paths, how many elements are in them, and how many bytes those are before compression."""

    paths: list[str]
    elements: int
    bytes: int


def csv_rows(folder: Path) -> FileSet:
    path = folder / "rows.csv"
    random = Random(1)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [number, round(random.random(), 6), round(random.gauss(0, 1), 6), f"name {number}", random.randrange(10)]
            for number in range(ROWS)
        )
    return FileSet([str(path)], ROWS, path.stat().st_size)


def json_documents(folder: Path) -> FileSet:
    paths = [folder / f"{number}.json" for number in range(MEMBERS)]
    for number, path in enumerate(paths):
        path.write_text(json.dumps(_record(number, 20)))
    return FileSet([str(path) for path in paths], MEMBERS, sum(path.stat().st_size for path in paths))


def json_lines(folder: Path) -> FileSet:
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(_record(number, 4)) + "\n" for number in range(RECORDS)))
    return FileSet([str(path)], RECORDS, path.stat().st_size)


def gzipped_lines(folder: Path) -> FileSet:
    path = folder / "records.jsonl.gz"
    text = "".join(json.dumps(_record(number, 4)) + "\n" for number in range(RECORDS)).encode()
    with gzip.open(path, "wb") as file:
        file.write(text)
    return FileSet([str(path)], RECORDS, len(text))


def tar_members(folder: Path) -> FileSet:
    return _tar(folder, _members())


def tar_of_pictures(folder: Path) -> FileSet:
    return _tar(folder, _members_of(40 * 1024))


def tar_of_records(folder: Path) -> FileSet:
    return _tar(folder, _members_of(1024))


def _tar(folder: Path, members: Iterator[tuple[str, bytes]]) -> FileSet:
    path = folder / "members.tar"
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            _add(tar, name, data)
    return FileSet([str(path)], MEMBERS, path.stat().st_size)


def zip_members(folder: Path) -> FileSet:
    path = folder / "members.zip"
    size = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _members():
            archive.writestr(name, data)
            size += len(data)
    return FileSet([str(path)], MEMBERS, size)


def webdataset_shards(folder: Path) -> FileSet:
    """Samples of an image's bytes and a JSON label, as many to a shard as its users put there."""
    paths = [folder / f"shard-{number:04d}.tar" for number in range(4)]
    random = Random(2)
    for number, path in enumerate(paths):
        with tarfile.open(path, "w") as tar:
            for sample in range(number, SAMPLES, len(paths)):
                _add(tar, f"{sample:06d}.jpg", random.randbytes(random.randrange(8_000, 40_000)))
                _add(tar, f"{sample:06d}.json", json.dumps({"label": sample % 10, "id": sample}).encode())
    return FileSet([str(path) for path in paths], SAMPLES, sum(path.stat().st_size for path in paths))


def parquet_rows(folder: Path) -> FileSet:
    import pyarrow
    from pyarrow import parquet

    path = folder / "rows.parquet"
    random = Random(3)
    table = pyarrow.table(
        {
            "id": range(10 * ROWS),
            "x": [random.random() for _ in range(10 * ROWS)],
            "name": [f"name {number % 1000}" for number in range(10 * ROWS)],
        }
    )
    parquet.write_table(table, path, row_group_size=10 * ROWS // ROW_GROUPS)
    return FileSet([str(path)], ROW_GROUPS, table.nbytes)


def tf_records(folder: Path) -> FileSet:
    """Examples as TensorFlow writes them: a list of floats, a number and a name."""
    import google_crc32c

    def masked(data: bytes) -> bytes:
        crc: int = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    path = folder / "examples.tfrecord"
    with path.open("wb") as file:
        for number in range(RECORDS):
            payload = _example(number)
            length = struct.pack("<Q", len(payload))
            file.write(length + masked(length) + payload + masked(payload))
    return FileSet([str(path)], RECORDS, path.stat().st_size)


MAKERS: dict[str, Callable[[Path], FileSet]] = {
    "csv": csv_rows,
    "json": json_documents,
    "jsonl": json_lines,
    "gzip": gzipped_lines,
    "jsonl.gz": gzipped_lines,
    "tar": tar_members,
    "tar-40": tar_of_pictures,
    "tar-1": tar_of_records,
    "zip": zip_members,
    "parquet": parquet_rows,
    "tfrecord": tf_records,
    "webdataset": webdataset_shards,
}


def _record(number: int, values: int) -> dict[str, object]:
    random = Random(number)
    return {"id": number, "name": f"name {number}", "values": [round(random.random(), 6) for _ in range(values)]}


def _members() -> Iterator[tuple[str, bytes]]:
    random = Random(4)
    for number in range(MEMBERS):
        yield f"{number:06d}.bin", random.randbytes(2_000) + bytes(2_000)


def _members_of(size: int) -> Iterator[tuple[str, bytes]]:
    random = Random(5)
    for number in range(MEMBERS):
        yield f"{number:06d}.bin", random.randbytes(size)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _example(number: int) -> bytes:
    floats = struct.pack("<16f", *(number + i / 16 for i in range(16)))
    features = (
        _entry(b"x", _field(2, _field(1, floats)))
        + _entry(b"label", _field(3, _field(1, _varint(number))))
        + _entry(b"name", _field(1, _field(1, f"name {number}".encode())))
    )
    return _field(1, features)


def _entry(key: bytes, feature: bytes) -> bytes:
    return _field(1, _field(1, key) + _field(2, feature))


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
