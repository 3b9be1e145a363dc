"""The program of ``test_torch_loaders``, started on each rank by torchrun: it reads a graph by torch's own loaders."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from datapipes.iter import IterableWrapper, IterDataPipe

LENGTH = 203
BATCH = 4
WORKERS = 2
EPOCHS = 2
TAKEN = 7
"""How many batches are taken before a position is saved."""


def graph() -> IterDataPipe[list[Any]]:
    """The elements in a random order, each with its number in that."""
    return IterableWrapper(range(LENGTH)).shuffle().enumerate().sharding_filter().batch(BATCH)


def stateful() -> Any:
    return StatefulDataLoader(graph(), batch_size=None, num_workers=WORKERS)


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(100 + rank)
    loader: Any = DataLoader(graph(), batch_size=None, num_workers=WORKERS)
    epochs = [list(loader) for _ in range(EPOCHS)]

    before = stateful()
    batches = iter(before)
    taken = list(islice(batches, TAKEN))
    torch.save(before.state_dict(), folder / f"position-{rank}")
    rest = list(batches)

    after = stateful()
    after.load_state_dict(torch.load(folder / f"position-{rank}"))
    resumed = list(after)
    (folder / f"read-{rank}").write_text(
        json.dumps({"epochs": epochs, "taken": taken, "rest": rest, "resumed": resumed})
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
