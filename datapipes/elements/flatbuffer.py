"""Minimal reader of flatbuffers: positions of a table's fields, which pyarrow does not tell.

Arrow describes its messages, and the index of a file, in flatbuffers. What this file keeps true: nothing is read beyond
the bytes that are there; what does not fit is ``ValueError``.
"""

from __future__ import annotations

import struct


class FlatTable:
    """A table in some bytes; by default their outermost one."""

    def __init__(self, data: bytes, at: int | None = None) -> None:
        self._data = data
        self._at = self.number("<I", 0) if at is None else at

    def number(self, form: str, at: int) -> int:
        """The number of a form of ``struct``'s at some place."""
        try:
            return int(struct.unpack_from(form, self._data, at)[0])
        except struct.error as error:
            raise ValueError(f"a description is damaged: {error}") from error

    def place(self, index: int) -> int:
        """Position of the field with an index; 0 if the table has none."""
        known = self._at - self.number("<i", self._at)
        if 6 + 2 * index > self.number("<H", known):
            return 0
        offset = self.number("<H", known + 4 + 2 * index)
        return self._at + offset if offset else 0

    def target(self, index: int) -> int:
        """Position that a field refers to; 0 if the table has no such field."""
        at = self.place(index)
        return at + self.number("<I", at) if at else 0

    def inner(self, index: int) -> FlatTable:
        """The table that a field refers to."""
        at = self.target(index)
        if not at:
            raise ValueError("a description is damaged: a part is missing")
        return FlatTable(self._data, at)
