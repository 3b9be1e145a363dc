"""How many bytes an element takes, with all that it holds.

What is held twice within an element counts once. An array that is a view counts with all of the memory that it keeps
alive. What elements share with the program (classes, functions, modules) does not count; what they share with each
other counts for each, so that a sum is rather too large than too small.
"""

from __future__ import annotations

import sys
from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

_LEAVES = frozenset((int, float, str, bytes))
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, type(None), bool, torch.dtype)


def bytes_of(element: object) -> int:
    """The memory of an element and of what it holds.

    >>> bytes_of(b"x" * 1000) - bytes_of(b""), bytes_of([bytes(1000)]) > 1000
    (1000, True)
    >>> bytes_of(torch.zeros(1000)[:1]) >= 4000
    True
    """
    if type(element) in _LEAVES:
        return sys.getsizeof(element)
    total = 0
    seen: set[int] = set()
    waiting: list[Any] = [element]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _SHARED):
            continue
        seen.add(id(value))
        total += _own_bytes(value, seen)
        waiting += _held_by(value)
    return total


def _own_bytes(value: Any, seen: set[int]) -> int:
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage() if value.layout is torch.strided else None
        if storage is None:
            return sys.getsizeof(value)
        known = storage.data_ptr() in seen
        seen.add(storage.data_ptr())
        return sys.getsizeof(value) + (0 if known else storage.nbytes())
    if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "memory_usage"):
        used = value.memory_usage(deep=True)
        return int(used if isinstance(used, int) else used.sum())
    return sys.getsizeof(value)


def _held_by(value: Any) -> list[Any]:
    """What a value directly holds, as far as it is not part of its own size."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    if isinstance(value, memoryview):
        return [value.obj]
    if type(value).__module__ == "numpy":
        of_objects = list(value.flat) if str(getattr(value, "dtype", "")) == "object" else []
        return [*of_objects, getattr(value, "base", None)]  # a view's own size leaves out its data
    if type(value).__module__.partition(".")[0] in ("pandas", "torch"):
        return []
    slots = [name for cls in type(value).__mro__ for name in _names(vars(cls).get("__slots__", ()))]
    held = [getattr(value, name) for name in slots if name not in ("__dict__", "__weakref__") and hasattr(value, name)]
    return [*held, *getattr(value, "__dict__", {}).values()]


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
