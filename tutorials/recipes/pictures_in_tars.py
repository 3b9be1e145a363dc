"""Pictures in tar shards, in a bucket of s3 or in a folder.

A sample is ``KEY.jpg`` and ``KEY.cls``, a number. The names of the
shards are permuted, each worker reads only its own shards, and samples
are shuffled while they are bytes: decoded pictures would take many
times the memory. Credentials and region come from the environment, as
for other programs.

    python pictures_in_tars.py 's3://BUCKET/train-{000..099}.tar' \
        's3://BUCKET/validation-{0..3}.tar' [ENDPOINT]
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

SIZE, BATCH, BUFFER = 224, 32, 1000
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")

Sample = tuple[Any, int]
Stages = Callable[[IterDataPipe[Sample]], IterDataPipe[Sample]]


def opened(
    shards: list[str], mine: IterDataPipe[str], **options: Any
) -> IterDataPipe[Any]:
    """Open the shards of this worker; options are those of fsspec."""
    if "://" not in shards[0]:
        return mine.open_files("rb")
    return mine.open_files_by_fsspec("rb", ahead=2, **options)


def samples(files: IterDataPipe[Any]) -> IterDataPipe[dict[str, Any]]:
    return files.load_from_tar().webdataset()


def content(sample: dict[str, Any]) -> tuple[bytes, int]:
    return sample[".jpg"].read(), int(sample[".cls"].read())


def cropped(samples: IterDataPipe[Sample]) -> IterDataPipe[Sample]:
    return samples.decode_images(SIZE, crop="random", flip=True, key=0)


def central(samples: IterDataPipe[Sample]) -> IterDataPipe[Sample]:
    return samples.decode_images(SIZE, crop="center", key=0)


def training(
    shards: list[str],
    decode: Stages = cropped,
    buffer_size: int = BUFFER,
    **options: Any,
) -> IterDataPipe[Any]:
    names = IterableWrapper(shards).shard_expand()
    mine = names.shuffle().sharding_filter()
    read = samples(opened(shards, mine, **options)).map(content)
    mixed = read.shuffle(buffer_size=buffer_size)
    return decode(mixed).batch(BATCH).collate()


def validation(shards: list[str], **options: Any) -> IterDataPipe[Any]:
    mine = IterableWrapper(shards).shard_expand().sharding_filter()
    read = samples(opened(shards, mine, **options)).map(content)
    return central(read).batch(BATCH).collate()


def loader(graph: IterDataPipe[Any]) -> DataLoader2[Any]:
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    return DataLoader2(graph, reading_service=workers)


def train_step(images: torch.Tensor, labels: torch.Tensor) -> None:
    """Train the model: your code."""


def validate(images: torch.Tensor, labels: torch.Tensor) -> None:
    """Measure the model: your code."""


def save(dl: DataLoader2[Any]) -> None:
    new = CHECKPOINT.with_suffix(".new")
    # Add the model's and the optimizer's state_dict().
    torch.save({"loader": dl.state_dict()}, new)
    os.replace(new, CHECKPOINT)  # the file is always complete


def main(shards: str, held_out_shards: str, endpoint: str = "") -> None:
    options: dict[str, Any] = {}
    if endpoint:
        options = {"endpoint_url": endpoint}
    train = training([shards], **options)
    held_out = validation([held_out_shards], **options)
    with loader(train) as dl, loader(held_out) as check:
        dl.seed(SEED)
        if CHECKPOINT.exists():
            dl.load_state_dict(torch.load(CHECKPOINT)["loader"])
        for _ in range(dl.epoch, EPOCHS):
            for images, labels in dl:
                train_step(images, labels)
                if dl.step % SAVE_EVERY == 0:
                    save(dl)
            for images, labels in check:
                validate(images, labels)


if __name__ == "__main__":
    main(*sys.argv[1:])
