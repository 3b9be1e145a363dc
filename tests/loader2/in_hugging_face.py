"""Training by the Trainer of transformers and by Accelerate: whole runs, and runs that go on from their checkpoints.

Run as a program of its own by ``test_hugging_face``, because these packages take seconds to import, and change what
their process logs.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator, skip_first_batches
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from datapipes.iter import IterableWrapper, IterDataPipe
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

Batch = dict[str, torch.Tensor]


def shuffled(ranks: int = 1) -> IterDataPipe[int]:
    return IterableWrapper(range(ROWS * ranks)).shuffle()


def in_a_dict(row: int) -> Batch:
    return {"row": torch.tensor(float(row))}


def batches(rows: IterDataPipe[int]) -> IterDataPipe[Batch]:
    return rows.map(in_a_dict).batch(4).collate()


def loader(workers: int = 0, ranks: int = 1) -> DataLoader2[Batch]:
    services: list[ReadingServiceInterface] = [DistributedReadingService()] if ranks > 1 else []
    services += [MultiProcessingReadingService(workers)] if workers else []
    graph = batches(shuffled(ranks).sharding_filter())
    made = DataLoader2(graph, reading_service=SequentialReadingService(*services) if services else None)
    made.state_of_all_ranks = True  # both keep what rank 0 saves
    made.seed(1)
    return made


def rows_of(taken: Any) -> list[list[float]]:
    return [batch["row"].tolist() for batch in taken]


class Noting(torch.nn.Module):
    """A model that notes which batches it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[list[float]] = []

    def forward(self, row: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen.append(row.tolist())
        return {"loss": self.weight * row.mean(), "logits": row}


class OfALoader(Trainer):  # type: ignore[misc]  # it is never looked into
    """A Trainer with loaders of one's own, as its documentation teaches."""

    def __init__(self, training: DataLoader2[Batch], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.training = training

    def get_train_dataloader(self) -> Any:
        return self.training

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return DataLoader2(batches(IterableWrapper(range(8))))


class SaveLoader(TrainerCallback):  # type: ignore[misc]  # it is never looked into
    """Puts the loader's state beside each checkpoint."""

    def __init__(self, training: DataLoader2[Batch]) -> None:
        self.training = training

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        saved = self.training.state_dict()  # on every rank
        if state.is_world_process_zero:
            torch.save(saved, Path(args.output_dir, f"checkpoint-{state.global_step}", "loader.pt"))


def fit(
    folder: Path, workers: int, ranks: int, checkpoint: Path | None = None, accumulated: int = 1, skip: bool = False
) -> list[list[float]]:
    """The batches that were trained with, from a checkpoint on if there is one."""
    model = Noting()
    with loader(workers, ranks) as training:
        if checkpoint is not None and not skip:
            training.load_state_dict(torch.load(checkpoint / "loader.pt"))
        arguments = TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=EPOCHS,
            gradient_accumulation_steps=accumulated,
            save_strategy="no" if checkpoint else "steps",
            save_steps=1,
            ignore_data_skip=not skip,
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = OfALoader(training, model=model, args=arguments, callbacks=[SaveLoader(training)])
        trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
        assert trainer.state.global_step == trainer.state.max_steps == EPOCHS * BATCHES // accumulated
        seen = list(model.seen)
        trainer.evaluate()
        assert model.seen[len(seen) :] == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
    return seen


def trained(folder: Path, workers: int, ranks: int = 1, accumulated: int = 1) -> list[list[float]]:
    """Train, and go on from the middle of epochs and from their ends; this rank's rows of each epoch."""
    whole = fit(folder, workers, ranks, accumulated=accumulated)
    assert len(whole) == EPOCHS * BATCHES
    for step in (1, BATCHES // accumulated, (BATCHES + 2) // accumulated):
        resumed = fit(folder, workers, ranks, folder / f"checkpoint-{step}", accumulated)
        assert resumed == whole[step * accumulated :], (step, resumed, whole)
    return [list(chain(*whole[epoch * BATCHES : (epoch + 1) * BATCHES])) for epoch in range(EPOCHS)]


def accelerated(folder: Path, ranks: int = 1) -> None:
    """What ``prepare`` leaves as it is, and what a state holds."""
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == ranks
    before = loader(ranks=ranks)
    assert accelerator.prepare(before) is before
    accelerator.register_for_checkpointing(before)
    epoch = iter(before)
    list(islice(epoch, 2))
    accelerator.save_state(str(folder))
    accelerator.wait_for_everyone()  # rank 0 writes

    accelerator = Accelerator(cpu=True)
    after = accelerator.prepare(loader(ranks=ranks))
    accelerator.register_for_checkpointing(after)
    accelerator.load_state(str(folder))
    left = rows_of(epoch)
    assert len(left) == BATCHES - 2
    assert rows_of(after) == left
    for each in (before, after):
        each.shutdown()


def by_torch(workers: int) -> Any:
    """A graph in torch's loader, which Accelerate makes one of its own of."""
    torch.manual_seed(3)
    return Accelerator(cpu=True).prepare(
        DataLoader(batches(shuffled().sharding_filter()), batch_size=None, num_workers=workers)
    )


def skipped() -> None:
    """The first batches are passed over in torch's loader; a DataLoader2 says what to do instead."""
    for workers in (0, 2):
        whole = rows_of(by_torch(workers))
        assert len(whole) == BATCHES
        assert rows_of(skip_first_batches(by_torch(workers), 2)) == whole[2:]
    with pytest.raises(AttributeError, match=r"no dataset, .*call dl\.load_state_dict\(state\)"):
        skip_first_batches(loader(), 2)


def on_a_rank(folder: Path, rank: int) -> list[list[float]]:
    """The same where torchrun has started several, and what Accelerate makes of torch's loader there."""
    torchrun = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
    os.environ.update({name: str(value) for name, value in torchrun.items()})  # the group is there already
    accelerated(folder / "accelerate", RANKS)
    dealt = Accelerator(cpu=True).prepare(DataLoader(batches(IterableWrapper(range(16))), batch_size=None))
    assert rows_of(dealt) == [[first, first + 1, first + 2, first + 3] for first in (4.0 * rank, 4.0 * rank + 8)]
    return trained(folder / "trainer", 2, RANKS)


def main(folder: Path) -> None:
    """All of it, on one rank and on two."""
    ranks = on_ranks(RANKS, partial(on_a_rank, folder / "ranks"))  # first: afterwards Accelerate knows of one process
    accelerated(folder / "accelerate")
    skipped()
    single = [trained(folder / f"{workers} workers", workers, accumulated=1 + workers // 2) for workers in (0, 2)]
    parts = [*([alone] for alone in single), ranks]
    for of_ranks in parts:
        epochs = [list(chain(*shares)) for shares in zip(*of_ranks, strict=True)]
        assert all(sorted(rows) == list(range(ROWS * len(of_ranks))) for rows in epochs)
        assert epochs[0] != epochs[1] != epochs[2]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
