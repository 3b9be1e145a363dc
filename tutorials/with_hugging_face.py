"""Training with the Trainer of transformers, and with Accelerate: a
loader of one's own, and how it goes on.

One learns how a Trainer is given its loaders; how ten lines of callback
put the loader's state beside each checkpoint, so that no batch is read
again only to be passed over; and that Accelerate leaves a DataLoader2
as it is, and saves and restores it once it is registered.

``pip install transformers accelerate`` first. Nothing is downloaded:
the model is made here, and is tiny.
"""

import warnings
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

# Other packages deprecate parts of each other.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from accelerate import Accelerator
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )
    from transformers.utils import logging

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2

TEXTS = 96
LENGTH = 8
BATCH_SIZE = 8
EPOCHS = 2
SAVED_EVERY = 10  # steps; an epoch has 12

Batch = dict[str, Tensor]


def main() -> None:
    warnings.filterwarnings(
        "ignore", module="accelerate|transformers|torch"
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with TemporaryDirectory() as folder:
        by_the_trainer(Path(folder))
        by_accelerate(Path(folder) / "accelerate")


def loader() -> DataLoader2[Batch]:
    """Batches as a language model takes them."""
    graph = (
        IterableWrapper(range(TEXTS))
        .shuffle()
        .sharding_filter()
        .map(tokens)
        .batch(BATCH_SIZE)
        .collate()
    )
    # With ranks and workers, as anywhere: reading_service=...
    made = DataLoader2(graph)
    # The Trainer says by its number which epoch comes, so once is
    # enough.
    made.seed(0)
    made.state_of_all_ranks = True  # both save on rank 0 only
    return made


def tokens(number: int) -> Batch:
    text = torch.arange(number, number + LENGTH) % 32
    return {"input_ids": text, "labels": text}


# -- the Trainer -------------------------------------------------------


def by_the_trainer(folder: Path) -> None:
    whole = fitted(folder)
    resumed = fitted(folder, folder / f"checkpoint-{SAVED_EVERY}")
    same = [
        torch.equal(one, other)
        for one, other in zip(
            whole.parameters(), resumed.parameters(), strict=True
        )
    ]
    assert all(same), "every weight, to the last bit"
    print(
        f"Trainer: from the checkpoint of step {SAVED_EVERY} on, in "
        "mid-epoch, it makes the same model to the last bit."
    )


# mypy never looks into the base class.
class LoaderTrainer(Trainer):  # type: ignore[misc]
    """A Trainer with a loader of one's own."""

    def __init__(
        self, training: DataLoader2[Batch], **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.training = training

    def get_train_dataloader(self) -> Any:
        return self.training


# mypy never looks into the base class.
class SaveLoader(TrainerCallback):  # type: ignore[misc]
    """Puts the loader's state beside each checkpoint."""

    def __init__(self, training: DataLoader2[Batch]) -> None:
        self.training = training

    def on_save(
        self, args: Any, state: Any, control: Any, **more: Any
    ) -> None:
        saved = self.training.state_dict()  # every rank calls it
        if state.is_world_process_zero:
            torch.save(
                saved,
                Path(
                    args.output_dir,
                    f"checkpoint-{state.global_step}",
                    "loader.pt",
                ),
            )


def fitted(
    folder: Path, checkpoint: Path | None = None
) -> GPT2LMHeadModel:
    """The model after training, from a checkpoint on if there is "
    "one."""
    torch.manual_seed(0)  # the first weights
    config = GPT2Config(
        vocab_size=32,
        n_positions=LENGTH,
        n_embd=8,
        n_layer=1,
        n_head=1,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    training = loader()
    if checkpoint is not None:
        training.load_state_dict(torch.load(checkpoint / "loader.pt"))
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        save_steps=SAVED_EVERY,
        # The loader is where it was: nothing has to be passed over.
        ignore_data_skip=True,
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    with training:
        trainer = LoaderTrainer(
            training,
            model=model,
            args=arguments,
            callbacks=[SaveLoader(training)],
        )
        trainer.train(
            resume_from_checkpoint=checkpoint and str(checkpoint)
        )
    return model


# -- Accelerate --------------------------------------------------------


def by_accelerate(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Linear(LENGTH, 1))
    # The same loader: it shares among ranks by itself.
    training = accelerator.prepare(loader())
    accelerator.register_for_checkpointing(training)

    batches = iter(training)
    for batch in islice(batches, 5):
        # prepare does this for torch's loaders only.
        model(batch["input_ids"].to(accelerator.device).float())
    accelerator.save_state(str(folder))
    left = list(batches)

    accelerator = Accelerator(cpu=True)
    model, again = accelerator.prepare(
        torch.nn.Linear(LENGTH, 1), loader()
    )
    accelerator.register_for_checkpointing(again)
    accelerator.load_state(str(folder))
    for resumed, expected in zip(again, left, strict=True):
        assert torch.equal(resumed["input_ids"], expected["input_ids"])
    print(
        f"Accelerate: load_state goes on with exactly the {len(left)} "
        "batches that were left."
    )


if __name__ == "__main__":
    main()
