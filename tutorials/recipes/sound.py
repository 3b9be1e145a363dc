"""Sound files to spectrograms.

The label is the number before the first ``_`` of a WAV file's name. A
clip is cut or filled up to SECONDS. Each worker reads and transforms
only its own files.

    python sound.py FOLDER VALIDATION_FOLDER
"""

import os
import sys
import wave
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

RATE, SECONDS, WINDOW, HOP, BATCH = 16_000, 1, 400, 160, 32
WORKERS, SEED, EPOCHS, SAVE_EVERY = 2, 0, 2, 100
CHECKPOINT = Path("checkpoint.pt")

Read = Callable[[str], Any]


def files(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).glob("*.wav")))


@cache
def window() -> torch.Tensor:
    return torch.hann_window(WINDOW)


def labelled(path: str) -> tuple[torch.Tensor, int]:
    """Return the log-power spectrogram of a file and its label."""
    with wave.open(path) as file:
        data = bytearray(file.readframes(RATE * SECONDS))
    samples = torch.zeros(RATE * SECONDS)
    heard = torch.frombuffer(data, dtype=torch.int16)
    samples[: len(heard)] = heard / 32_768
    spectrum = torch.stft(
        samples, WINDOW, HOP, window=window(), return_complex=True
    )
    power = torch.view_as_real(spectrum).square().sum(-1)
    return power.add_(1e-6).log_(), int(Path(path).name.split("_")[0])


def training(
    files: list[str], read: Read = labelled
) -> IterDataPipe[Any]:
    mine = IterableWrapper(files).shuffle().sharding_filter()
    return mine.map(read).batch(BATCH).collate()


def validation(files: list[str]) -> IterDataPipe[Any]:
    mine = IterableWrapper(files).sharding_filter()
    return mine.map(labelled).batch(BATCH).collate()


def loader(graph: IterDataPipe[Any]) -> DataLoader2[Any]:
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    return DataLoader2(graph, reading_service=workers)


def train_step(spectra: torch.Tensor, labels: torch.Tensor) -> None:
    """Train the model: your code."""


def validate(spectra: torch.Tensor, labels: torch.Tensor) -> None:
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
            for spectra, labels in dl:
                train_step(spectra, labels)
                if dl.step % SAVE_EVERY == 0:
                    save(dl)
            for spectra, labels in check:
                validate(spectra, labels)


if __name__ == "__main__":
    main(*sys.argv[1:])
