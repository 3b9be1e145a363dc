"""dataframe, rows2columnar: rows combined to columns, in data frames of pandas or in dicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.errors import BadArgument
from datapipes.messages.extras import needed
from datapipes.operator_support.checks import needs_callable, same_length
from datapipes.position.on_error import OnError, Tolerant
from datapipes.position.steps import Step


@composed
def DataFrameMaker(
    source_dp: IterDataPipe[Any],
    dataframe_size: int = 1000,
    dtype: Any = None,
    dtype_generator: Callable[[], Any] | None = None,
    columns: Sequence[Any] | None = None,
    device: str | None = None,
    *,
    on_error: OnError = "raise",
    max_errors: int | float | None = None,
) -> IterDataPipe[Any]:
    """Data frames of several rows each; a row is a dict, a list or tuple, or the value of a single column.

    ``on_error`` applies to whole frames: the element is the list of their rows. The frames are pandas'.

    Args:
        dataframe_size: The number of rows in a frame; the last may have fewer.
        dtype: A dtype, or a dict of dtypes by column, as pandas' ``astype`` takes it; or a schema of pyarrow. ``None``:
            pandas decides by the values.
        dtype_generator: A function that returns the dtype of each frame if ``dtype`` is None, for dtypes that
            cannot be pickled.
        columns: Names of the columns; of rows that are dicts, the keys to take. ``None``: the keys of the dicts,
            otherwise the names in ``dtype``, otherwise numbers.
        device: Has no effect; only None or ``"cpu"`` is allowed, because pandas' frames are in main memory.

    >>> from datapipes.iter import IterableWrapper
    >>> for frame in IterableWrapper([(1, "a"), (2, "b"), (3, "c")]).dataframe(2, columns=["x", "y"]):
    ...     print(frame.to_dict("list"))
    {'x': [1, 2], 'y': ['a', 'b']}
    {'x': [3], 'y': ['c']}
    """
    from datapipes.iter import Batcher, Mapper

    needed("pandas", "dataframes", "dataframe")
    if device not in (None, "", "cpu"):
        raise BadArgument(f"device must be None or 'cpu', got {device!r}: pandas' frames are in main memory")
    needs_callable("dataframe", dtype_generator, or_none=True)
    make = partial(frame_of, columns=columns, dtype=dtype, dtype_generator=dtype_generator)
    return Mapper(Batcher(source_dp, dataframe_size), make, on_error=on_error, max_errors=max_errors)


def frame_of(
    rows: Sequence[Any],
    columns: Sequence[Any] | None = None,
    dtype: Any = None,
    dtype_generator: Callable[[], Any] | None = None,
) -> Any:
    """Return a data frame of these rows."""
    import pandas as pd

    if dtype is None and dtype_generator is not None:
        dtype = dtype_generator()
    if type(dtype).__module__.partition(".")[0] == "pyarrow" and isinstance(dtype, Iterable):
        dtype = {field.name: pd.ArrowDtype(field.type) for field in dtype}
    if columns is None and isinstance(dtype, dict) and not any(isinstance(row, dict) for row in rows):
        columns = list(dtype)
    frame = pd.DataFrame(list(map(_row, rows)), columns=columns)
    return frame if dtype is None else frame.astype(dtype)


def _row(row: Any) -> Any:
    """Return a row in a form that pandas takes: a single value is a row of one column."""
    if isinstance(row, dict | list | tuple):
        return row
    if hasattr(row, "tolist"):  # arrays and tensors, with one value or several
        row = row.tolist()
    return list(row) if isinstance(row, Iterable) and not isinstance(row, str | bytes) else [row]


@operator
class Rows2Columnar(Tolerant, IterDataPipe[dict[Any, list[Any]]]):
    """Each batch of rows as a ``defaultdict(list)`` of columns.

    Args:
        column_names: Columns to take of rows that are dicts; each row must have them. ``None``: all of a row. Rows of
            other kinds need it, as a list: it names their values by position, and may be longer.

    >>> from datapipes.iter import IterableWrapper
    >>> [batch] = IterableWrapper([(1, "a"), (2, "b")]).batch(2).rows2columnar(["x", "y"])
    >>> dict(batch)
    {'x': [1, 2], 'y': ['a', 'b']}
    """

    _fluent: ClassVar[str | None] = "rows2columnar"

    source_datapipe: IterDataPipe[Any]
    column_names: Collection[Any] | None = None

    def _step(self) -> Step:
        return Step("map", self._columns)

    def _columns(self, rows: Iterable[Any]) -> dict[Any, list[Any]]:
        columns: dict[Any, list[Any]] = defaultdict(list)
        for number, row in enumerate(rows):
            if isinstance(row, dict):
                if missing := [name for name in self.column_names or () if name not in row]:
                    raise KeyError(f"row {number} of the batch lacks the columns {missing}; it has {list(row)!s:.200}")
                for name in self.column_names or row:
                    columns[name].append(row[name])
            else:
                values = list(row)
                for name, value in zip(self._names_of(number, values), values, strict=False):
                    columns[name].append(value)
        return columns

    def _names_of(self, number: int, values: list[Any]) -> Sequence[Any]:
        names = self.column_names or ()
        if not isinstance(names, Sequence):
            raise TypeError(
                f"row {number} of the batch has no names of its own, and column_names, a {type(names).__name__}, has "
                "no order: give a list"
            )
        if len(values) > len(names):
            raise IndexError(
                f"row {number} of the batch has {len(values)} columns, but column_names has {len(names)}: "
                f"{list(names)!s:.200}"
            )
        return names

    __len__ = same_length
