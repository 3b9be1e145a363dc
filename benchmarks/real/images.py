"""JPEGs in folders, one for each class: decoded, shuffled and batched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.real import data, kind, loaders

CLASSES = 10
BATCH = 32


def make(folder: Path, elements: int) -> None:
    for number in range(elements):
        place = folder / f"class-{number % CLASSES}"
        place.mkdir(exist_ok=True)
        (place / f"{number:06d}.jpg").write_bytes(data.jpeg(number))


def decoded(path: str) -> tuple[npt.NDArray[np.uint8], int]:
    return data.pixels(path), label(path)


def label(path: str) -> int:
    return int(Path(path).parent.name.rpartition("-")[2])


class Images:
    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[npt.NDArray[np.uint8], int]:
        return decoded(self.paths[number])


def paths(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("class-*/*.jpg"))


def ours(folder: Path, workers: int) -> Any:
    from tutorials.recipes import pictures_in_folders

    samples = [(path, label(path)) for path in paths(folder)]
    return loaders.ours(pictures_in_folders.training(samples, _decoded_samples), workers)


def _decoded_samples(samples: Any) -> Any:
    return samples.map(_decoded_sample)


def _decoded_sample(sample: tuple[str, int]) -> tuple[npt.NDArray[np.uint8], int]:
    return data.pixels(sample[0]), sample[1]


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of_rows(Images(paths(folder)), BATCH, workers)


def datasets(folder: Path, workers: int) -> Any:
    from datasets import Dataset, Image

    found = paths(folder)
    rows = Dataset.from_dict({"image": found, "label": list(map(label, found))}).cast_column("image", Image())
    return loaders.torch_of_rows(rows.with_transform(_arrays), BATCH, workers)


def _arrays(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {"image": list(map(data.resized, rows["image"])), "label": rows["label"]}


def nodes(folder: Path, workers: int) -> Any:
    return loaders.nodes_of_rows(Images(paths(folder)), BATCH, workers)


def old(folder: Path, workers: int) -> Any:
    from importlib import import_module

    from torch.utils.data import default_collate

    names = import_module("torchdata.datapipes.iter").FileLister(str(folder), masks="*.jpg", recursive=True)
    return loaders.old(names.shuffle().sharding_filter().map(decoded).batch(BATCH).collate(default_collate), workers)


def spdl(folder: Path, workers: int) -> Any:
    return loaders.spdl_of_rows(Images(paths(folder)), BATCH, workers)


def grain(folder: Path, workers: int) -> Any:
    return loaders.grain_of_rows(Images(paths(folder)), BATCH, workers)


KIND = kind.Kind(
    "JPEGs in folders",
    "images",
    2_000,
    make,
    kind.ways(ours, torch, datasets, nodes, old, spdl, grain),
)
