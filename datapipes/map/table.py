"""TableWrapper: the rows of a table by number, of which a batch is read at once.

A table lies in memory, or in a file that is mapped into it, by columns, as Arrow has it. So a batch of rows costs a
call for each column, and a row by itself about as much. What becomes a batch of tensors is never made into rows.
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
from datapipes.operators.checks import needs


@operator
class TableWrapper(MapDataPipe[dict[str, Any]]):
    """The rows of a table by number, as dicts: of pyarrow, pandas or polars, or of whatever gives Arrow's data.

    Behind it, with nothing but ``to_iter_datapipe``, ``shuffle`` and ``sharding_filter`` in between, ``batch`` reads
    all rows of a batch at once, and ``batch(n).collate()`` hands on the columns without making rows.

    Args:
        table: The table, which is not copied, as far as it has Arrow's form already: numbers of pandas have it. The
            index of a frame of pandas is left out. One in many chunks is faster after ``combine_chunks()``.
        as_: What a row holds: ``"dict"`` (Python's values, which ``collate`` makes int64 and float64 of) or
            ``"tensors"`` (tensors of the columns' own types, which have to be of numbers, or lists of one size of
            them, without nulls).

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
        needs(len(set(names)) == len(names), self, f"two columns have one name, among {names!r:.200}")
        try:
            shaped(_batch(self.table, []), "dict" if self.as_ == "dict" else "tensors")
        except (NotImplementedError, TypeError) as error:  # pyarrow's is both, of types that cannot be taken by number
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
        """The rows of several numbers, for torch's DataLoader."""
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
    """A table of any library as one of pyarrow's."""
    import pyarrow as pa

    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    try:
        if pandas is not None and isinstance(table, pandas.DataFrame):
            columns = [_of_pandas(table.iloc[:, i]) for i in range(table.shape[1])]
            return pa.table(columns, names=[str(name) for name in table.columns])
        if polars is not None and isinstance(table, polars.DataFrame):
            return table.to_arrow(compat_level=polars.CompatLevel.oldest())  # pyarrow takes no views of texts by number
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadArgumentType(
            f"TableWrapper needs a table that Arrow can read, got {type(table).__name__}: {error}"
        ) from error


def _of_pandas(column: Any) -> Any:
    """A column of pandas, where a float that is no number stays what it is, and is no null."""
    import pyarrow as pa

    numbers = isinstance(column.dtype, sys.modules["numpy"].dtype) and column.dtype.kind in "biuf"
    return pa.array(column.to_numpy() if numbers else column, from_pandas=not numbers)


def _batch(table: Any, numbers: Any) -> Any:
    """The rows at these numbers as one record batch."""
    import pyarrow as pa

    part = table.take(pa.array(numbers if isinstance(numbers, list) else numbers.numpy(), pa.int64())).combine_chunks()
    return (part.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)])[0]


def _of_values(column: Any) -> Any:
    """What ``default_collate`` makes of the Python values of a column; of numbers without making these."""
    wide = _WIDE.get(str(column.type)) if not column.null_count else None
    if wide is None:
        return batches.collated(column.to_pylist())
    return torch.from_numpy(column.to_numpy(zero_copy_only=False).astype(wide, order="C"))


_WIDE = {
    "bool": "bool",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "int64"),
    **dict.fromkeys(("float", "double"), "float64"),
}
"""By the types of columns, those of the tensors that their Python values become."""
