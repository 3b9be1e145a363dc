"""Arrow's batches and tables as the bytes of an Arrow stream, and back; and the positions in Arrow's descriptions.

What this file keeps true: what is made is no larger than its bytes, so nothing compressed is read; and it was looked
through by pyarrow, which otherwise believes whatever offsets it is told. pyarrow may be missing for as long as no
element is of it. Arrow describes its messages, and the index of a file, in flatbuffers, of which pyarrow does not tell
everything: they are read here, nothing beyond the bytes that are there, and what does not fit is ``ValueError``.
"""

from __future__ import annotations

import struct
from typing import Any, Final

# Fields of a message, of a dictionary and of a record batch, as Arrow numbers them.
_HEADER: Final = 2
_DICTIONARY_DATA: Final = 1
_COMPRESSION: Final = 3


def table_parts(table: Any) -> tuple[bytes]:
    """Encode a table or batch as an Arrow stream of it alone."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return (sink.getvalue().to_pybytes(),)


def make_batch(raw: bytes) -> Any:
    """A record batch of its stream."""
    batches = list(_read(raw))
    if len(batches) != 1:
        raise ValueError(f"{len(batches)} batches instead of one")
    return _sound(batches[0])


def make_table(raw: bytes) -> Any:
    """A table of its stream."""
    return _sound(_read(raw).read_all())


def _sound(table: Any) -> Any:
    table.validate(full=True)
    str(table.schema)  # which is not part of the validation
    return table


def _read(raw: bytes) -> Any:
    """A reader of an uncompressed stream; compressed buffers are refused, as their sizes are only claimed."""
    import pyarrow as pa

    for message in pa.ipc.MessageReader.open_stream(raw):
        if message.type in ("record batch", "dictionary") and _is_compressed(message):
            raise ValueError("its buffers are compressed")
    return pa.ipc.open_stream(raw)


def _is_compressed(message: Any) -> bool:
    """Whether a message's description, a flatbuffer, says so; pyarrow does not tell."""
    described = FlatTable(message.metadata.to_pybytes()).inner(_HEADER)
    batch = described.inner(_DICTIONARY_DATA) if message.type == "dictionary" else described
    return batch.place(_COMPRESSION) != 0


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
