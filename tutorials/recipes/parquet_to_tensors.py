"""Rows of Parquet files to tensors.

Workers share the row groups, of one large file or of many. Columns
become tensors without an object for each row. Rows of several row
groups are mixed; the row groups themselves are permuted as a whole.

    python parquet_to_tensors.py FOLDER VALIDATION_FOLDER
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

BATCH, MIXED = 4096, 65_536
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")


def files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.parquet")))


def columns(
    groups: IterDataPipe[Any], batch_size: int | None = None
) -> IterDataPipe[dict[str, torch.Tensor]]:
    """Name the columns that you need: others are not read."""
    return groups.read_parquet(batch_size=batch_size, as_="tensors")


def training(
    files: list[str],
) -> IterDataPipe[dict[str, torch.Tensor]]:
    groups = IterableWrapper(files).list_row_groups()
    mine = groups.shuffle().sharding_filter()
    return columns(mine).rebatch(BATCH, shuffle_rows=MIXED)


def validation(
    files: list[str],
) -> IterDataPipe[dict[str, torch.Tensor]]:
    groups = IterableWrapper(files).list_row_groups()
    return columns(groups.sharding_filter(), batch_size=BATCH)


def loader(graph: IterDataPipe[Any]) -> DataLoader2[Any]:
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    return DataLoader2(graph, reading_service=workers)


def train_step(rows: dict[str, torch.Tensor]) -> None:
    """Train the model: your code."""


def validate(rows: dict[str, torch.Tensor]) -> None:
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
            for rows in dl:
                train_step(rows)
                if dl.step % SAVE_EVERY == 0:
                    save(dl)
            for rows in check:
                validate(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
