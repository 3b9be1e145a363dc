"""How a stage unpacks files: limits on decompressed data, a ratio and a size, counted for the outermost file.

A small file can unpack to any amount of data, especially if it contains further archives. The input counted is the
compressed bytes of the outermost file. The output counted is, for each level of nesting, the sum over that file.
The first bytes are exempt from the ratio: a short text of blanks is no attack. By default the first GiB is exempt,
because a ratio alone cannot distinguish an attack from data: deflate never exceeds 1,032, and label volumes reach 810.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from math import inf
from typing import Any

from datapipes.elements.streams import unwrapped
from datapipes.errors import TooLarge

FREE = 16 * 2**20
"""Bytes that any file may unpack to, with a ratio that the caller gives."""

FREE_BY_DEFAULT = 2**30
"""Bytes that any file may unpack to, with the default limits."""

MAX_RATIO = 200.0
"""Default of ``max_ratio``, in multiples of the file's size. Most real data stays below a tenth of it."""


@dataclass(frozen=True, slots=True)
class Unpacking:
    """Limits on the data that comes out of one outermost file; None means no limit.

    ``isal`` is the module that decompresses gzip and deflate. None: zlib does it.
    """

    max_ratio: float | None = MAX_RATIO
    max_bytes: int | None = None
    isal: Any = None

    def ratio(self) -> tuple[float, int] | None:
        """Return the ratio in force and the bytes that are exempt from it. Return None if no ratio is in force."""
        if self.max_ratio == MAX_RATIO:
            return None if self.max_bytes is not None else (MAX_RATIO, FREE_BY_DEFAULT)
        return None if self.max_ratio is None else (self.max_ratio, FREE)


class Meter:
    """Counter of the input and output of one decompression, charged to the outermost file."""

    __slots__ = ("_account", "_depth", "_free", "_label", "_max_bytes", "_max_ratio", "_taken", "_totals", "isal")

    def __init__(self, unpacking: Unpacking, label: str, outer: Meter | None = None) -> None:
        self.isal = unpacking.isal
        self._max_ratio, self._free = unpacking.ratio() or (inf, 0)
        self._max_bytes = inf if unpacking.max_bytes is None else unpacking.max_bytes
        self._label = label
        self._account: Meter = self if outer is None else outer._account
        self._depth: int = 0 if outer is None else outer._depth + 1
        self._taken = 0  # compressed bytes; only those of the outermost file are read
        self._totals: list[int] = []  # output bytes by depth, of the outermost file
        totals = self._account._totals
        totals += [0] * (self._depth + 1 - len(totals))

    def took(self, size: int) -> None:
        """Count compressed bytes that went in; a negative size if they will go in again."""
        self._taken += size

    def gave(self, size: int) -> None:
        """Count bytes that came out. Raise TooLarge if they exceed a limit."""
        account = self._account
        account._totals[self._depth] = total = account._totals[self._depth] + size
        if total > self._max_bytes:
            raise TooLarge(
                f"{self._label}: more than {self._max_bytes} bytes came out of {account._label} when it was "
                "decompressed; `max_bytes` sets this limit"
            )
        if total > self._free and total > self._max_ratio * account._taken:
            raise TooLarge(
                f"{self._label}: {account._taken} bytes of {account._label} grew to more than {total} when they were "
                f"decompressed, {total / max(account._taken, 1):.0f} times as many; beyond {self._free >> 20} MiB, at "
                f"most {self._max_ratio:g} times is allowed. If you trust the file, set a larger `max_ratio`, None "
                "for no limit, or the expected size as `max_bytes`"
            )


class Metered(io.RawIOBase):
    """Stream with the meter of its decompression; None if it is not decompressed."""

    meter: Meter | None = None

    def readable(self) -> bool:
        return True


def meter_of(stream: Any) -> Meter | None:
    """Return the meter of a stream that this library decompresses, or None."""
    file = unwrapped(stream)
    raw = file.raw if isinstance(file, io.BufferedReader) else file
    return raw.meter if isinstance(raw, Metered) else None
