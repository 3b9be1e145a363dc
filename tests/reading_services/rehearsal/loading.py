"""The program of ``plays``, started on each rank by torchrun: it loads epochs, and writes down what it gets."""

from __future__ import annotations

import atexit
import json
import sys
from pathlib import Path
from time import monotonic

import torch
import torch.distributed as dist

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import DistributedReadingService, MultiProcessingReadingService, SequentialReadingService

EPOCHS = 2
SECONDS = 5.0
"""How long a rank waits for the others."""


def graph(length: int) -> IterDataPipe[int]:
    """Below the ``filter`` the number of elements is unknown, so the ranks have to agree all the time."""
    return IterableWrapper(range(length)).shuffle().sharding_filter().filter(is_element)


def is_element(element: int) -> bool:
    return element >= 0


def main(folder: Path, length: int) -> None:
    dist.init_process_group("gloo")
    atexit.register(dist.destroy_process_group)  # also after an error
    rank = dist.get_rank()
    torch.manual_seed(rank)  # each rank would draw another seed; rank 0's counts
    service = SequentialReadingService(DistributedReadingService(SECONDS), MultiProcessingReadingService(1, "fork"))
    with DataLoader2(graph(length), reading_service=service) as loader, (folder / f"of-{rank}").open("w") as file:
        last = monotonic()
        try:
            for _ in range(EPOCHS):
                epoch: list[int] = []
                for element in loader:
                    last = monotonic()
                    if not epoch:
                        print(json.dumps("begun"), file=file, flush=True)
                    epoch.append(element)
                print(json.dumps(epoch), file=file, flush=True)
        except RuntimeError as error:
            print(json.dumps([repr(error), monotonic() - last]), file=file)
            raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
