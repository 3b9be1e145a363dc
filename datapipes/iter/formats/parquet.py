"""list_row_groups, read_parquet, load_parquet_as_df: Parquet files, one row group at a time.

At most one row group of a file is in memory. A position is a row group and a batch in it, and a resume reads nothing of
the row groups before it. Pages with checksums are verified. Most writers write none by default: a changed value is then
undetectable, but missing rows are detected. A damaged row group costs its own elements, each of which is an error.

Elements ``(path, number)``, as ``list_row_groups`` gives them, are read as that row group alone. So row groups can be
shuffled or shared among workers before any of them is read:
``paths.list_row_groups().shuffle().sharding_filter().read_parquet()``.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import accumulate
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import CorruptData
from datapipes.io.archives.ranges import seekable
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


@operator
class RowGroupLister(Tolerant, Flattening[tuple[str, int]]):
    """``(path, number)`` for each row group of each Parquet file; only the footer of a file is read.

    ``read_parquet`` and ``load_parquet_as_df`` read such pairs, so that row groups can be shuffled and shared before.
    The source gives paths, URLs, or ``(path, stream)``. A stream gives the footer and is closed, and its path must be
    one that these operators can open.

    >>> import tempfile
    >>> from datapipes.iter import IterableWrapper
    >>> import pyarrow, pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.parquet")
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": range(6)}), path, row_group_size=2)
    ...     groups = IterableWrapper([path]).list_row_groups().sharding_filter()
    ...     groups.apply_sharding(2, 1)
    ...     list(groups.read_parquet(as_="dict"))
    [{'x': [2, 3]}]
    """

    _fluent: ClassVar[str | None] = "list_row_groups"

    source_datapipe: IterDataPipe[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        needed("pyarrow.parquet", "parquet", "list_row_groups")

    def _inner(self, path: Any) -> Iterable[tuple[str, int]]:
        file = _File(path, "list_row_groups")
        name = path[0] if isinstance(path, tuple) else path
        try:
            return [(os.fspath(name), number) for number in range(file.groups)]
        finally:
            file.close()


@operator
class ParquetReader(Tolerant, Flattening[Any]):
    """The row groups of each Parquet file, as record batches.

    The source gives paths, URLs, ``(path, stream)``, or ``(path, number)`` for one row group.

    Args:
        columns: Names of the columns to give, in this order; a part of one is named with a dot, as ``"point.x"``. A
            missing one is an error. The other columns are not read. ``None``: all.
        batch_size: Number of rows in a batch; the last of a row group may have fewer. ``None``: a batch is a whole row
            group, whose size the writer of the file has chosen.
        use_threads: Whether pyarrow reads the columns of a row group in its own threads. That is faster if one process
            reads, but of little use if workers share the cores.
        as_: Form of the result: ``"batch"`` (pyarrow's RecordBatch), ``"dict"`` (lists by column) or ``"tensors"``
            (tensors by column; the columns must have numbers, or lists of numbers with one size, without nulls).

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> import pyarrow, pyarrow.parquet
    >>> file, table = io.BytesIO(), pyarrow.table({"x": range(5), "y": list("abcde")})
    >>> pyarrow.parquet.write_table(table, file, row_group_size=3)
    >>> files = IterableWrapper([("a.parquet", io.BytesIO(file.getvalue()))], deepcopy=False)
    >>> list(files.read_parquet(["x"], as_="tensors"))
    [{'x': tensor([0, 1, 2])}, {'x': tensor([3, 4])}]
    """

    _fluent: ClassVar[str | None] = "read_parquet"

    source_datapipe: IterDataPipe[Any]
    columns: Sequence[str] | None = None
    _: KW_ONLY
    batch_size: int | None = None
    use_threads: bool = False
    as_: As = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        needs_count(self, "batch_size", 1, "batch_size must be at least 1, or None", or_none=True)
        needs(self.as_ in FORMS, self, f"as_ must be one of {', '.join(FORMS)}, got {self.as_!r:.60}")
        needed("pyarrow.parquet", "parquet", "read_parquet")

    def _inner(self, element: Any) -> Pieces[Any]:
        return _ParquetBatches(element, self)

    def _made(self, batch: Any) -> Any:
        return shaped(batch, self.as_)


@operator
class ParquetDataFrameLoader(Tolerant, Flattening[Any]):
    """A pandas DataFrame for each row group of each Parquet file.

    The source gives the same elements as for ``read_parquet``.

    Args:
        dtype: Type of all columns, or a dict of types by column, as ``DataFrame.astype`` takes it. ``None``: the types
            of the file.
        columns: Names of the columns to give, as in ``read_parquet``. ``None``: all.
        device: Has no effect; only None and ``"cpu"`` are allowed.
        use_threads: Whether pyarrow reads the columns of a row group in its own threads, as in ``read_parquet``.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> import pyarrow, pyarrow.parquet
    >>> file = io.BytesIO()
    >>> pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2], "y": ["a", "b"]}), file)
    >>> files = IterableWrapper([("a.parquet", io.BytesIO(file.getvalue()))], deepcopy=False)
    >>> [frame.to_dict("list") for frame in files.load_parquet_as_df(dtype="float32", columns=["x"])]
    [{'x': [1.0, 2.0]}]
    """

    _fluent: ClassVar[str | None] = "load_parquet_as_df"
    batch_size: ClassVar[int | None] = None

    source_dp: IterDataPipe[Any]
    dtype: Any = None
    columns: Sequence[str] | None = None
    device: str | None = None
    use_threads: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        needs(self.device in (None, "", "cpu"), self, f"pandas has no device but 'cpu', got {self.device!r:.60}")
        needed("pyarrow.parquet", "dataframes", "load_parquet_as_df")
        needed("pandas", "dataframes", "load_parquet_as_df")

    def _inner(self, element: Any) -> Pieces[Any]:
        return _ParquetBatches(element, self)

    def _made(self, batch: Any) -> Any:
        frame = batch.to_pandas()
        return frame if self.dtype is None else frame.astype(self.dtype)


class _File:
    """Open Parquet file with a checked footer."""

    def __init__(self, element: Any, method: str) -> None:
        from pyarrow.parquet import ParquetFile

        self.name, stream = file_of(element, method)
        with damage_is_named(lambda: self.name):
            self._stream, _ = seekable(stream, self.name)
            self.file = ParquetFile(self._stream, page_checksum_verification=True)
            footer = self.file.metadata
            self.groups: int = footer.num_row_groups
            self.rows: list[int] = [footer.row_group(i).num_rows for i in range(self.groups)]
            if min(self.rows, default=0) < 0 or sum(self.rows) != footer.num_rows:
                raise CorruptData(f"{self.name}: its row groups do not have the rows that its footer claims")

    def close(self) -> None:
        """Close the file now, before its last reference is gone: the stream may be the caller's."""
        self._stream.close()

    def having(self, columns: Sequence[str]) -> list[str]:
        """Check that these columns exist, and return them: pyarrow ignores missing ones."""
        return has_columns(self.name, self.file.schema_arrow.names, columns, parts=True)


class _ParquetBatches(Pieces[Any]):
    """Batches of one file, numbered through all its row groups."""

    def __init__(self, element: Any, pipe: ParquetReader | ParquetDataFrameLoader) -> None:
        only = element[1] if isinstance(element, tuple) and len(element) == 2 and type(element[1]) is int else None
        self._file = _File(element if only is None else element[0], pipe._fluent or "")
        self._pipe = pipe
        if only is not None and not 0 <= only < self._file.groups:
            raise CorruptData(f"{self._file.name}: there is no row group {only}, it has {self._file.groups}")
        self._columns = None if pipe.columns is None else self._file.having(pipe.columns)
        self._numbers = range(self._file.groups) if only is None else range(only, only + 1)
        self._ends = list(accumulate(self._batches_in(group) for group in self._numbers))
        self._start = 0
        self._group = -1
        self._rest: Iterator[Any] = iter(())
        self._failure = ""

    def __iter__(self) -> Iterator[Any]:
        return map(self._batch, range(self._start, self._ends[-1] if self._ends else 0))

    def skip(self, given: int) -> int:
        self._start = min(given, self._ends[-1] if self._ends else 0)
        return self._start

    def _batches_in(self, group: int) -> int:
        size = self._pipe.batch_size
        return 1 if size is None else -(-self._file.rows[group] // size)

    def _batch(self, number: int) -> Any:
        index = bisect_right(self._ends, number)
        group = self._numbers[index]
        first = self._ends[index] - self._batches_in(group)
        with damage_is_named(lambda: f"{self._file.name}, row group {group}, batch {number - first}"):
            batch = self._next_of(group, number - first)
        return self._pipe._made(batch)

    def _next_of(self, group: int, number: int) -> Any:
        """Return the next batch of a row group. After one that fails, the later ones fail with the same message."""
        try:
            if group != self._group:
                self._group, self._failure = group, ""
                self._rest = _batches_of(self._file, group, self._columns, self._pipe)
                for _ in range(number):
                    next(self._rest)
            return next(self._rest)
        except StopIteration:
            raise ValueError(self._failure or "it has no more rows") from None
        except Exception as error:
            self._failure = str(error)
            raise


def _batches_of(
    file: _File, group: int, columns: list[str] | None, pipe: ParquetReader | ParquetDataFrameLoader
) -> Iterator[Any]:
    """Yield the batches of one row group, all full but the last. Raise if rows are missing.

    It has no reference to the batches object, which would be a cycle and keep the file open.
    """
    size, options = pipe.batch_size, {"columns": columns, "use_threads": pipe.use_threads}
    left = file.rows[group]
    if size is None:
        batches = iter([as_one_batch(file.file.read_row_group(group, **options))])
    else:
        batches = _even(file.file.iter_batches(size, [group], **options), size)
    for batch in batches:
        if batch.num_rows != min(left, size or left):
            break
        left -= batch.num_rows
        yield batch
    if left:
        raise ValueError("it has fewer rows than the footer claims")


def _even(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield the same rows in batches of one size, which they usually have; the last may be smaller."""
    import pyarrow as pa

    parts: list[Any] = []
    rows = 0
    for batch in batches:
        if not parts and batch.num_rows == size:
            batch.validate(full=True)
            yield batch
            continue
        at = 0
        while at < batch.num_rows:
            parts.append(batch.slice(at, size - rows))
            at, rows = at + parts[-1].num_rows, rows + parts[-1].num_rows
            if rows == size:
                yield as_one_batch(pa.Table.from_batches(parts))
                parts, rows = [], 0
    if parts:
        yield as_one_batch(pa.Table.from_batches(parts))
