"""Sound to log-mel spectrograms: WAV files of a second, read, cut into windows, transformed by FFT."""

from __future__ import annotations

import wave
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.real import kind, loaders

RATE = 16_000
WINDOW, HOP, MELS = 400, 160, 64
BATCH = 32


def make(folder: Path, elements: int) -> None:
    at = np.arange(RATE) / RATE
    for number in range(elements):
        random = np.random.default_rng(number)
        tones = sum(np.sin(2 * np.pi * (pitch * at + random.random())) for pitch in random.uniform(80, 6_000, 4))
        heard = np.int16((tones + 0.1 * random.standard_normal(RATE)) * 6_000)
        with wave.open(str(folder / f"{number:05d}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(heard.tobytes())


def spectrogram(path: str) -> npt.NDArray[np.float32]:
    with wave.open(path) as file:
        heard = np.frombuffer(file.readframes(file.getnframes()), dtype=np.int16).astype(np.float32) / 32_768
    windows = np.lib.stride_tricks.sliding_window_view(heard, WINDOW)[::HOP] * _window()
    power = np.abs(np.fft.rfft(windows, n=512)) ** 2
    heights: npt.NDArray[np.float32] = np.log(power.astype(np.float32) @ _mels() + 1e-6)
    return heights


@cache
def _window() -> npt.NDArray[np.float32]:
    return np.hanning(WINDOW).astype(np.float32)


@cache
def _mels() -> npt.NDArray[np.float32]:
    """Triangles over the frequencies of the transform, evenly spaced on the mel scale."""
    highest = 2_595 * np.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, highest, MELS + 2) / 2_595) - 1)
    places = np.linspace(0, RATE / 2, 257)[:, None]
    rising = (places - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - places) / (corners[2:] - corners[1:-1])
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


class Sounds:
    def __init__(self, folder: Path) -> None:
        self.paths = paths(folder)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> npt.NDArray[np.float32]:
        return spectrogram(self.paths[number])


def paths(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("*.wav")))


def ours(folder: Path, workers: int) -> Any:
    from tutorials.recipes import sound

    return loaders.ours(sound.training(paths(folder), spectrogram), workers)


def torch(folder: Path, workers: int) -> Any:
    return loaders.torch_of_rows(Sounds(folder), BATCH, workers)


def datasets(folder: Path, workers: int) -> Any:
    from datasets import Dataset

    rows = Dataset.from_dict({"path": paths(folder)}).with_transform(_spectrograms)
    return loaders.torch_of_rows(rows, BATCH, workers)


def _spectrograms(rows: dict[str, list[str]]) -> dict[str, list[Any]]:
    return {"mel": list(map(spectrogram, rows["path"]))}


def nodes(folder: Path, workers: int) -> Any:
    return loaders.nodes_of_rows(Sounds(folder), BATCH, workers)


def old(folder: Path, workers: int) -> Any:
    return loaders.old_of_rows(Sounds(folder), BATCH, workers)


def spdl(folder: Path, workers: int) -> Any:
    return loaders.spdl_of_rows(Sounds(folder), BATCH, workers)


def grain(folder: Path, workers: int) -> Any:
    return loaders.grain_of_rows(Sounds(folder), BATCH, workers)


KIND = kind.Kind(
    "Sound to log-mel",
    "sounds",
    3_000,
    make,
    kind.ways(ours, torch, datasets, nodes, old, spdl, grain),
)
