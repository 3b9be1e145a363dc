"""The program of ``test_elastic``, started on each rank by torchrun: it trains on nothing, and writes down on what.

Every tenth step all ranks save where they are. In the first attempt one rank kills itself in mid-epoch; the others
write down the error that they get, and how long after the kill. The next attempt goes on from the last step that all
ranks have saved.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic

import torch
import torch.distributed as dist

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import DistributedReadingService, MultiProcessingReadingService, SequentialReadingService

LENGTH = 404
BATCH = 4
WORKERS = 2
EPOCHS = 2
SAVED_EVERY = 10
KILLED = (1, 37)
"""The epoch and the step before which the last rank is killed."""


def graph() -> IterDataPipe[list[int]]:
    return IterableWrapper(range(LENGTH)).shuffle().sharding_filter().batch(BATCH)


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    atexit.register(dist.destroy_process_group)  # also after an error
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if attempt == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends all ranks when it sees one die; first, our error
    service = SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(WORKERS, "fork"))
    with DataLoader2(graph(), reading_service=service) as loader, record(folder, attempt, rank).open("w") as file:
        start, first = restored(loader, folder, rank)
        try:
            for epoch in range(start, EPOCHS):
                loader.seed(epoch)
                batches = iter(loader)
                for step in count(first if epoch == start else 0):
                    if attempt == 0 and (epoch, step) == KILLED and rank == dist.get_world_size() - 1:
                        (folder / "killed").write_text(str(monotonic()))
                        os.kill(os.getpid(), signal.SIGKILL)
                    batch = next(batches, None)
                    if batch is None:
                        break
                    in_step(batches)
                    print(json.dumps([epoch, step, batch]), file=file, flush=True)
                    if (step + 1) % SAVED_EVERY == 0:
                        save(loader, folder, rank, epoch, step + 1)
        except RuntimeError as error:
            killed = float((folder / "killed").read_text())
            (folder / f"error-{rank}").write_text(json.dumps([repr(error), monotonic() - killed]))
            raise


def in_step(batches: Iterator[list[int]]) -> None:
    """Stand in for the gradients of a training. Its own error names no rank, but the loader's next one does."""
    try:
        dist.all_reduce(torch.zeros(1))
    except RuntimeError:
        next(batches)
        raise


def save(loader: DataLoader2[list[int]], folder: Path, rank: int, epoch: int, step: int) -> None:
    unfinished = folder / f"unfinished-{rank}"
    torch.save({"epoch": epoch, "step": step, "loader": loader.state_dict()}, unfinished)
    unfinished.rename(folder / f"state-{epoch * 1000 + step}-of-{rank}")


def restored(loader: DataLoader2[list[int]], folder: Path, rank: int) -> tuple[int, int]:
    """Go to the last step that all ranks have saved; its epoch, and which step comes next."""
    found = saved_by_all(folder, dist.get_world_size())
    dist.barrier()  # all ranks have read the files before one of them saves anew
    if found is None:
        return 0, 0
    state = torch.load(folder / f"state-{found}-of-{rank}")
    loader.load_state_dict(state["loader"])
    return state["epoch"], state["step"]


def saved_by_all(folder: Path, world: int) -> int | None:
    of_each = [{int(path.name.split("-")[1]) for path in folder.glob(f"state-*-of-{rank}")} for rank in range(world)]
    return max(set.intersection(*of_each), default=None)


def record(folder: Path, attempt: int, rank: int) -> Path:
    return folder / f"attempt-{attempt}-of-{rank}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
