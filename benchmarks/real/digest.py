"""The elements of a loader as one number, whatever their order, and whatever holds them: a multiset's digest.

Each row's bytes are mixed to 64 bits, and these are added up. Whole numbers count as int64 and others as float32, so
that two libraries that only differ in what they call a number deliver the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt


def columns(batch: Any) -> list[Any]:
    """The columns of a batch: values of a dict by their names, parts of a tuple or list, or the batch itself."""
    if isinstance(batch, Mapping):
        return [batch[name] for name in sorted(batch)]
    return list(batch) if isinstance(batch, tuple | list) else [batch]


def row_hashes(batch: Any) -> npt.NDArray[np.uint64]:
    """64 bits for each row of a batch."""
    parts = [_bytes(np.asarray(column)) for column in columns(batch)]
    rows = np.concatenate(parts, axis=1)
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 8)))
    words = np.ascontiguousarray(rows).view(np.uint64)
    mixed: npt.NDArray[np.uint64] = _mixed(_mixed(words) * _weights(words.shape[1])).sum(axis=1, dtype=np.uint64)
    return _mixed(mixed)


def digest(batches: Iterable[Any], plain: Callable[[Any], Any]) -> str:
    """How many rows, and what they are."""
    count, total = 0, 0
    for batch in batches:
        hashes = row_hashes(plain(batch))
        count, total = count + len(hashes), (total + int(hashes.sum(dtype=np.uint64))) % 2**64
    return f"{count} {total:016x}"


def _bytes(column: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if column.dtype.kind in "iub" and column.dtype.itemsize > 1:
        column = column.astype(np.int64)
    elif column.dtype.kind == "f":
        column = column.astype(np.float32)
    elif column.dtype.kind not in "iub":
        raise TypeError(f"a column of {column.dtype} has no digest; give numbers")
    flat = np.ascontiguousarray(column).reshape(len(column), -1)
    return flat.view(np.uint8)


@cache
def _weights(words: int) -> npt.NDArray[np.uint64]:
    """An odd number for each place in a row."""
    return _mixed(np.arange(words, dtype=np.uint64)) | np.uint64(1)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64: each bit of a value has a part in each bit of the outcome."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
