"""Data frames and series of pandas as columns of plain values, and back.

A column with one of numpy's dtypes is an array. A column with one of pandas' own (strings, nullable numbers, pyarrow's
plain types) is the name of its dtype and an array of objects, with None for a missing value. Invariants: only pandas'
constructors make a frame; its columns are as long as its index and have dtypes that are named here. A frame of any
other dtype is refused when it is encoded. ``attrs`` are not saved.
"""

from __future__ import annotations

import re
from typing import Any, Final

from datapipes.elements.arrays import ArrayParts

OWN_DTYPE: Final = re.compile(r"str|string|boolean|U?Int(8|16|32|64)|Float(32|64)", re.ASCII)
ARROW_DTYPE: Final = re.compile(r"bool|u?int(8|16|32|64)|float|double|string|large_string", re.ASCII)
ARROW: Final = "arrow "


def kind_of(cls: type) -> str | None:
    """Return the kind of elements of exactly this class of pandas, or None if it is not supported."""
    import pandas as pd

    return cls.__name__ if cls is pd.DataFrame or cls is pd.Series else None


def frame_parts(frame: Any) -> ArrayParts:
    """Return the labels of a frame's columns, its index and its columns."""
    columns = [_column_parts(column, f"the column {label!r:.80}") for label, column in frame.items()]
    return _index_parts(frame.columns, "the columns"), _index_parts(frame.index, "the index"), columns


def make_frame(labels: ArrayParts, index: ArrayParts, columns: list[Any]) -> Any:
    """Make a frame from its parts."""
    import pandas as pd

    rows, names = _make_index(index), _make_index(labels)
    if len(names) != len(columns):
        raise ValueError(f"{len(columns)} columns, and labels for {len(names)}")
    content = {i: _make_series(None, rows, column) for i, column in enumerate(columns)}
    frame = pd.DataFrame(content, index=rows, copy=False)
    frame.columns = names
    return frame


def series_parts(series: Any) -> ArrayParts:
    """Return the name of a series, its index and its values."""
    return series.name, _index_parts(series.index, "the index"), _column_parts(series, "it")


def make_series(name: Any, index: ArrayParts, column: ArrayParts) -> Any:
    """Make a series from its parts."""
    return _make_series(name, _make_index(index), column)


def _make_series(name: Any, rows: Any, column: ArrayParts) -> Any:
    import pandas as pd

    values, dtype = _make_column(column)
    return pd.Series(values, index=rows, dtype=dtype, name=name, copy=False)


def _index_parts(index: Any, what: str) -> ArrayParts:
    import pandas as pd

    if isinstance(index, pd.MultiIndex):
        raise TypeError(f"{what} has several levels: use .reset_index(), or one label for each")
    if type(index) is pd.RangeIndex:
        return index.name, range(index.start, index.stop, index.step)
    return index.name, _column_parts(index, what)


def _make_index(parts: Any) -> Any:
    import pandas as pd

    name, labels = parts
    if type(labels) is range:
        return pd.RangeIndex(labels, name=name)
    values, dtype = _make_column(labels)
    return pd.Index(values, dtype=dtype, name=name, copy=False)


def _column_parts(values: Any, what: str) -> ArrayParts:
    import numpy as np

    name = _name_of(values.dtype)
    if name is not None:
        return name, values.to_numpy(dtype=object, na_value=None)
    if not isinstance(values.dtype, np.dtype):
        raise TypeError(f"{what} is of the dtype {values.dtype}; convert it, for instance by .astype(object)")
    return "", np.asarray(values)


def _make_column(parts: Any) -> ArrayParts:
    """Return the values of a column and their dtype, which pandas would guess otherwise."""
    import numpy as np

    name, values = parts
    if type(values) is not np.ndarray or values.ndim != 1:
        raise ValueError("a column that is not an array")
    return values, _dtype_of(name) if name else values.dtype


def _name_of(dtype: Any) -> str | None:
    """Return the name of a dtype of pandas' own, or None for any other."""
    import pandas as pd

    is_arrow = isinstance(dtype, pd.ArrowDtype)
    name = f"{ARROW}{dtype.pyarrow_dtype}" if is_arrow else str(dtype)
    try:
        return name if isinstance(dtype, pd.api.extensions.ExtensionDtype) and _dtype_of(name) == dtype else None
    except ValueError:
        return None


def _dtype_of(name: Any) -> Any:
    import pandas as pd

    if type(name) is str and OWN_DTYPE.fullmatch(name):
        return pd.api.types.pandas_dtype(name)
    if type(name) is str and name.startswith(ARROW) and ARROW_DTYPE.fullmatch(name.removeprefix(ARROW)):
        import pyarrow as pa

        return pd.ArrowDtype(pa.type_for_alias(name.removeprefix(ARROW)))
    raise ValueError(f"no column is of the dtype {name!r:.80}")
