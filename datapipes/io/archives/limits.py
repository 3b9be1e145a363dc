"""Limits on decompressed data: a ratio and a size, counted from the outermost file inwards.

A small file can unpack to any amount of data, all the more if it holds others of its kind. So what is counted in is the
compressed bytes of the outermost file, and what is counted out, for each level of nesting, is all that came out of that
file there. The first bytes are free of the ratio: a short text of blanks is no attack.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from datapipes.elements.streams import unwrapped
from datapipes.errors import TooLarge

FREE = 16 * 2**20
"""Bytes that may come out of a file whatever its size."""

MAX_RATIO = 1000.0
"""Growth of a file in multiples of its size, at most, by default; real data seldom passes a tenth of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the data that comes out of one outermost file; None is no limit."""

    max_ratio: float | None = MAX_RATIO
    max_bytes: int | None = None


class Meter:
    """Counts what goes into and comes out of one decompression, on the account of the outermost file."""

    __slots__ = ("_account", "_depth", "_label", "_limits", "_taken", "_totals")

    def __init__(self, limits: Limits, label: str, outer: Meter | None = None) -> None:
        self._limits = limits
        self._label = label
        self._account: Meter = self if outer is None else outer._account
        self._depth: int = 0 if outer is None else outer._depth + 1
        self._taken = 0  # compressed bytes; only the outermost are looked at
        self._totals: list[int] = []  # of the account: bytes that came out, by depth
        totals = self._account._totals
        totals += [0] * (self._depth + 1 - len(totals))

    def took(self, size: int) -> None:
        """Count compressed bytes that went in; less than none, if they are to go in once more."""
        self._taken += size

    def gave(self, size: int) -> None:
        """Count bytes that came out; TooLarge if they are more than may."""
        account, limits = self._account, self._limits
        account._totals[self._depth] = total = account._totals[self._depth] + size
        if limits.max_bytes is not None and total > limits.max_bytes:
            raise TooLarge(
                f"{self._label}: more than {limits.max_bytes} bytes came out of {account._label} when it was "
                "decompressed; `max_bytes` sets that limit"
            )
        if limits.max_ratio is not None and total > FREE + limits.max_ratio * account._taken:
            raise TooLarge(
                f"{self._label}: {account._taken} bytes of {account._label} grew to more than {total} when they were "
                f"decompressed, which is more than {limits.max_ratio:g} times as many; `max_ratio` sets that limit, "
                "None is no limit"
            )


class Metered(io.RawIOBase):
    """A stream with the meter of its decompression, if it is decompressed."""

    meter: Meter | None = None

    def readable(self) -> bool:
        return True


def meter_of(stream: Any) -> Meter | None:
    """The account of a stream that came out of one of ours."""
    file = unwrapped(stream)
    raw = file.raw if isinstance(file, io.BufferedReader) else file
    return raw.meter if isinstance(raw, Metered) else None
