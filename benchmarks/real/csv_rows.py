"""Rows of CSV files: parsed, shuffled in a buffer, made numbers of, batched."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset, default_collate

from benchmarks.real import kind, loaders

FILES = 8
BATCH = 256
BUFFER = 10_000
NAMES = ["id", "x", "y", "z", "name", "label"]

Row = tuple[float, float, float, int]


def make(folder: Path, elements: int) -> None:
    random = np.random.default_rng(3)
    for number, ids in enumerate(np.array_split(np.arange(elements), FILES)):
        values, labels = random.random((len(ids), 3)).round(6).tolist(), random.integers(0, 10, len(ids)).tolist()
        with (folder / f"part-{number}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(NAMES)
            rows.writerows(
                [one, *three, f"name {one}", label] for one, three, label in zip(ids, values, labels, strict=True)
            )


def paths(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("part-*.csv")))


def features(row: list[str]) -> Row:
    return float(row[1]), float(row[2]), float(row[3]), int(row[5])


def ours(folder: Path, workers: int) -> Any:
    from tutorials.recipes import rows_of_csv

    return loaders.ours(rows_of_csv.training(paths(folder), features), workers)


class Rows(IterableDataset[Row]):
    """By hand, for torch's DataLoader."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[Row]:
        mix: Any = loaders.ShuffleBuffer(BUFFER)
        return map(features, mix(self.rows()))

    def rows(self) -> Iterator[list[str]]:
        for path in loaders.Shuffled(loaders.part_of_worker(self.files)):
            yield from rows_of(path)


def rows_of(path: str) -> Iterator[list[str]]:
    with open(path, newline="") as file:
        rows = csv.reader(file)
        next(rows)
        yield from rows


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of(Rows(paths(folder)), workers, batch_size=BATCH)


def datasets(folder: Path, workers: int) -> Any:
    from datasets import load_dataset

    rows = load_dataset("csv", data_files=paths(folder), split="train", streaming=True)
    rows = rows.remove_columns(["id", "name"]).shuffle(seed=0, buffer_size=BUFFER).with_format("torch")
    return loaders.torch_of(rows, workers, batch_size=BATCH)


def plain(batch: Any) -> Any:
    return [batch[name] for name in ("x", "y", "z", "label")] if isinstance(batch, dict) else batch


class Mixed:
    """The rows of all files, shuffled; opened anew each epoch."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[list[str]]:
        mix: Any = loaders.ShuffleBuffer(BUFFER)
        mixed: Iterator[list[str]] = mix(Rows(self.files).rows())
        return mixed


def batch_of(rows: list[list[str]]) -> Any:
    return default_collate(list(map(features, rows)))


def nodes(folder: Path, workers: int) -> Any:
    from torchdata import nodes

    mixed = nodes.IterableWrapper(Mixed(paths(folder)))
    return loaders.nodes_in_parallel(nodes.Batcher(mixed, BATCH, drop_last=False), batch_of, workers)


def old(folder: Path, workers: int) -> Any:
    wrapper = import_module("torchdata.datapipes.iter").IterableWrapper
    files = wrapper(paths(folder)).shuffle().sharding_filter().open_files()
    rows = files.parse_csv(skip_lines=1).shuffle(buffer_size=BUFFER).map(features)
    return loaders.old(rows.batch(BATCH).collate(default_collate), workers)


def spdl(folder: Path, workers: int) -> Any:
    rows = loaders.InLists(Mixed(paths(folder)), BATCH)
    return loaders.SpdlPipeline(partial(loaders.spdl_mapped, rows, batch_of, workers))


KIND = kind.Kind(
    "Rows of CSV files",
    "rows",
    400_000,
    make,
    kind.ways(ours, torch, datasets, nodes, old, spdl),
    plain=plain,
)
