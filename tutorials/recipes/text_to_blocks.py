"""Text to blocks of tokens, for a language model.

Each line of a ``.txt`` file is a document. The tokenizer is called for
many documents at once, ``pack`` cuts their tokens into blocks without
gaps, and a batch is one tensor of shape [BATCH, SIZE].

    python text_to_blocks.py FOLDER VALIDATION_FOLDER
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

SIZE, BATCH, AT_ONCE, BUFFER = 512, 8, 256, 10_000
END, VOCABULARY = 1, 50_000  # 0 is the padding of the last block
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")

Encode = Callable[[list[str]], list[int]]


def files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.txt")))


def encode(documents: list[str]) -> list[int]:
    """Return the tokens of several documents, one after the other.

    Put the tokenizer's own call for a list here, such as
    ``encode_batch``. This one needs no download: a token is a hash.
    """
    tokens: list[int] = []
    for document in documents:
        words = map(str.encode, re.findall(r"\w+", document))
        tokens += [2 + crc32(word) % VOCABULARY for word in words]
        tokens.append(END)
    return tokens


def lines(mine: IterDataPipe[str]) -> IterDataPipe[str]:
    files = mine.open_files(encoding="utf-8")
    return files.readlines(return_path=False)


def blocks(
    documents: IterDataPipe[str], encode: Encode
) -> IterDataPipe[dict[str, torch.Tensor]]:
    tokens = documents.batch(AT_ONCE).map(encode)
    packed = tokens.pack(SIZE, fit="cut", marks=False)
    return packed.batch(BATCH).collate()


def training(
    files: list[str], encode: Encode = encode
) -> IterDataPipe[dict[str, torch.Tensor]]:
    mine = IterableWrapper(files).shuffle().sharding_filter()
    return blocks(lines(mine).shuffle(buffer_size=BUFFER), encode)


def validation(
    files: list[str],
) -> IterDataPipe[dict[str, torch.Tensor]]:
    mine = IterableWrapper(files).sharding_filter()
    return blocks(lines(mine), encode)


def loader(graph: IterDataPipe[Any]) -> DataLoader2[Any]:
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    return DataLoader2(graph, reading_service=workers)


def train_step(batch: dict[str, torch.Tensor]) -> None:
    """Train the model: your code."""


def validate(batch: dict[str, torch.Tensor]) -> None:
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
            for batch in dl:
                train_step(batch)
                if dl.step % SAVE_EVERY == 0:
                    save(dl)
            for batch in check:
                validate(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
