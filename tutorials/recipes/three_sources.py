"""Three sources of text, mixed by weight.

Each source is a folder of ``.jsonl`` files whose lines have a ``text``,
with at least one file for each worker. Documents are drawn by the
weights, which may change by the step. A source that ends starts again,
until all have ended once. Validation reads each source once, in order.

    python three_sources.py FOLDER VALIDATION_FOLDER
"""

import os
import re
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

WEIGHTS: dict[str, float | dict[int, float]] = {
    "web": 5.0,
    "books": {0: 1.0, 50_000: 4.0},  # more from this step on
    "code": 2.0,
}
SIZE, BATCH, AT_ONCE, BUFFER = 512, 8, 256, 10_000
END, VOCABULARY = 1, 50_000
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")


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


def files(folder: str, source: str) -> IterDataPipe[str]:
    paths = sorted(map(str, Path(folder, source).glob("*.jsonl")))
    return IterableWrapper(paths)


def texts(mine: IterDataPipe[str]) -> IterDataPipe[str]:
    rows = mine.open_files("rb").parse_jsonl(return_path=False)
    return rows.map(itemgetter("text"))


def blocks(
    documents: IterDataPipe[str],
) -> IterDataPipe[dict[str, torch.Tensor]]:
    tokens = documents.batch(AT_ONCE).map(encode)
    return tokens.pack(SIZE, fit="cut").batch(BATCH).collate()


def training(folder: str) -> IterDataPipe[dict[str, torch.Tensor]]:
    sources: dict[IterDataPipe[str], Any] = {}
    for source, weight in WEIGHTS.items():
        mine = files(folder, source).shuffle().sharding_filter()
        sources[texts(mine).shuffle(buffer_size=BUFFER)] = weight
    first, *_ = sources
    return blocks(first.mix(sources, stop="repeat"))


def validation(folder: str) -> IterDataPipe[dict[str, torch.Tensor]]:
    first, *others = (
        texts(files(folder, source).sharding_filter())
        for source in WEIGHTS
    )
    return blocks(first.concat(*others))


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
    train, held_out = training(folder), validation(held_out_folder)
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
