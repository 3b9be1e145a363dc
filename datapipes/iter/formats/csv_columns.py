"""read_csv_columns: typed columns of CSV files, through pyarrow.

A file is split into blocks of whole rows, and pyarrow reads each block by itself. At most one block is in memory. The
first block determines the types of all. The position is the number of blocks; a resume reads but does not convert the
blocks already given. A bad block costs no other block. pyarrow alone accepts NUL bytes as text and undecodable text as
bytes, and reads the rest of a file as one field if a quote is never closed.

Quotes are counted to find the ends of rows, so a quote inside a field must be quoted and doubled, as CSV requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import CorruptData
from datapipes.iter.formats.tables import (
    FORMS,
    As,
    as_one_batch,
    damage_is_named,
    file_of,
    has_columns,
    shaped,
)
from datapipes.messages.extras import needed
from datapipes.operator_support.checks import needs, needs_count
from datapipes.operator_support.flattening import Flattening, Pieces
from datapipes.position.on_error import Tolerant

_LONGEST = 64 << 20  # most bytes of a row, unless a block is longer
_OPEN = "a quote was opened and never closed"


@operator
class CSVColumnReader(Tolerant, Flattening[Any]):
    """The rows of each CSV file in blocks, each a record batch with typed columns.

    The source gives paths, URLs or ``(path, stream)``; the text must be UTF-8.

    Args:
        columns: Names of the columns to give, in this order; a missing one is an error. The other columns are read and
            left out. ``None``: all.
        types: Types of columns by name, in pyarrow's terms: ``"int64"``, ``"float32"``, ``"string"``. The file's first
            block determines the types of other columns.
        names: Names of the columns, if the first row is data. ``None``: the first row has them.
        delimiter: The character between two fields.
        block_size: Bytes to read for a batch. The batch has the whole rows in them, or one longer row of up to 64 MiB.
            Larger blocks need more memory, are read faster, and determine types better.
        use_threads: Whether pyarrow converts the columns of a block in its own threads. That is faster if one process
            reads, but of little use if workers share the cores.
        as_: Form of the result: ``"batch"`` (pyarrow's RecordBatch), ``"dict"`` (lists by column) or ``"tensors"``
            (tensors by column; the columns must have numbers, or lists of numbers with one size, without nulls).

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> file = io.BytesIO(b"x,y\\n1,2\\n3,4\\n")
    >>> dp = IterableWrapper([("a.csv", file)], deepcopy=False).read_csv_columns(types={"y": "float32"}, as_="dict")
    >>> list(dp)
    [{'x': [1, 3], 'y': [2.0, 4.0]}]
    """

    _fluent: ClassVar[str | None] = "read_csv_columns"

    source_datapipe: IterDataPipe[Any]
    columns: Sequence[str] | None = None
    types: Mapping[str, Any] | None = None
    _: KW_ONLY
    names: Sequence[str] | None = None
    delimiter: str = ","
    block_size: int = 1 << 20
    use_threads: bool = False
    as_: As = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        needs_count(self, "block_size", 1, "block_size must be at least 1")
        needs(self.as_ in FORMS, self, f"as_ must be one of {', '.join(FORMS)}, got {self.as_!r:.60}")
        needed("pyarrow.csv", "parquet", "read_csv_columns")

    def _inner(self, element: Any) -> Pieces[Any]:
        return _CSVBlocks(*file_of(element, "read_csv_columns"), self)


class _CSVBlocks(Pieces[Any]):
    """Blocks of one file."""

    def __init__(self, name: str, stream: Any, pipe: CSVColumnReader) -> None:
        self._name = name
        self._stream = stream
        self._pipe = pipe
        self._rest = b""
        self._line = 1  # the first line of the next block
        self._ended = False
        self._schema: Any = None  # of the first block

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        block, where = self._block()
        with damage_is_named(lambda: where):
            table = self._read(block)
            if not table.num_rows and self._ended:
                raise StopIteration
            batch = as_one_batch(table if self._pipe.columns is None else table.select(list(self._pipe.columns)))
        return shaped(batch, self._pipe.as_)

    def skip(self, given: int) -> int:
        for number in range(given):
            try:
                block, _ = self._block()
                if self._schema is None:
                    self._read(block)
            except StopIteration:
                return number
            except (CorruptData, ValueError, LookupError):
                continue  # it was raised before the state was saved
        return given

    def _read(self, block: bytes) -> Any:
        """Read a block as a table with the names and types of the first. If the first fails, the file has ended."""
        first = self._schema is None
        try:
            return self._converted(block)
        finally:
            if first and self._schema is None:
                self._ended, self._rest = True, b""

    def _converted(self, block: bytes) -> Any:
        import pyarrow as pa
        import pyarrow.csv as pc

        types = dict(self._pipe.types or {}) if self._schema is None else {f.name: f.type for f in self._schema}
        names = self._pipe.names if self._schema is None else self._schema.names
        table = pc.read_csv(
            pa.BufferReader(block),
            pc.ReadOptions(use_threads=self._pipe.use_threads, block_size=len(block) + 1, column_names=names),
            pc.ParseOptions(delimiter=self._pipe.delimiter, newlines_in_values=True),
            pc.ConvertOptions(column_types=types),
        )
        if self._schema is None:
            self._schema = self._sound(table.schema)
        return table

    def _sound(self, schema: Any) -> Any:
        """Return a schema after checking that its names are unique and that all required columns exist."""
        import pyarrow as pa

        names, types = schema.names, self._pipe.types or {}
        if twice := [name for name in names if names.count(name) > 1]:
            raise CorruptData(f"{self._name}: two columns have the name {twice[0]!r:.80}")
        for asked in (types, self._pipe.columns or ()):
            has_columns(self._name, names, list(asked))
        for field in schema:
            if pa.types.is_binary(field.type) and field.name not in types:
                raise CorruptData(f"{self._name}: column {field.name!r:.80} is not UTF-8 text")
        return schema

    def _block(self) -> tuple[bytes, str]:
        """Return the next rows, and their place. The header is in one block with the first row."""
        block, first = b"", 1
        while not block.strip():  # pyarrow refuses blocks of blank lines
            first, block = self._line, self._take()
            self._line += block.count(b"\n")
        if b"\0" in block:
            line = first + block.count(b"\n", 0, block.index(b"\0"))
            raise CorruptData(f"{self._name}, line {line}: line contains NUL")
        return block, f"{self._name}, in the block that begins at line {first}"

    def _take(self) -> bytes:
        """Return the whole rows in a block, or read further until there is one."""
        data, size = self._rest, self._pipe.block_size
        with_header = self._schema is None and self._pipe.names is None
        while more := b"" if self._ended else self._stream.read(size):
            if not isinstance(more, bytes):
                raise TypeError(f"{self._name}: read_csv_columns() reads bytes; open the file with open_files('rb')")
            data += more
            end = _end_of_rows(data)
            if end and not (with_header and not _end_of_rows(data[: end - 1])):
                self._rest = data[end:]
                return data[:end]
            if len(data) > max(_LONGEST, size):
                self._ended, self._rest = True, b""
                raise CorruptData(f"{self._name}, line {self._line}: a row of over {len(data)} bytes; perhaps {_OPEN}")
        self._ended, self._rest = True, b""
        if not data:
            raise StopIteration
        if data.count(b'"') % 2:
            raise CorruptData(f"{self._name}, from line {self._line} on: {_OPEN}")
        return data if data.endswith(b"\n") else data + b"\n"


def _end_of_rows(data: bytes) -> int:
    """Return the end of the last whole row: after the last newline that is not within quotes."""
    quotes, end = data.count(b'"'), len(data)
    while (newline := data.rfind(b"\n", 0, end)) >= 0:
        quotes -= data.count(b'"', newline, end)
        if quotes % 2 == 0:
            return newline + 1
        end = newline
    return 0
