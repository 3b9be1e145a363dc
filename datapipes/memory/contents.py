"""Elements rebuilt around new contents: mappings, sequences and dataclasses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

_WHOLE = (str, bytes, bytearray, memoryview)


def rebuilt(data: Any, fn: Callable[[Any], Any]) -> Any:
    """Return a copy of the element around the results of ``fn`` for its contents.

    An element that holds nothing is returned as it is. The element itself is never changed. A container whose
    constructor refuses the contents becomes a plain dict or list.

    >>> rebuilt({"ids": (1, 2)}, lambda each: rebuilt(each, str))
    {'ids': ('1', '2')}
    """
    if isinstance(data, _WHOLE):
        return data
    if isinstance(data, Mapping):
        return _made_like(data, {key: fn(value) for key, value in data.items()})
    if isinstance(data, Sequence):
        return _made_like(data, [fn(value) for value in data])
    if is_dataclass(data) and not isinstance(data, type):
        new = copy.copy(data)
        for field in fields(data):
            if hasattr(data, field.name):
                object.__setattr__(new, field.name, fn(getattr(data, field.name)))  # it may be frozen
        return new
    return data


def _made_like(data: Any, contents: Any) -> Any:
    make = getattr(type(data), "_make", type(data))
    try:
        return make(contents)
    except TypeError:
        return contents
