"""Two ranks train one model with DistributedDataParallel, each fed by
two workers; they are killed and go on.

Ranks and workers share the data. An epoch ends on all ranks at once,
although their shards are uneven. The losses after a checkpoint of all
ranks are the uninterrupted ones to the last bit.

The ranks are started here, so that the script runs as it stands. With
torchrun, ``trained`` is the program, ``init_process_group("gloo")``
without more finds the others, and ``--max-restarts`` does what the
second start does here. Restarts need
``TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1``: without it, gloo may find the
addresses from before.
"""

import math
import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import (
    ProcessExitedException,
    start_processes,
)
from torch.nn.parallel import DistributedDataParallel

from datapipes.iter import IterDataPipe
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2, gather, scatter
from reading_services import (
    DistributedReadingService,
    MultiProcessingReadingService,
    SequentialReadingService,
)

RANKS = 2
WORKERS = 2  # of each rank
ROWS = 4_000
BATCH_SIZE = 16
EPOCHS = 3
SAVED_EVERY = 25  # steps
# The step at which the ranks are killed; in mid-epoch, and some steps
# after a checkpoint.
KILLED = 130

Batch = tuple[Tensor, Tensor]


def main() -> None:
    with TemporaryDirectory() as folder:
        uninterrupted = started(Path(folder) / "uninterrupted")
        print(
            f"Trained on {RANKS} ranks with {WORKERS} workers each: "
            f"{len(uninterrupted)} steps in {EPOCHS} epochs,"
        )
        shown = uninterrupted[:: len(uninterrupted) // 8]
        print(
            "with losses of "
            f"{', '.join(f'{loss:.4f}' for loss in shown)}.\n"
        )

        interrupted = Path(folder) / "interrupted"
        try:
            started(interrupted, killed_at=KILLED)
        except ProcessExitedException as error:
            print(f"Once more, and killed in step {KILLED}: {error}.")
        resumed = started(interrupted)
        print(
            "Started again, from the checkpoint of step "
            f"{KILLED // SAVED_EVERY * SAVED_EVERY}."
        )

    assert len(resumed) == len(uninterrupted)
    assert resumed == uninterrupted, "every loss, to the last bit"
    print(
        f"All {len(resumed)} losses are those of the uninterrupted "
        "training, to the last bit."
    )


def started(folder: Path, killed_at: int | None = None) -> list[float]:
    """Run a training in processes of its own, from the checkpoint in a
    folder if there is one; its losses.
    """
    folder.mkdir(exist_ok=True)
    (folder / "rendezvous").unlink(missing_ok=True)
    ranks: Any = start_processes  # torch's own function has no types
    ranks(
        trained, (folder, killed_at), nprocs=RANKS, start_method="fork"
    )
    losses: list[float] = torch.load(folder / "losses.pt")
    return losses


def trained(rank: int, folder: Path, killed_at: int | None) -> None:
    """The program of a rank."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=RANKS,
    )
    try:
        train(rank, folder, killed_at)
    finally:
        # A process whose group still lives when Python ends may be
        # aborted.
        dist.destroy_process_group()


def train(rank: int, folder: Path, killed_at: int | None) -> None:
    """Train from the checkpoint, if there is one, to the last epoch."""
    trainer = Trainer(rank, folder / "checkpoint.pt")
    with trainer.loader:  # at its end the workers end
        for epoch in range(trainer.epoch, EPOCHS):
            # An epoch that was loaded and has this seed goes on where
            # it was.
            trainer.loader.seed(epoch)
            for batch in trainer.loader:
                if trainer.steps == killed_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                trainer.step(batch)
                if trainer.steps % SAVED_EVERY == 0:
                    trainer.save(epoch)
    if rank == 0:
        torch.save(trainer.losses, folder / "losses.pt")


def batches() -> IterDataPipe[Batch]:
    """The graph, the same on all ranks. What is left out behind the
    shards makes them uneven.
    """
    rows = (
        SequenceWrapper(list(range(ROWS)))
        .to_iter_datapipe()
        .shuffle()
        .sharding_filter()
    )
    return (
        rows.map(measured)
        .filter(is_sound)
        .batch(BATCH_SIZE)
        .collate(tensors)
    )


def measured(number: int) -> list[float]:
    """A row ``x1, x2, y`` where y is 3 * x1 - 2 * x2 + 1."""
    x1, x2 = math.sin(number), math.cos(3 * number)
    return [x1, x2, 3 * x1 - 2 * x2 + 1]


def is_sound(row: list[float]) -> bool:
    return row[0] < 0.9


def tensors(rows: list[list[float]]) -> Batch:
    table = torch.tensor(rows)
    return table[:, :2], table[:, 2:]


class Trainer:
    """A model that all ranks have alike, and this rank's loader."""

    def __init__(self, rank: int, file: Path) -> None:
        self.rank, self.file = rank, file
        torch.manual_seed(0)  # the first weights
        self.model = DistributedDataParallel(
            nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        )
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.05, momentum=0.9
        )
        service = SequentialReadingService(
            DistributedReadingService(),
            MultiProcessingReadingService(WORKERS),
        )
        self.loader = DataLoader2(batches(), reading_service=service)
        self.losses: list[float] = []
        self.epoch = 0
        if file.exists():
            self.restore()

    @property
    def steps(self) -> int:
        return len(self.losses)

    def step(self, batch: Batch) -> None:
        """One step of the optimizer, and the loss before it, of all
        ranks.
        """
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        self.optimizer.zero_grad()
        # torch's own method has no types
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        of_all = loss.detach() / RANKS
        dist.all_reduce(of_all)
        self.losses.append(of_all.item())

    def save(self, epoch: int) -> None:
        """The model and the optimizer, which all ranks have alike, and
        where each rank's loader is, in one file.
        """
        # Of all ranks, on rank 0.
        loaders = gather(self.loader.state_dict(), dst=0)
        if self.rank == 0:
            unfinished = self.file.with_suffix(".unfinished")
            torch.save(
                {
                    "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "loaders": loaders,
                    "losses": self.losses,
                    "epoch": epoch,
                },
                unfinished,
            )
            # There is a whole checkpoint at any time.
            unfinished.rename(self.file)

    def restore(self) -> None:
        saved = torch.load(self.file)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        # This rank's.
        self.loader.load_state_dict(scatter(saved["loaders"]))
        self.losses = saved["losses"]
        self.epoch = saved["epoch"]


if __name__ == "__main__":
    main()
