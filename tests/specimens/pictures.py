"""Specimens of ``decode_images``, for streams and for map-style pipes, and of decoding by ``webdataset``."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from tests.specimens.specimen import Countable, Specimen, Tap, everything, shuffled


@cache
def pictures() -> list[bytes]:
    """JPEGs, a PNG and a GIF, of realistic colors and a few sizes."""
    made = []
    for number, kind in enumerate(("JPEG", "JPEG", "PNG", "JPEG", "GIF", "JPEG")):
        random = np.random.default_rng(number)
        broad = random.integers(0, 256, (4, 5, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(broad).resize((40 + number, 30), Image.Resampling.BICUBIC).save(file, kind)
        made.append(file.getvalue())
    return made


@cache
def rows() -> list[tuple[bytes, int]]:
    return [(data, number) for number, data in enumerate(pictures())]


@cache
def paths() -> list[str]:
    folder = everything() / "pictures"
    folder.mkdir()
    for number, data in enumerate(pictures()):
        (folder / f"{number}.img").write_bytes(data)
    return [str(folder / f"{number}.img") for number in range(len(pictures()))]


def missing(tap: Tap) -> Pipe:
    first, *others = paths()
    return IterableWrapper([first, f"{first}.missing", *others]).decode_images(3)


def is_odd(row: tuple[Any, int]) -> bool:
    return row[1] % 2 == 1


def seekable(tap: Tap) -> Pipe:
    return tap(IterableWrapper(rows()))


def unseekable(tap: Tap) -> Pipe:
    return tap(IterableWrapper(Countable(*rows())))


def opened(tap: Tap) -> Pipe:
    return tap(IterableWrapper(paths())).open_files("rb")


PICTURES = [
    shuffled("iter.decode_images", "random boxes", lambda tap: seekable(tap).decode_images(3, flip=True, key=0)),
    shuffled(
        "iter.decode_images",
        "random boxes, shuffled",
        lambda tap: seekable(tap).decode_images(3, key=0).shuffle(buffer_size=3),
    ),
    shuffled(
        "iter.decode_images",
        "random boxes below a filter, shuffled",
        lambda tap: seekable(tap).filter(is_odd).decode_images(3, key=0).shuffle(buffer_size=2),
    ),
    shuffled(
        "iter.decode_images",
        "random boxes of shuffled files, in batches",
        lambda tap: opened(tap).shuffle(buffer_size=2).decode_images((2, 4)).batch(2),
    ),
    shuffled(
        "iter.decode_images",
        "mirrored, from a source that cannot be sought",
        lambda tap: unseekable(tap).decode_images(4, crop=None, flip=True, mode="L", key=0).shuffle(buffer_size=3),
    ),
    shuffled(
        "iter.decode_images",
        "random boxes with a policy for errors",
        lambda tap: (
            tap(IterableWrapper(pictures())).decode_images(3, on_error="skip", max_errors=0.9).shuffle(buffer_size=2)
        ),
    ),
    Specimen("iter.decode_images", "centres", lambda tap: opened(tap).decode_images(3, crop="center").prefetch(2)),
    Specimen(
        "iter.decode_images",
        "centres with a policy for errors",
        lambda tap: tap(IterableWrapper(pictures())).decode_images(3, crop="center", on_error="skip"),
    ),
    Specimen("iter.decode_images", "a missing file", missing, raises=True),
    Specimen("map.decode_images", "centres", lambda tap: SequenceWrapper(rows()).decode_images(3, "center", key=0)),
    shuffled(
        "map.decode_images", "random boxes", lambda tap: SequenceWrapper(rows()).decode_images(3, key=0).shuffle()
    ),
    shuffled(
        "map.decode_images",
        "mirrored, shuffled by a buffer",
        lambda tap: (
            SequenceWrapper(rows()).decode_images(3, None, flip=True, key=0).to_iter_datapipe().shuffle(buffer_size=3)
        ),
    ),
]
