"""Small pictures in memory, augmented in Python: cut out, mirrored, brightened, normalised.

Its random values follow from the picture's number, so that the elements of all contenders can be compared.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.real import kind, loaders

SIDE = 32
BATCH = 128


def make(folder: Path, elements: int) -> None:
    random = np.random.default_rng(5)
    np.save(folder / "pictures.npy", random.integers(0, 256, (elements, SIDE, SIDE, 3), dtype=np.uint8))
    np.save(folder / "labels.npy", random.integers(0, 10, elements))


class Pictures:
    def __init__(self, folder: Path) -> None:
        self.pictures = np.load(folder / "pictures.npy")
        self.labels = np.load(folder / "labels.npy")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[npt.NDArray[np.float32], int]:
        return augmented(self.pictures[number], number), int(self.labels[number])


def augmented(picture: npt.NDArray[np.uint8], number: int) -> npt.NDArray[np.float32]:
    random = Random(number)
    top, left = random.randrange(9), random.randrange(9)
    padded = np.pad(picture, ((4, 4), (4, 4), (0, 0)), mode="reflect")
    cut = padded[top : top + SIDE, left : left + SIDE].astype(np.float32)
    if random.random() < 0.5:
        cut = cut[:, ::-1]
    cut = np.clip(cut * (0.8 + 0.4 * random.random()), 0, 255)
    return np.ascontiguousarray((cut / 255 - 0.5) / 0.25).astype(np.float32)


def ours(folder: Path, workers: int) -> Any:
    return loaders.ours_of_rows(Pictures(folder), BATCH, workers)


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of_rows(Pictures(folder), BATCH, workers)


def datasets(folder: Path, workers: int) -> Any:
    from datasets import load_from_disk

    rows = load_from_disk(folder / kind.DATASETS).with_transform(_augmented_rows)
    return loaders.torch_of_rows(rows, BATCH, workers)


def as_table(folder: Path, target: Path) -> None:
    from datasets import Dataset

    found = Pictures(folder)
    flat = found.pictures.reshape(len(found), -1)
    columns = {"picture": list(flat), "label": found.labels, "number": np.arange(len(found))}
    Dataset.from_dict(columns).save_to_disk(target)


def _augmented_rows(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    pictures = (np.asarray(picture, dtype=np.uint8).reshape(SIDE, SIDE, 3) for picture in rows["picture"])
    made = [augmented(picture, number) for picture, number in zip(pictures, rows["number"], strict=True)]
    return {"a": made, "b": rows["label"]}


def nodes(folder: Path, workers: int) -> Any:
    return loaders.nodes_of_rows(Pictures(folder), BATCH, workers)


def old(folder: Path, workers: int) -> Any:
    return loaders.old_of_rows(Pictures(folder), BATCH, workers)


def spdl(folder: Path, workers: int) -> Any:
    return loaders.spdl_of_batches(Pictures(folder), BATCH, workers)


def grain(folder: Path, workers: int) -> Any:
    return loaders.grain_of_rows(Pictures(folder), BATCH, workers)


KIND = kind.Kind(
    "Small images, augmented in Python",
    "images",
    50_000,
    make,
    (
        kind.Way(kind.OURS, ours),
        kind.Way(kind.TORCH, torch),
        kind.Way(kind.DATASETS, datasets, prepare=as_table),
        kind.Way(kind.NODES, nodes),
        kind.Way(kind.OLD, old),
        kind.Way(kind.SPDL, spdl),
        kind.Way(kind.GRAIN, grain),
    ),
)
