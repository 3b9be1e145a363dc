"""Rows of CSV files.

Each worker opens and parses only its own files. Rows are shuffled in a
buffer while they are lists of text. If all columns are numbers,
``read_csv_columns`` is faster: it makes tensors without rows.

    python rows_of_csv.py FOLDER VALIDATION_FOLDER
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

BATCH, BUFFER = 256, 10_000
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")

Row = list[str]
Convert = Callable[[Row], Any]


def files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.csv")))


def numbers(row: Row) -> tuple[float, float, int]:
    return float(row[0]), float(row[1]), int(row[2])


def rows(mine: IterDataPipe[str]) -> IterDataPipe[Row]:
    return mine.open_files().parse_csv(skip_lines=1)


def training(
    files: list[str], convert: Convert = numbers
) -> IterDataPipe[Any]:
    mine = IterableWrapper(files).shuffle().sharding_filter()
    mixed = rows(mine).shuffle(buffer_size=BUFFER)
    return mixed.map(convert).batch(BATCH).collate()


def validation(files: list[str]) -> IterDataPipe[Any]:
    mine = IterableWrapper(files).sharding_filter()
    return rows(mine).map(numbers).batch(BATCH).collate()


def loader(graph: IterDataPipe[Any]) -> DataLoader2[Any]:
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    return DataLoader2(graph, reading_service=workers)


def train_step(
    x: torch.Tensor, y: torch.Tensor, label: torch.Tensor
) -> None:
    """Train the model: your code."""


def validate(
    x: torch.Tensor, y: torch.Tensor, label: torch.Tensor
) -> None:
    """Measure the model: your code."""


def save(dl: DataLoader2[Any]) -> None:
    new = CHECKPOINT.with_suffix(".new")
    # Add the model's and the optimizer's state_dict().
    torch.save({"loader": dl.state_dict()}, new)
    os.replace(new, CHECKPOINT)  # the file is always complete


def main(folder: str, held_out_folder: str) -> None:
    train = training(files(folder))
    held_out = validation(files(held_out_folder))
    with loader(train) as dl, loader(held_out) as check:
        dl.seed(SEED)
        if CHECKPOINT.exists():
            dl.load_state_dict(torch.load(CHECKPOINT)["loader"])
        for _ in range(dl.epoch, EPOCHS):
            for x, y, label in dl:
                train_step(x, y, label)
                if dl.step % SAVE_EVERY == 0:
                    save(dl)
            for x, y, label in check:
                validate(x, y, label)


if __name__ == "__main__":
    main(*sys.argv[1:])
