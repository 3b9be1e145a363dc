"""Memory size of an element in bytes.

A tensor or an array counts its data, and a view only the part that it shows. Bytes and text count their length.
Containers and objects count themselves and what they hold, each object once. A class that keeps its data outside Python
needs an integer ``nbytes`` or its own ``__sizeof__``, as pyarrow's tables and pandas' frames have.
"""

from __future__ import annotations

import sys
from collections import deque
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

import torch

from datapipes.description.structure import attributes

_LEAVES: Final = frozenset((int, float, bool, complex, str, bytes, bytearray, type(None)))
_CODE: Final = (type, FunctionType, MethodType, ModuleType)  # part of the program, not of the element


def size_of(element: object) -> int:
    """Return the number of bytes that an element takes, with what it holds.

    >>> size_of(torch.zeros(1000)) // 1000, size_of([bytes(5000)] * 2) // 1000
    (4, 5)
    """
    if type(element) in _LEAVES:
        return sys.getsizeof(element)
    total, seen, pending = 0, set[int](), [element]
    while pending:
        value = pending.pop()
        if id(value) not in seen:
            seen.add(id(value))
            total += _own_size(value, pending)
    return total


def _own_size(value: Any, pending: list[Any]) -> int:
    """Return the bytes of a value itself. Append the values that it holds to ``pending``."""
    cls: Any = type(value)
    if cls in _LEAVES:
        return sys.getsizeof(value)
    if isinstance(value, _CODE):
        return 0
    if isinstance(value, torch.Tensor):
        return sys.getsizeof(value) + _data_of(value)
    if isinstance(value, dict):
        pending += value.keys()
        pending += value.values()
    elif isinstance(value, list | tuple | set | frozenset | deque):
        pending += value
    elif cls.__module__ == "numpy" and value.dtype.hasobject:
        pending += value.flat if hasattr(value, "flat") else ()
    else:
        held = getattr(value, "nbytes", None) if hasattr(cls, "nbytes") else None
        if type(held) is int:
            return max(sys.getsizeof(value), held)
        if cls.__sizeof__ is not object.__sizeof__:
            return sys.getsizeof(value)  # its own ``__sizeof__`` includes what it holds
    pending += attributes(value).values()
    return sys.getsizeof(value)


def _data_of(tensor: torch.Tensor) -> int:
    if tensor.layout is torch.strided:
        return tensor.nelement() * tensor.element_size()
    return tensor._nnz() * (tensor.element_size() + 8 * tensor.ndim)  # the values and their indexes
