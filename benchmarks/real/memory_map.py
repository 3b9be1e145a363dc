"""Rows of a memory map, 4 KiB each, read in a random order and batched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as torch_

from benchmarks.real import kind, loaders

WIDTH = 1_024
BATCH = 256


def make(folder: Path, elements: int) -> None:
    random = np.random.default_rng(4)
    with (folder / "rows.f32").open("wb") as file:
        for start in range(0, elements, 10_000):
            random.random((min(10_000, elements - start), WIDTH), dtype=np.float32).tofile(file)


def mapped(folder: Path) -> Any:
    return np.memmap(folder / "rows.f32", dtype=np.float32, mode="r").reshape(-1, WIDTH)


class Rows:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> npt.NDArray[np.float32]:
        return np.array(self.rows[number])


class RowsAtOnce(Rows):
    """Torch's short way: the rows of a batch by one call."""

    def __getitems__(self, numbers: list[int]) -> torch_.Tensor:
        return torch_.from_numpy(self.rows[numbers])


def whole(batch: torch_.Tensor) -> torch_.Tensor:
    return batch


def ours(folder: Path, workers: int) -> Any:
    return loaders.ours_of_rows(mapped(folder), BATCH, workers)


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of_rows(Rows(mapped(folder)), BATCH, workers)


def torch_at_once(folder: Path, workers: int) -> Any:
    rows = RowsAtOnce(mapped(folder))
    return loaders.torch_of(rows, workers, batch_size=BATCH, shuffle=True, collate_fn=whole)


def datasets(folder: Path, workers: int) -> Any:
    """Its own tables are memory maps."""
    from datasets import load_from_disk

    return loaders.torch_of_rows(load_from_disk(folder / kind.DATASETS).with_format("torch"), BATCH, workers)


def as_table(folder: Path, target: Path) -> None:
    from datasets import Dataset, Features, Sequence, Value

    features = Features({"row": Sequence(Value("float32"), length=WIDTH)})
    rows = Dataset.from_generator(
        _each_row, features=features, gen_kwargs={"folder": folder}, cache_dir=str(target / "cache")
    )
    rows.save_to_disk(target)


def _each_row(folder: Path) -> Iterator[dict[str, Any]]:
    return ({"row": row} for row in mapped(folder))


def nodes(folder: Path, workers: int) -> Any:
    return loaders.nodes_of_rows(Rows(mapped(folder)), BATCH, workers)


def old(folder: Path, workers: int) -> Any:
    return loaders.old_of_rows(Rows(mapped(folder)), BATCH, workers)


def spdl(folder: Path, workers: int) -> Any:
    return loaders.spdl_of_batches(Rows(mapped(folder)), BATCH, workers)


def grain(folder: Path, workers: int) -> Any:
    return loaders.grain_of_rows(Rows(mapped(folder)), BATCH, workers)


KIND = kind.Kind(
    "Rows of a memory map",
    "rows",
    100_000,
    make,
    (
        kind.Way(kind.OURS, ours),
        kind.Way(kind.TORCH, torch),
        kind.Way(kind.TORCH, torch_at_once, "__getitems__", share=0.85),
        kind.Way(kind.DATASETS, datasets, prepare=as_table),
        kind.Way(kind.NODES, nodes),
        kind.Way(kind.OLD, old),
        kind.Way(kind.SPDL, spdl),
        kind.Way(kind.GRAIN, grain),
    ),
)
