"""Training by Lightning: one run with a checkpoint after each step, and runs that go on from some of them.

Run as a program of its own by ``test_lightning``, since Lightning changes the warnings and the loggers of its process.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
)
from tests.many_ranks import on_ranks

EPOCHS = 3
BATCHES = 6
ROWS = 4 * BATCHES
"""For each rank."""
RANKS = 2


class Noting(LightningModule):  # type: ignore[misc]  # it is never looked into
    """A model that notes which batches it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[Any] = []
        self.validated: list[Any] = []
        self.tested: list[Any] = []

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        self.seen.append((self.current_epoch, number, batch.tolist()))
        return self.weight * batch.sum()

    def validation_step(self, batch: torch.Tensor, number: int) -> None:
        self.validated.append(batch.tolist())

    def test_step(self, batch: torch.Tensor, number: int) -> None:
        self.tested.append(batch.tolist())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.0)


def loader(rows: int, shuffled: bool, workers: int, ranks: int) -> DataLoader2[torch.Tensor]:
    source = IterableWrapper(range(rows * ranks))
    graph = (source.shuffle() if shuffled else source).sharding_filter().map(float).batch(4).map(torch.tensor)
    services: list[ReadingServiceInterface] = [DistributedReadingService()] if ranks > 1 else []
    services += [MultiProcessingReadingService(workers)] if workers else []
    made = DataLoader2(graph, reading_service=SequentialReadingService(*services) if services else None)
    made.state_of_all_ranks = True  # Lightning keeps the checkpoint of rank 0
    made.seed(1)
    return made


def fit(
    folder: Path, workers: int, ranks: int, checkpoint: Path | None = None, callbacks: tuple[Callback, ...] = ()
) -> Noting:
    """The model after training, from a checkpoint on if there is one."""
    model = Noting()
    with loader(ROWS, True, workers, ranks) as training, loader(8, False, 0, ranks) as validation:
        trainer = Trainer(
            accelerator="cpu",
            callbacks=list(callbacks),
            default_root_dir=folder,
            devices=ranks,
            enable_checkpointing=bool(callbacks),
            enable_model_summary=False,
            enable_progress_bar=False,
            logger=False,
            max_epochs=EPOCHS,
            num_sanity_val_steps=1,
            strategy="ddp" if ranks > 1 else "auto",
            val_check_interval=BATCHES // 2,
        )
        trainer.fit(model, training, validation, ckpt_path=checkpoint, weights_only=False)
        assert trainer.num_training_batches == len(training) == BATCHES
        trainer.test(model, validation, verbose=False)
    return model


def rows_of(model: Noting) -> list[list[float]]:
    """The rows of each epoch, in the order in which they came."""
    return [[row for each, _, rows in model.seen if each == epoch for row in rows] for epoch in range(EPOCHS)]


def trained(folder: Path, workers: int, ranks: int = 1) -> list[list[float]]:
    """Train, and go on from the middle of epochs and from their ends; this rank's rows of each epoch."""
    each = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    after_epoch = ModelCheckpoint(
        folder, filename="after-{epoch}", every_n_epochs=1, save_top_k=-1, save_on_train_epoch_end=True
    )
    whole = fit(folder, workers, ranks, callbacks=(each, after_epoch))
    steps = [(epoch, number) for epoch in range(EPOCHS) for number in range(BATCHES)]
    assert [(epoch, number) for epoch, number, _ in whole.seen] == steps
    assert len(whole.tested) == 2
    assert whole.validated == whole.tested[:1] + 2 * EPOCHS * whole.tested  # the sanity check took one

    checkpoints = {f"step={step}": step for step in (1, BATCHES // 2, BATCHES, BATCHES + 2, 2 * BATCHES)}
    for name, taken in {**checkpoints, "after-epoch=0": BATCHES}.items():
        resumed = fit(folder, workers, ranks, folder / f"{name}.ckpt")
        assert resumed.seen == whole.seen[taken:], (name, resumed.seen, whole.seen[taken:])
        assert resumed.tested == whole.tested
    return rows_of(whole)


def on_a_rank(folder: Path, workers: int, rank: int) -> list[list[float]]:
    """The same where torchrun has started several."""
    torchrun = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "TORCHELASTIC_RUN_ID": "training"}
    os.environ.update({name: str(value) for name, value in torchrun.items()})
    return trained(folder, workers, RANKS)


def main(folder: Path) -> None:
    """All of it, on one rank and on two, each with and without workers."""
    for workers in (0, 2):
        alone, beside = folder / f"{workers} workers", folder / f"{workers} workers of each rank"
        parts = [[trained(alone, workers)], on_ranks(RANKS, partial(on_a_rank, beside, workers), seconds=500)]
        for of_ranks in parts:
            epochs = [list(chain(*shares)) for shares in zip(*of_ranks, strict=True)]
            assert all(sorted(rows) == list(range(ROWS * len(of_ranks))) for rows in epochs)
            assert epochs[0] != epochs[1] != epochs[2]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
