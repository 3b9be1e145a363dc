"""read_arrow: the record batches of Arrow IPC files and streams.

One batch at a time is in memory. A stream must have its end mark, because a stream that is cut off between two batches
looks complete otherwise. The batches of a file are found by number, so that a resume reads none of those already given;
the file's index must reach its end. Neither kind has checksums: a changed value, or a whole batch missing from a
stream, is undetectable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.tables import FlatTable
from datapipes.errors import CorruptData
from datapipes.iter.formats.tables import FORMS, As, damage_is_named, file_of, has_columns, shaped
from datapipes.messages.extras import needed
from datapipes.operator_support.checks import needs
from datapipes.operator_support.flattening import Flattening, Pieces
from datapipes.position.on_error import Tolerant

_MAGIC = b"ARROW1"
_DICTIONARIES, _BATCHES = 2, 3  # fields of a file's index: lists of offsets and lengths
_BLOCK = 24
_PADDED_END = 16  # most bytes of the end mark
_STEP = 1 << 20  # bytes to read at a time
_END = b"\xff\xff\xff\xff\0\0\0\0"


@operator
class ArrowReader(Tolerant, Flattening[Any]):
    """The record batches of each Arrow IPC file or stream; the kind is detected.

    The source gives paths, URLs or ``(path, stream)``.

    Args:
        columns: Names of the columns to give, in this order; a missing one is an error. The other columns of a file are
            not read. ``None``: all.
        as_: Form of the result: ``"batch"`` (pyarrow's RecordBatch), ``"dict"`` (lists by column) or ``"tensors"``
            (tensors by column; the columns must have numbers, or lists of numbers with one size, without nulls).

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> import pyarrow
    >>> file, batch = io.BytesIO(), pyarrow.record_batch({"x": [1, 2], "y": ["a", "b"]})
    >>> with pyarrow.ipc.new_stream(file, batch.schema) as writer:
    ...     writer.write_batch(batch)
    >>> files = IterableWrapper([("a.arrows", io.BytesIO(file.getvalue()))], deepcopy=False)
    >>> list(files.read_arrow(["x"], as_="dict"))
    [{'x': [1, 2]}]
    """

    _fluent: ClassVar[str | None] = "read_arrow"

    source_datapipe: IterDataPipe[Any]
    columns: Sequence[str] | None = None
    _: KW_ONLY
    as_: As = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        needs(self.as_ in FORMS, self, f"as_ must be one of {', '.join(FORMS)}, got {self.as_!r:.60}")
        needed("pyarrow.ipc", "parquet", "read_arrow")

    def _inner(self, element: Any) -> Pieces[Any]:
        name, stream = file_of(element, "read_arrow")
        with damage_is_named(lambda: name):
            head = stream.read(len(_MAGIC))
            if head == _MAGIC:
                stream.seek(0)  # a file is read from its end, so it must support seeking
                return _FileBatches(name, stream, self)
            return _StreamBatches(name, _Ending(stream, head), self)


class _ArrowBatches(Pieces[Any]):
    """Batches of one file."""

    def __init__(self, name: str, stream: Any, pipe: ArrowReader) -> None:
        self._name = name
        self._stream = stream
        self._pipe = pipe
        self._number = 0  # of the current batch

    def _where(self) -> str:
        return f"{self._name}, batch {self._number}"

    def _made(self, batch: Any) -> Any:
        columns = self._pipe.columns
        return shaped(batch if columns is None else batch.select(list(columns)), self._pipe.as_)


class _FileBatches(_ArrowBatches):
    """Batches of an Arrow file, by number; it continues after a damaged one."""

    def __init__(self, name: str, stream: Any, pipe: ArrowReader) -> None:
        super().__init__(name, stream, pipe)
        import pyarrow as pa

        _check_index(stream)
        stream.seek(0)
        self._reader = pa.ipc.open_file(stream)
        if pipe.columns is not None:
            there = self._reader.schema.names
            numbers = [there.index(column) for column in has_columns(name, there, pipe.columns)]
            self._reader = pa.ipc.open_file(stream, options=pa.ipc.IpcReadOptions(included_fields=numbers))

    def __iter__(self) -> Iterator[Any]:
        return map(self._batch, range(self._number, self._reader.num_record_batches))

    def skip(self, given: int) -> int:
        self._number = min(given, self._reader.num_record_batches)
        return self._number

    def _batch(self, number: int) -> Any:
        self._number = number
        with damage_is_named(self._where):
            batch = self._reader.get_batch(number)
            batch.validate(full=True)
        return self._made(batch)


class _StreamBatches(_ArrowBatches):
    """Batches of an Arrow stream, in order; it ends after a damaged one."""

    def __init__(self, name: str, stream: _Ending, pipe: ArrowReader) -> None:
        super().__init__(name, stream, pipe)
        import pyarrow as pa

        self._ending = stream
        self._reader = pa.ipc.open_stream(pa.PythonFile(stream, mode="r"))
        if pipe.columns is not None:
            has_columns(name, self._reader.schema.names, pipe.columns)

    def __iter__(self) -> Iterator[Any]:
        while True:
            with damage_is_named(self._where):
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    if self._ending.last != _END:
                        raise CorruptData(
                            f"{self._where()}: the stream was cut short: its end mark is missing"
                        ) from None
                    return
                batch.validate(full=True)
            yield self._made(batch)
            self._number += 1


class _Ending:
    """Stream whose head was already read, and which remembers its last bytes."""

    closed = False

    def __init__(self, stream: Any, head: bytes) -> None:
        self._stream = stream
        self._head = head
        self.last = b""

    def read(self, size: int) -> bytes:
        parts, left = [self._head[:size]], size - len(self._head[:size])
        self._head = self._head[size:]
        while left and (data := self._stream.read(min(left, _STEP))):  # in steps: a damaged length may be huge
            parts.append(data)
            left -= len(data)
        self.last = b"".join([self.last, *parts[-2:]])[-len(_END) :]
        return b"".join(parts)


def _check_index(file: Any) -> None:
    """Refuse an index without the last batches: at most the end mark may follow the last batch in it."""
    tail = len(_MAGIC) + 4
    size = file.seek(0, os.SEEK_END) or file.tell()
    file.seek(max(size - tail, 0))
    length = int.from_bytes(file.read(4), "little")
    start = size - tail - length
    if start < len(_MAGIC) or file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("its index is missing, as if it was cut short")
    file.seek(start)
    index = FlatTable(file.read(length))
    file.seek(8)
    prefix = file.read(8)
    schema = 8 + 4 + int.from_bytes(prefix[:4], "little")
    if prefix.startswith(_END[:4]):
        schema = 8 + 8 + int.from_bytes(prefix[4:], "little")
    ends = [schema]
    for blocks in filter(None, (index.target(_DICTIONARIES), index.target(_BATCHES))):
        places = range(blocks + 4, blocks + 4 + _BLOCK * index.number("<I", blocks), _BLOCK)
        ends += [index.number("<q", at) + index.number("<i", at + 8) + index.number("<q", at + 16) for at in places]
    if not 0 <= start - max(ends) <= _PADDED_END:
        raise ValueError("its index does not name all that is in it")
