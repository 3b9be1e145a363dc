"""Each kind of file through its pipes, against the plain loop over the library that reads it.

Both do the same work: what comes out is compared before it is timed. A webdataset shard has a peer beside the plain
loop: the `webdataset` package, which reads the same shards.
"""

import csv
import gzip
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.file_sets import MAKERS, FileSet
from benchmarks.harness import OURS, Claim, Contender, contender, contest
from benchmarks.table import Table

HAND = "hand"
PACKAGE = "webdataset"

Read = Callable[[list[str]], Iterator[Any]]

AT_LEAST = 0.8


def tables(rounds: int) -> Iterator[Table]:
    for name, make in MAKERS.items():
        title, ours, by_hand = FORMATS[name]
        with TemporaryDirectory() as folder:
            files = make(Path(folder))
            loop = _contender("by hand: the library's plain loop", HAND, by_hand, files)
            contenders = [_contender("pipes", OURS, ours, files), loop]
            claims = [Claim(OURS, HAND, at_least=AT_LEAST)]
            if name == "webdataset":
                contenders.append(_contender("the webdataset package", PACKAGE, webdataset_package, files))
                claims.append(Claim(OURS, PACKAGE, at_least=1.0))
            yield contest(
                f"{title}, {len(files.paths)} file{'s' * (len(files.paths) > 1)}, {files.bytes / 2**20:.1f} MiB",
                contenders,
                claims,
                elements=files.elements,
                rounds=rounds,
                reference=loop,
            )


def _contender(name: str, family: str, read: Read, files: FileSet) -> Contender:
    return contender(name, family, lambda: read(files.paths))


def _source(paths: list[str]) -> Any:
    from datapipes.iter import IterableWrapper

    return IterableWrapper(paths)


def _opened(paths: list[str], mode: str = "rb") -> Any:
    return _source(paths).open_files(mode)


def _data(item: tuple[str, Any]) -> bytes:
    data: bytes = item[1].read()
    return data


def csv_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths, "r").parse_csv())


def csv_loop(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        with open(path, newline="") as file:
            yield from csv.reader(file)


def json_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).parse_json_files())


def json_loop(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        with open(path, "rb") as file:
            yield path, json.load(file)


def jsonl_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).parse_jsonl(return_path=False))


def jsonl_loop(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                yield json.loads(line)


def jsonl_gzip_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).decompress().parse_jsonl(return_path=False))


def jsonl_gzip_loop(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        with gzip.open(path, "rb") as file:
            for line in file:
                yield json.loads(line)


def gzip_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).decompress().readlines(strip_newline=False, return_path=False))


def gzip_loop(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        with gzip.open(path, "rb") as file:
            yield from file


def tar_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).load_from_tar().map(_data))


def tar_loop(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        with tarfile.open(path) as tar:
            for member in tar:
                stream = tar.extractfile(member)
                if stream is not None:
                    yield stream.read()


def zip_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).load_from_zip().map(_data))


def zip_loop(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                with archive.open(member) as stream:
                    yield stream.read()


def parquet_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_source(paths).read_parquet())


def parquet_loop(paths: list[str]) -> Iterator[Any]:
    from pyarrow import parquet

    for path in paths:
        with parquet.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield from file.read_row_group(group).to_batches()


def tfrecord_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).load_from_tfrecord().map(_plain))


def _plain(example: dict[str, Any]) -> tuple[list[float], int, bytes]:
    return example["x"].tolist(), int(example["label"]), example["name"][0]


def tfrecord_loop(paths: list[str]) -> Iterator[Any]:
    """The loop of the format's own libraries: check the sums, and have protobuf parse the example."""
    import google_crc32c
    import torch

    message = _example_message()
    for path in paths:
        with open(path, "rb") as file:
            while head := file.read(12):
                length, length_crc = struct.unpack("<QI", head)
                payload, (payload_crc,) = file.read(length), struct.unpack("<I", file.read(4))
                if _masked(google_crc32c.value(head[:8])) != length_crc:
                    raise ValueError("a length is damaged")
                if _masked(google_crc32c.value(payload)) != payload_crc:
                    raise ValueError("a payload is damaged")
                feature = message.FromString(payload).features.feature
                example = {
                    "x": torch.tensor(feature["x"].float_list.value),
                    "label": torch.tensor(feature["label"].int64_list.value),
                    "name": list(feature["name"].bytes_list.value),
                }
                yield _plain(example)


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _example_message() -> Any:
    """TensorFlow's Example, made at run time: no generated module comes with protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="benchmark", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, int, str]) -> Any:
        made = file.message_type.add(name=name)
        for field_name, number, label, kind, type_name in fields:
            made.field.add(name=field_name, number=number, label=label, type=kind, type_name=type_name or None)
        return made

    one, many = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    message("BytesList", ("value", 1, many, kinds.TYPE_BYTES, ""))
    message("FloatList", ("value", 1, many, kinds.TYPE_FLOAT, ""))
    message("Int64List", ("value", 1, many, kinds.TYPE_INT64, ""))
    message(
        "Feature",
        ("bytes_list", 1, one, kinds.TYPE_MESSAGE, ".benchmark.BytesList"),
        ("float_list", 2, one, kinds.TYPE_MESSAGE, ".benchmark.FloatList"),
        ("int64_list", 3, one, kinds.TYPE_MESSAGE, ".benchmark.Int64List"),
    )
    features = message("Features", ("feature", 1, many, kinds.TYPE_MESSAGE, ".benchmark.Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.field.add(name="key", number=1, label=one, type=kinds.TYPE_STRING)
    entry.field.add(name="value", number=2, label=one, type=kinds.TYPE_MESSAGE, type_name=".benchmark.Feature")
    entry.options.map_entry = True
    message("Example", ("features", 1, one, kinds.TYPE_MESSAGE, ".benchmark.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("benchmark.Example"))


def webdataset_pipes(paths: list[str]) -> Iterator[Any]:
    return iter(_opened(paths).load_from_tar().webdataset().map(_image_and_label))


def _image_and_label(sample: dict[str, Any]) -> tuple[bytes, bytes]:
    image, label = sample[".jpg"], sample[".json"]
    return _bytes_of(image), _bytes_of(label)


def _bytes_of(value: Any) -> bytes:
    data: bytes = value if isinstance(value, bytes) else value.read()
    return data


def webdataset_loop(paths: list[str]) -> Iterator[Any]:
    """The plain loop that such a reader comes down to: members of a tar, grouped by what is before the first dot."""
    for path in paths:
        with tarfile.open(path, "r|") as tar:
            sample: dict[str, bytes] = {}
            before = None
            for member in tar:
                key, _, suffix = member.name.partition(".")
                stream = tar.extractfile(member)
                if key != before and before is not None:
                    yield sample["jpg"], sample["json"]
                    sample = {}
                if stream is not None:
                    sample[suffix] = stream.read()
                before = key
            yield sample["jpg"], sample["json"]


def webdataset_package(paths: list[str]) -> Iterator[Any]:
    import webdataset

    dataset = webdataset.WebDataset(paths, shardshuffle=False)
    return ((sample["jpg"], sample["json"]) for sample in dataset)


FORMATS: dict[str, tuple[str, Read, Read]] = {
    "csv": ("CSV rows as strings", csv_pipes, csv_loop),
    "json": ("a JSON document a file", json_pipes, json_loop),
    "jsonl": ("a JSON document a line", jsonl_pipes, jsonl_loop),
    "gzip": ("lines of a gzip file", gzip_pipes, gzip_loop),
    "jsonl.gz": ("a JSON document a line of a gzip file", jsonl_gzip_pipes, jsonl_gzip_loop),
    "tar": ("members of a tar", tar_pipes, tar_loop),
    "tar-40": ("members of 40 KiB of a tar", tar_pipes, tar_loop),
    "tar-1": ("members of 1 KiB of a tar", tar_pipes, tar_loop),
    "zip": ("members of a zip", zip_pipes, zip_loop),
    "parquet": ("row groups of a Parquet file", parquet_pipes, parquet_loop),
    "tfrecord": ("records of a TFRecord file", tfrecord_pipes, tfrecord_loop),
    "webdataset": ("samples of webdataset shards", webdataset_pipes, webdataset_loop),
}
