"""pandas frames as elements: rows that a mask keeps, and columns as tensors.

pandas is not imported here: as long as the program has not imported it, no element is a frame.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch.utils.data import default_collate

Conversion = Callable[[Any], Any]


def is_frame(value: object) -> bool:
    """Return whether a value is a DataFrame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def is_series(value: object) -> bool:
    """Return whether a value is a Series: a column, or a mask of rows."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Series)


def rows_where(element: Any, mask: Any) -> Any:
    """Return the rows of a frame or a column at which a mask is True, by their order and not by their index."""
    if not (is_frame(element) or is_series(element)):
        raise ValueError(
            f"Boolean output is required for `filter_fn` of a {type(element).__name__}; a Series says which rows of a "
            "DataFrame to keep"
        )
    if str(mask.dtype) not in ("bool", "boolean"):
        raise ValueError(f"Boolean output is required for `filter_fn`, got a Series of dtype {mask.dtype}")
    if len(mask) != len(element):
        raise ValueError(f"`filter_fn` gave a mask of {len(mask)} rows for a frame of {len(element)}")
    return element[mask.to_numpy(dtype=bool, na_value=False)]


def collated(conversion: Mapping[str, Conversion] | None, element: Any) -> Any:
    """Return a named tuple of a frame's columns, each converted by its function in ``conversion``, or to a tensor.

    Columns of text become lists. The element is a frame, or a list or tuple that holds one.
    """
    held = element if isinstance(element, list | tuple) else [element]
    if len(held) != 1 or not is_frame(held[0]):
        kinds = ", ".join(type(one).__name__ for one in held[:5])
        raise RuntimeError(
            f"collate() converts columns, and expects exactly one DataFrame in each element, got {len(held)} values: "
            f"{kinds}"
        )
    (frame,) = held
    conversion = conversion or {}
    if unknown := [name for name in conversion if name not in frame.columns]:
        raise RuntimeError(f"Conversion keys mismatch: the frame has no columns {unknown}, only {list(frame.columns)}")
    columns = [conversion.get(name, _as_tensor)(frame[name]) for name in frame.columns]
    return _result(tuple(map(str, frame.columns)), columns)


def _as_tensor(column: Any) -> Any:
    dtype = getattr(column.dtype, "numpy_dtype", column.dtype)  # of a nullable column without missing values
    if getattr(dtype, "kind", "O") in "biufc":
        return torch.tensor(column.to_numpy(dtype=dtype))
    return default_collate(column.tolist())


def _result(names: tuple[str, ...], columns: list[Any]) -> Any:
    return _class_of(names)(*columns)


@cache
def _class_of(names: tuple[str, ...]) -> Any:
    """Return a picklable named tuple class with these fields. Invalid names become ``_0``, by position."""
    fields: Any = namedtuple("fields", names, rename=True)  # type: ignore[misc]  # the names are known at run time
    return type("CollateResult", (fields,), {"__slots__": (), "__reduce__": lambda self: (_result, (names, [*self]))})
