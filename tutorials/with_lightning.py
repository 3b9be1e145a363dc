"""Training with PyTorch Lightning: its own checkpoints in mid-epoch,
and a training that goes on where it was stopped.

``Trainer`` takes the loader, and saves and restores its position. A
training that was stopped in mid-epoch continues with exactly the
batches that were left. A training on several ranks needs two more
lines.

``pip install pytorch-lightning`` first.
"""

import logging
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

# Other packages deprecate parts of each other.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pytorch_lightning import LightningModule, Trainer
    from pytorch_lightning.callbacks import ModelCheckpoint

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    MultiProcessingReadingService,
    SequentialReadingService,
)

ROWS = 480
BATCH_SIZE = 16
EPOCHS = 3
WORKERS = 2

Batch = tuple[Tensor, Tensor]


def main() -> None:
    for name in (
        "pytorch_lightning.utilities.rank_zero",
        "lightning_fabric",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings(
        "ignore", module="pytorch_lightning|lightning_fabric|torch.jit"
    )
    with TemporaryDirectory() as folder:
        checkpoints = ModelCheckpoint(
            folder, "{step}", every_n_train_steps=25, save_top_k=-1
        )
        whole = fitted(Path(folder), callbacks=[checkpoints])
        print(
            f"{EPOCHS} epochs of {ROWS // BATCH_SIZE} batches: the "
            f"last losses are {shown(whole.losses[-3:])}."
        )

        resumed = fitted(
            Path(folder), ckpt_path=Path(folder, "step=50.ckpt")
        )
        print(
            "From the checkpoint of step 50, in mid-epoch, "
            f"{len(resumed.losses)} steps were left."
        )
    assert resumed.losses == whole.losses[50:], (
        "every loss, to the last bit"
    )
    assert all(
        torch.equal(one, other)
        for one, other in zip(
            resumed.parameters(), whole.parameters(), strict=True
        )
    )
    print(
        "Their losses, and the model at the end, are those of the "
        "uninterrupted training, to the last bit."
    )


def rows(numbers: range, shuffled: bool) -> IterDataPipe[Batch]:
    """Batches of ``x, y`` where y is 3 * x + 1."""
    source = IterableWrapper(numbers)
    shared = (
        source.shuffle() if shuffled else source
    ).sharding_filter()
    return shared.map(measured).batch(BATCH_SIZE).collate(tensors)


def measured(number: int) -> list[float]:
    return [number / ROWS, 3 * number / ROWS + 1]


def tensors(batch: list[list[float]]) -> Batch:
    table = torch.tensor(batch)
    return table[:, :1], table[:, 1:]


def training_loader() -> DataLoader2[Batch]:
    """The loader to train with. Its length is known, so Lightning reads
    no batch ahead of those it has trained with.
    """
    # Of several ranks, each takes its part; here there is one.
    service = SequentialReadingService(
        DistributedReadingService(),
        MultiProcessingReadingService(WORKERS),
    )
    loader = DataLoader2(
        rows(range(ROWS), shuffled=True), reading_service=service
    )
    # Lightning says by its number which epoch comes, so once is enough.
    loader.seed(0)
    # Lightning keeps the checkpoint of rank 0.
    loader.state_of_all_ranks = True
    return loader


# mypy never looks into the base class.
class Line(LightningModule):  # type: ignore[misc]
    """A straight line, and the losses that it had in training."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)  # the first weights
        self.layer = nn.Linear(1, 1)
        self.losses: list[float] = []

    def training_step(self, batch: Batch, number: int) -> Tensor:
        loss = nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: Batch, number: int) -> None:
        self.log(
            "validation",
            nn.functional.mse_loss(self.layer(batch[0]), batch[1]),
        )

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def fitted(
    folder: Path, callbacks: Any = (), ckpt_path: Path | None = None
) -> Line:
    """The model after training, from a checkpoint on if there is "
    "one."""
    model = Line()
    trainer = Trainer(
        accelerator="cpu",
        callbacks=list(callbacks),
        default_root_dir=folder,
        enable_checkpointing=bool(callbacks),
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
        max_epochs=EPOCHS,
    )
    validation = DataLoader2(
        rows(range(ROWS, ROWS + 64), shuffled=False)
    )
    with training_loader() as training:  # at its end the workers end
        trainer.fit(
            model,
            training,
            validation,
            ckpt_path=ckpt_path,
            weights_only=True,
        )
    return model


def shown(losses: list[float]) -> str:
    return ", ".join(f"{loss:.6f}" for loss in losses)


if __name__ == "__main__":
    main()
