"""Rows of tensors, arrays or memory maps.

The order is a permutation of numbers, and a batch is one index
operation. Workers and ranks read only their own rows. Rows that need no
further work are faster without workers.

    python rows_in_memory.py FOLDER
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import TensorDataset

from datapipes.iter import IterDataPipe
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

BATCH = 256
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")


def rows(folder: str, name: str) -> TensorDataset:
    """Map the files of two tensors: they are read as rows are."""
    x, y = (
        torch.load(Path(folder, f"{name}-{column}.pt"), mmap=True)
        for column in "xy"
    )
    return TensorDataset(x, y)


def training(rows: Any, batch_size: int) -> IterDataPipe[Any]:
    mine = SequenceWrapper(rows, deepcopy=False).shuffle()
    return mine.sharding_filter().batch(batch_size).collate()


def validation(rows: Any) -> IterDataPipe[Any]:
    mine = SequenceWrapper(rows, deepcopy=False).to_iter_datapipe()
    return mine.sharding_filter().batch(BATCH).collate()


def loader(graph: IterDataPipe[Any]) -> DataLoader2[Any]:
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    return DataLoader2(graph, reading_service=workers)


def train_step(x: torch.Tensor, y: torch.Tensor) -> None:
    """Train the model: your code."""


def validate(x: torch.Tensor, y: torch.Tensor) -> None:
    """Measure the model: your code."""


def save(dl: DataLoader2[Any]) -> None:
    new = CHECKPOINT.with_suffix(".new")
    # Add the model's and the optimizer's state_dict().
    torch.save({"loader": dl.state_dict()}, new)
    os.replace(new, CHECKPOINT)  # the file is always complete


def main(folder: str) -> None:
    train = training(rows(folder, "train"), BATCH)
    held_out = validation(rows(folder, "validation"))
    with loader(train) as dl, loader(held_out) as check:
        dl.seed(SEED)
        if CHECKPOINT.exists():
            dl.load_state_dict(torch.load(CHECKPOINT)["loader"])
        for _ in range(dl.epoch, EPOCHS):
            for x, y in dl:
                train_step(x, y)
                if dl.step % SAVE_EVERY == 0:
                    save(dl)
            for x, y in check:
                validate(x, y)


if __name__ == "__main__":
    main(*sys.argv[1:])
