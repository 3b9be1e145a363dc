"""dataframe, rows2columnar: rows put together as columns, in data frames of pandas or in dicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.errors import BadArgument
from datapipes.messages.extras import needed
from datapipes.operators.checks import needs_callable, same_length
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
    """Data frames of some rows each; a row is a dict, a list or tuple, or the value of a single column.

    ``on_error`` is about whole frames, made of the list of their rows. The frames are pandas', where torchdata's were
    those of torcharrow, which is no longer maintained.

    Args:
        dataframe_size: The number of rows in a frame; the last may have fewer.
        dtype: What pandas' ``astype`` takes: a dtype, or one by column; or a schema of pyarrow, whose types the columns
            then have. ``None``: what pandas makes of the values.
        dtype_generator: A function that is called for each frame's dtype where ``dtype`` is None, for dtypes that
            cannot be pickled.
        columns: The names of the columns; of rows that are dicts, those to take. ``None``: the keys of the dicts, or
            the names in ``dtype``, or else numbers.
        device: Only None or ``"cpu"``, because pandas' frames live in main memory; taken because torchdata has it.

    >>> from datapipes.iter import IterableWrapper
    >>> for frame in IterableWrapper([(1, "a"), (2, "b"), (3, "c")]).dataframe(2, columns=["x", "y"]):
    ...     print(frame.to_dict("list"))
    {'x': [1, 2], 'y': ['a', 'b']}
    {'x': [3], 'y': ['c']}
    """
    from datapipes.iter import Batcher, Mapper

    needed("pandas", "dataframes", "dataframe")
    if device not in (None, "", "cpu"):
        raise BadArgument(f"device must be None or 'cpu', got {device!r}: pandas' frames live in main memory")
    needs_callable("dataframe", dtype_generator, or_none=True)
    make = partial(frame_of, columns=columns, dtype=dtype, dtype_generator=dtype_generator)
    return Mapper(Batcher(source_dp, dataframe_size), make, on_error=on_error, max_errors=max_errors)


def frame_of(
    rows: Sequence[Any],
    columns: Sequence[Any] | None = None,
    dtype: Any = None,
    dtype_generator: Callable[[], Any] | None = None,
) -> Any:
    """A data frame of these rows."""
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
    """A row as pandas understands it: a single value is a row of one column."""
    if isinstance(row, dict | list | tuple):
        return row
    if hasattr(row, "tolist"):  # arrays and tensors, of one value or several
        row = row.tolist()
    return list(row) if isinstance(row, Iterable) and not isinstance(row, str | bytes) else [row]


@operator
class Rows2Columnar(Tolerant, IterDataPipe[dict[Any, list[Any]]]):
    """Each batch of rows as a ``defaultdict(list)`` of columns.

    Args:
        column_names: The columns to take of rows that are dicts, each of which must have them; ``None``: all that a row
            has. Rows of another kind need it, as a list: it names their values by position, and may be longer.

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
                "no order: give them as a list"
            )
        if len(values) > len(names):
            raise IndexError(
                f"row {number} of the batch has {len(values)} columns, and column_names names {len(names)}: "
                f"{list(names)!s:.200}"
            )
        return names

    __len__ = same_length
