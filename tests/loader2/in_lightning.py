"""Training by Lightning: one run with a checkpoint after each step, and runs that go on from some of them.

Run as a program of its own by ``test_lightning``, since Lightning changes the warnings and the loggers of its process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, SequentialReadingService

EPOCHS = 3
BATCHES = 6


class Noting(LightningModule):  # type: ignore[misc]  # it is never looked into
    """A model that notes which batches it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[Any] = []
        self.validated: list[Any] = []

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        self.seen.append((self.current_epoch, number, batch.tolist()))
        return self.weight * batch.sum()

    def validation_step(self, batch: torch.Tensor, number: int) -> None:
        self.validated.append(batch.tolist())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.0)


def loaders(workers: int) -> list[DataLoader2[torch.Tensor]]:
    """One to train with, and one to validate with."""
    rows = IterableWrapper(range(4 * BATCHES)).shuffle().sharding_filter().map(float).batch(4).map(torch.tensor)
    service = SequentialReadingService(MultiProcessingReadingService(workers)) if workers else None
    training = DataLoader2(rows, reading_service=service)
    training.ends_at_length = True
    training.seed(1)
    return [training, DataLoader2(IterableWrapper(range(6)).map(float).batch(2).map(torch.tensor))]


def fit(folder: Path, workers: int, checkpoint: Path | None = None, callbacks: tuple[Callback, ...] = ()) -> Noting:
    """The model after training, from a checkpoint on if there is one."""
    model = Noting()
    training, validation = loaders(workers)
    with training, validation:
        trainer = Trainer(
            accelerator="cpu",
            callbacks=list(callbacks),
            default_root_dir=folder,
            enable_checkpointing=bool(callbacks),
            enable_model_summary=False,
            enable_progress_bar=False,
            logger=False,
            max_epochs=EPOCHS,
            num_sanity_val_steps=2,
        )
        trainer.fit(model, training, validation, ckpt_path=checkpoint, weights_only=False)
    return model


def orders(model: Noting) -> list[list[float]]:
    """The rows of each epoch, which has all of them."""
    epochs = sorted({epoch for epoch, _, _ in model.seen})
    found = [[row for each, _, rows in model.seen if each == epoch for row in rows] for epoch in epochs]
    assert all(sorted(order) == list(range(4 * BATCHES)) for order in found)
    return found


def main(folder: Path, workers: int) -> None:
    """Train, and go on from the middle of epochs and from their ends."""
    each = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    after_epoch = ModelCheckpoint(folder, filename="after-{epoch}", every_n_epochs=1, save_top_k=-1)
    whole = fit(folder, workers, callbacks=(each, after_epoch))
    steps = [(epoch, number) for epoch in range(EPOCHS) for number in range(BATCHES)]
    assert [(epoch, number) for epoch, number, _ in whole.seen] == steps
    first, second, third = orders(whole)
    assert first != second != third
    assert len(whole.validated) == 2 + 3 * EPOCHS

    for step in (1, BATCHES + 2, 2 * BATCHES):
        resumed = fit(folder, workers, folder / f"step={step}.ckpt")
        assert resumed.seen == whole.seen[step:], (step, resumed.seen)

    resumed = fit(folder, workers, folder / "after-epoch=0.ckpt")  # for which Lightning loads no state of a loader
    assert [(epoch, number) for epoch, number, _ in resumed.seen] == steps[BATCHES:]
    assert len(orders(resumed)) == EPOCHS - 1


if __name__ == "__main__":
    for workers in (0, 2):
        folder = Path(sys.argv[1], f"{workers} workers")
        folder.mkdir()
        main(folder, workers)
