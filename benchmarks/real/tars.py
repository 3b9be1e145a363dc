"""JPEGs in tar shards, in the three orders in which people write it.

A sample is a picture and its label. It is shuffled as streams (what the archive gives, not read yet), as bytes (read,
not decoded), or as arrays (decoded); each order has another price in memory. litdata has a form of its own in place of
tars: the same bytes and labels in chunks of 64 MB.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset, default_collate

from benchmarks.real import data, kind, loaders

CLASSES = 10
BATCH = 32
SHARDS = 8
BUFFER = loaders.BUFFER
STREAMS, BYTES, DECODED = "streams shuffled", "bytes shuffled", "decoded, then shuffled"

Sample = tuple[npt.NDArray[np.uint8], int]


def make(folder: Path, elements: int) -> None:
    write(folder, elements, data.jpeg)


def write(folder: Path, elements: int, jpeg: Callable[[int], bytes]) -> None:
    for shard in range(SHARDS):
        with tarfile.open(folder / f"shard-{shard:03d}.tar", "w") as tar:
            for number in range(shard, elements, SHARDS):
                for ending, content in (("jpg", jpeg(number)), ("cls", str(number % CLASSES).encode())):
                    member = tarfile.TarInfo(f"{number:06d}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def decoded(sample: tuple[bytes, bytes | int]) -> Sample:
    content, label = sample
    return data.pixels(io.BytesIO(content)), int(label)


def shards(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("shard-*.tar")))


def read(sample: dict[str, Any]) -> tuple[bytes, bytes]:
    return sample[".jpg"].read(), sample[".cls"].read()


def read_and_decoded(sample: dict[str, Any]) -> Sample:
    return decoded(read(sample))


def in_order(order: str, samples: Any) -> Any:
    """Pipes of this library and of torchdata 0.9 from samples of streams to decoded ones, shuffled in between."""
    if order == STREAMS:
        return samples.shuffle(buffer_size=BUFFER).map(read_and_decoded)
    if order == BYTES:
        return samples.map(read).shuffle(buffer_size=BUFFER).map(decoded)
    return samples.map(read_and_decoded).shuffle(buffer_size=BUFFER)


def ours(order: str, folder: Path, workers: int) -> Any:
    from datapipes.iter import IterableWrapper
    from tutorials.recipes import pictures_in_tars

    if order == BYTES:
        graph: Any = pictures_in_tars.training(shards(folder), _decoded_samples, BUFFER)
    else:
        files = IterableWrapper(shards(folder)).shuffle().sharding_filter().open_files("rb")
        graph = in_order(order, pictures_in_tars.samples(files)).batch(BATCH).collate()
    return loaders.ours(graph, workers)


def _decoded_samples(samples: Any) -> Any:
    return samples.map(decoded)


def old(order: str, folder: Path, workers: int) -> Any:
    wrapper = import_module("torchdata.datapipes.iter").IterableWrapper
    files = wrapper(shards(folder)).shuffle().sharding_filter().open_files("rb")
    samples = in_order(order, files.load_from_tar().webdataset())
    return loaders.old(samples.batch(BATCH).collate(default_collate), workers)


class Tars(IterableDataset[Sample]):
    """By hand, for torch's DataLoader."""

    def __init__(self, paths: list[str], order: str) -> None:
        self.paths = paths
        self.order = order

    def __iter__(self) -> Iterator[Sample]:
        mix: Callable[[Any], Iterator[Any]] = loaders.ShuffleBuffer(BUFFER)
        if self.order == STREAMS:
            return map(read_and_decoded, mix(self.samples()))
        if self.order == BYTES:
            return map(decoded, mix(map(read, self.samples())))
        return mix(map(read_and_decoded, self.samples()))

    def samples(self) -> Iterator[dict[str, Any]]:
        mine = list(loaders.part_of_worker(self.paths))
        for path in loaders.Shuffled(mine):
            sample: dict[str, Any] = {}
            for member in (tar := tarfile.open(path)):  # noqa: SIM115  # its streams wait in the buffer
                name, _, ending = member.name.partition(".")
                if sample and sample["key"] != name:
                    yield sample
                    sample = {}
                sample |= {"key": name, f".{ending}": tar.extractfile(member)}
            if sample:
                yield sample


def torch(order: str, folder: Path, workers: int) -> Any:
    return loaders.torch_of(Tars(shards(folder), order), workers, batch_size=BATCH)


def webdataset(order: str, folder: Path, workers: int) -> Any:
    import webdataset as wds

    paths = shards(folder)
    samples = wds.WebDataset(paths, shardshuffle=len(paths)).to_tuple("jpg", "cls")
    samples = samples.shuffle(BUFFER).map(decoded) if order == BYTES else samples.map(decoded).shuffle(BUFFER)
    batches = samples.batched(BATCH, collation_fn=default_collate)
    return wds.WebLoader(batches, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


def datasets(order: str, folder: Path, workers: int) -> Any:
    from datasets import Image, load_dataset

    rows = load_dataset("webdataset", data_files=shards(folder), split="train", streaming=True)
    rows = rows.cast_column("jpg", Image(decode=False))
    rows = rows.shuffle(seed=0, buffer_size=BUFFER).map(_decoded_row, remove_columns=["__key__", "__url__", "cls"])
    return loaders.torch_of(rows, workers, batch_size=BATCH)


def _decoded_row(row: dict[str, Any]) -> dict[str, Any]:
    content = row["jpg"]["bytes"]
    image, label = decoded((content, row["cls"] if isinstance(row["cls"], bytes) else str(row["cls"]).encode()))
    return {"jpg": image, "label": label}


def litdata(order: str, folder: Path, workers: int) -> Any:
    from litdata import StreamingDataLoader, StreamingDataset

    rows = StreamingDataset(str(folder / kind.LITDATA), shuffle=True, transform=_decoded_pair)
    return StreamingDataLoader(rows, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)


def _decoded_pair(pair: dict[str, Any], *_: Any) -> Sample:
    return decoded((pair["image"], str(pair["label"]).encode()))


def in_chunks(folder: Path, target: Path) -> None:
    import litdata

    litdata.optimize(
        fn=_pairs, inputs=shards(folder), output_dir=str(target), chunk_bytes="64MB", num_workers=1, verbose=False
    )


def _pairs(path: str) -> Iterator[dict[str, Any]]:
    for sample in Tars([path], STREAMS).samples():
        content, label = read(sample)
        yield {"image": content, "label": int(label)}


def kind_of(order: str) -> kind.Kind:
    ways = [kind.Way(kind.OURS, partial(ours, order)), kind.Way(kind.TORCH, partial(torch, order))]
    if order != STREAMS:
        ways.append(kind.Way(kind.WEBDATASET, partial(webdataset, order)))
    if order == BYTES:
        ways.append(kind.Way(kind.DATASETS, partial(datasets, order)))
        ways.append(kind.Way(kind.LITDATA, partial(litdata, order), prepare=in_chunks))
    ways.append(kind.Way(kind.OLD, partial(old, order)))
    return kind.Kind(f"JPEGs in tars, {order}", "images", 2_000, make, tuple(ways), ahead=1.15, lean=True)


KINDS = {order: kind_of(order) for order in (STREAMS, BYTES, DECODED)}
