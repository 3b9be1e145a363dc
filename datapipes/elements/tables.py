"""Arrow's batches and tables as the bytes of an Arrow stream, and back; and positions in Arrow's descriptions.

Invariants: a result is no larger than its bytes, so compressed streams are refused. pyarrow validates it in full,
because its reader accepts any offsets. pyarrow is only needed for elements that contain it.

Arrow describes its messages, and the index of a file, in flatbuffers. pyarrow shows only a part of them, so they are
read here by hand. Nothing beyond the end of the bytes is read, and damage raises ``ValueError``.
"""

from __future__ import annotations

import struct
from typing import Any, Final

# Fields of a message, of a dictionary and of a record batch, as Arrow numbers them.
_HEADER: Final = 2
_DICTIONARY_DATA: Final = 1
_COMPRESSION: Final = 3


def table_parts(table: Any) -> tuple[bytes]:
    """Return a table or a batch as an Arrow stream that contains nothing else."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return (sink.getvalue().to_pybytes(),)


def make_batch(raw: bytes) -> Any:
    """Make a record batch from its stream."""
    batches = list(_read(raw))
    if len(batches) != 1:
        raise ValueError(f"{len(batches)} batches instead of one")
    return _sound(batches[0])


def make_table(raw: bytes) -> Any:
    """Make a table from its stream."""
    return _sound(_read(raw).read_all())


def _sound(table: Any) -> Any:
    table.validate(full=True)
    str(table.schema)  # the validation does not include it
    return table


def _read(raw: bytes) -> Any:
    """Return a reader of an uncompressed stream. Refuse compressed buffers: the bytes only claim their sizes."""
    import pyarrow as pa

    for message in pa.ipc.MessageReader.open_stream(raw):
        if message.type in ("record batch", "dictionary") and _is_compressed(message):
            raise ValueError("its buffers are compressed")
    return pa.ipc.open_stream(raw)


def _is_compressed(message: Any) -> bool:
    """Return whether the flatbuffer that describes a message says that it is compressed. pyarrow does not tell."""
    described = FlatTable(message.metadata.to_pybytes()).inner(_HEADER)
    batch = described.inner(_DICTIONARY_DATA) if message.type == "dictionary" else described
    return batch.place(_COMPRESSION) != 0


class FlatTable:
    """A flatbuffer table at a position in some bytes. By default it is the outermost one."""

    def __init__(self, data: bytes, at: int | None = None) -> None:
        self._data = data
        self._at = self.number("<I", 0) if at is None else at

    def number(self, form: str, at: int) -> int:
        """Return the number at a position, in a format of ``struct``."""
        try:
            return int(struct.unpack_from(form, self._data, at)[0])
        except struct.error as error:
            raise ValueError(f"a description is damaged: {error}") from error

    def place(self, index: int) -> int:
        """Return the position of the field with an index, or 0 if the table has none."""
        known = self._at - self.number("<i", self._at)
        if 6 + 2 * index > self.number("<H", known):
            return 0
        offset = self.number("<H", known + 4 + 2 * index)
        return self._at + offset if offset else 0

    def target(self, index: int) -> int:
        """Return the position that a field refers to, or 0 if the table has no such field."""
        at = self.place(index)
        return at + self.number("<I", at) if at else 0

    def inner(self, index: int) -> FlatTable:
        """Return the table that a field refers to. Raise ValueError if the table has no such field."""
        at = self.target(index)
        if not at:
            raise ValueError("a description is damaged: a part is missing")
        return FlatTable(self._data, at)
