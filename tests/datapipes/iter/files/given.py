"""Bytes in memory as open files, as the stages that read archives are given them."""

from __future__ import annotations

import io
from typing import Any

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper


class OneWay(io.RawIOBase):
    """A file that cannot be sought, and gives a few bytes at a time, as a socket does."""

    def __init__(self, data: bytes, most: int = 700) -> None:
        self._file = io.BytesIO(data)
        self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(self._most, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


class Counting(io.BytesIO):
    """A file that knows how many bytes were read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


def files(*named: tuple[str, bytes | io.IOBase]) -> Pipe:
    """``(path, stream)`` for each path and content."""
    opened = [(path, io.BytesIO(data) if isinstance(data, bytes) else data) for path, data in named]
    return IterableWrapper(opened, deepcopy=False)


def contents(pipe: Pipe) -> dict[str, bytes]:
    """Contents of each stream, read as they come."""
    return {path: stream.read() for path, stream in pipe}
