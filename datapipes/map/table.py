"""TableWrapper: the rows of a table by number; the rows of a batch are read in one call.

A table is stored by columns, in memory or in a mapped file, as in Arrow. So a batch of rows costs a call for each
column, and a single row costs about as much. Batches of tensors are made without making rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal

import torch

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter.formats.tables import shaped
from datapipes.memory import batches
from datapipes.messages.extras import needed
from datapipes.operator_support.checks import needs


@operator
class TableWrapper(MapDataPipe[dict[str, Any]]):
    """The rows of a table by number, as dicts: a table of pyarrow, pandas, polars, or another source of Arrow data.

    Below it, ``batch`` reads all rows of a batch in one call, and ``batch(n).collate()`` makes no rows. Only
    ``to_iter_datapipe``, ``shuffle`` and ``sharding_filter`` may be in between.

    Args:
        table: The table. It is not copied if its data has Arrow's form, as numbers of pandas do. The index of a pandas
            frame is left out. A table with many chunks is faster after ``combine_chunks()``.
        as_: Values of a row: ``"dict"`` (Python's values, which ``collate`` makes int64 and float64) or ``"tensors"``
            (tensors of the columns' own types; the columns must have numbers, or lists of numbers with one size,
            without nulls).

    >>> import pyarrow
    >>> dp = TableWrapper(pyarrow.table({"x": [1, 2, 3], "y": ["a", "b", "c"]}))
    >>> dp[1]
    {'x': 2, 'y': 'b'}
    >>> list(dp.to_iter_datapipe().batch(2).collate())
    [{'x': tensor([1, 2]), 'y': ['a', 'b']}, {'x': tensor([3]), 'y': ['c']}]
    """

    _identified_by: ClassVar[str | None] = "table"

    table: Any
    _: KW_ONLY
    as_: Literal["dict", "tensors"] = "dict"

    def __post_init__(self) -> None:
        needs(self.as_ in ("dict", "tensors"), self, f"as_ must be one of dict, tensors, got {self.as_!r:.60}")
        needed("pyarrow", "parquet", "TableWrapper")
        self.table = _arrow(self.table)
        names = self.table.column_names
        needs(len(set(names)) == len(names), self, f"two columns have the same name, among {names!r:.200}")
        try:
            shaped(_batch(self.table, []), "dict" if self.as_ == "dict" else "tensors")
        except (NotImplementedError, TypeError) as error:  # pyarrow's error for types without `take` is both
            raise BadArgument(f"TableWrapper cannot give rows of this table: {error}") from error

    def __getitem__(self, key: Any) -> dict[str, Any]:
        try:
            number = range(len(self))[key]
        except IndexError:
            raise IndexError(f"there is no row {key}: the table has {len(self)}") from None
        if self.as_ == "tensors":
            return self._rows([number])[0]
        table = self.table
        return {name: column[number].as_py() for name, column in zip(table.column_names, table.columns, strict=True)}

    def __getitems__(self, keys: list[int]) -> list[dict[str, Any]]:
        """Return the rows with these numbers, for torch's DataLoader."""
        is_own = type(self).__getitem__ is TableWrapper.__getitem__
        return self._rows(keys) if is_own else [self[key] for key in keys]

    def _rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        part = _batch(self.table, numbers)
        if self.as_ == "dict":
            rows: list[dict[str, Any]] = part.to_pylist()
            return rows
        columns = {name: column.unbind() for name, column in shaped(part, "tensors").items()}
        return [{name: column[i] for name, column in columns.items()} for i in range(len(numbers))]

    def _collated(self, numbers: Sequence[int]) -> dict[str, Any]:
        part = _batch(self.table, numbers)
        if self.as_ == "tensors":
            columns: dict[str, Any] = shaped(part, "tensors")
            return columns
        return {name: _of_values(column) for name, column in zip(part.schema.names, part.columns, strict=True)}

    def __len__(self) -> int:
        return len(self.table)


def _arrow(table: Any) -> Any:
    """Return a table of any library as a pyarrow table."""
    import pyarrow as pa

    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    try:
        if pandas is not None and isinstance(table, pandas.DataFrame):
            columns = [_of_pandas(table.iloc[:, i]) for i in range(table.shape[1])]
            return pa.table(columns, names=[str(name) for name in table.columns])
        if polars is not None and isinstance(table, polars.DataFrame):
            return table.to_arrow(compat_level=polars.CompatLevel.oldest())  # pyarrow cannot `take` string views
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadArgumentType(
            f"TableWrapper needs a table that Arrow can read, got {type(table).__name__}: {error}"
        ) from error


def _of_pandas(column: Any) -> Any:
    """Return a column of pandas. NaN of a float column stays NaN, and does not become null."""
    import pyarrow as pa

    numbers = isinstance(column.dtype, sys.modules["numpy"].dtype) and column.dtype.kind in "biuf"
    return pa.array(column.to_numpy() if numbers else column, from_pandas=not numbers)


def _batch(table: Any, numbers: Any) -> Any:
    """Return the rows with these numbers as one record batch."""
    import pyarrow as pa

    part = table.take(pa.array(numbers if isinstance(numbers, list) else numbers.numpy(), pa.int64())).combine_chunks()
    return (part.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)])[0]


def _of_values(column: Any) -> Any:
    """Collate a column as ``default_collate`` does with its Python values; numbers without making these."""
    wide = _WIDE.get(str(column.type)) if not column.null_count else None
    if wide is None:
        return batches.collated(column.to_pylist())
    return torch.from_numpy(column.to_numpy(zero_copy_only=False).astype(wide, order="C"))


_WIDE = {
    "bool": "bool",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "int64"),
    **dict.fromkeys(("float", "double"), "float64"),
}
"""Types of the tensors that the Python values of a column become, by the column's type."""
