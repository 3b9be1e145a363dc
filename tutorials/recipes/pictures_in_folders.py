"""Pictures in folders, with their labels in CSV files.

``train.csv`` and ``validation.csv`` lie in the folder and have the
columns ``file`` and ``label``. The list of files is permuted as a
whole, and each worker decodes only its own files.

    python pictures_in_folders.py FOLDER
"""

import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

SIZE, BATCH = 224, 32
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")

Sample = tuple[Any, int]
Stages = Callable[[IterDataPipe[Sample]], IterDataPipe[Sample]]


def labelled(folder: str, table: str) -> list[tuple[str, int]]:
    with Path(folder, table).open(newline="") as file:
        return [
            (str(Path(folder, row["file"])), int(row["label"]))
            for row in csv.DictReader(file)
        ]


def cropped(samples: IterDataPipe[Sample]) -> IterDataPipe[Sample]:
    return samples.decode_images(SIZE, crop="random", flip=True, key=0)


def central(samples: IterDataPipe[Sample]) -> IterDataPipe[Sample]:
    return samples.decode_images(SIZE, crop="center", key=0)


def training(
    samples: list[tuple[str, int]], decode: Stages = cropped
) -> IterDataPipe[Any]:
    files = IterableWrapper(samples, deepcopy=False)
    mine = files.shuffle().sharding_filter()
    return decode(mine).batch(BATCH).collate()


def validation(samples: list[tuple[str, int]]) -> IterDataPipe[Any]:
    mine = IterableWrapper(samples, deepcopy=False).sharding_filter()
    return central(mine).batch(BATCH).collate()


def loader(graph: IterDataPipe[Any]) -> DataLoader2[Any]:
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    return DataLoader2(graph, reading_service=workers)


def train_step(images: torch.Tensor, labels: torch.Tensor) -> None:
    """Train the model: your code."""


def validate(images: torch.Tensor, labels: torch.Tensor) -> None:
    """Measure the model: your code."""


def save(dl: DataLoader2[Any]) -> None:
    new = CHECKPOINT.with_suffix(".new")
    # Add the model's and the optimizer's state_dict().
    torch.save({"loader": dl.state_dict()}, new)
    os.replace(new, CHECKPOINT)  # the file is always complete


def main(folder: str) -> None:
    train = training(labelled(folder, "train.csv"))
    held_out = validation(labelled(folder, "validation.csv"))
    with loader(train) as dl, loader(held_out) as check:
        dl.seed(SEED)
        if CHECKPOINT.exists():
            dl.load_state_dict(torch.load(CHECKPOINT)["loader"])
        for _ in range(dl.epoch, EPOCHS):
            for images, labels in dl:
                train_step(images, labels)
                if dl.step % SAVE_EVERY == 0:
                    save(dl)
            for images, labels in check:
                validate(images, labels)


if __name__ == "__main__":
    main(*sys.argv[1:])
