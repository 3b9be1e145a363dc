"""The folder in which data are made once, and words, waves and pictures to make them of.

The same in every run: what is random is drawn from a seed. A folder is renamed to its name when it is complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from benchmarks.real.kind import Kind

FORM = 1
"""Raised with each change of what data look like, so that older ones are made anew."""

STORED, WANTED = 384, 224
"""The sides of pictures, in files and as they are delivered."""


def home() -> Path:
    return Path(tempfile.gettempdir()) / f"loader2-bench-real-{os.getuid()}"


def made(kind: Kind, elements: int, within: Path) -> Path:
    """The folder of a kind's data, made if it is not there."""
    folder = within / f"{kind.make.__module__.rpartition('.')[2]}-{elements}-{FORM}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(dir=folder.parent))
        kind.make(half, elements)
        try:
            half.rename(folder)
        except OSError:  # another run was quicker
            shutil.rmtree(half)
    return folder


def picture(number: int, side: int) -> npt.NDArray[np.uint8]:
    """A picture with broad and fine structure, so that a JPEG of it has the size that JPEGs of photographs have."""
    random = np.random.default_rng(number)
    coarse = random.integers(0, 256, (side // 32, side // 32, 3), dtype=np.uint8).astype(np.int16)
    broad = np.kron(coarse, np.ones((32, 32, 1), dtype=np.int16))
    fine = random.integers(-12, 13, (side, side, 3), dtype=np.int16)
    clipped: npt.NDArray[np.int16] = np.clip(broad + fine, 0, 255)
    return clipped.astype(np.uint8)


def jpeg(number: int) -> bytes:
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture(number, STORED)).save(file, "JPEG", quality=85)
    return file.getvalue()


def pixels(source: Any) -> npt.NDArray[np.uint8]:
    """A JPEG's path or open file, decoded and resized for models, the same way for all contenders."""
    from PIL import Image

    with Image.open(source) as image:
        return resized(image)


def resized(image: Any) -> npt.NDArray[np.uint8]:
    return np.array(image.convert("RGB").resize((WANTED, WANTED)))


def words(count: int) -> list[str]:
    """Made-up words of two to ten letters."""
    random = np.random.default_rng(0)
    return ["".join(map(chr, random.integers(97, 123, size))) for size in random.integers(2, 11, count)]
