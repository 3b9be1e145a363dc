"""What the code of a user's class shows without being run: the attributes of ``self`` that its methods assign."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from datapipes.description import structure
from datapipes.description.structure import is_native_class, is_stream_class, of_class


def counted_epoch(stage: structure.Pipe) -> int | None:
    """Return the attribute ``epoch`` of a class that counts its epochs. Return None for any other class."""
    if not _counts_epochs(type(stage)):
        return None
    epoch = structure.attributes(stage).get("epoch", getattr(type(stage), "epoch", None))
    return epoch if type(epoch) is int else None


@of_class
def _counts_epochs(cls: type) -> bool:
    if not is_stream_class(cls) or is_native_class(cls) or callable(getattr(cls, "set_epoch", None)):
        return False
    codes = (function.__code__ for name, function in functions(cls) if name != "__init__")
    return any(name == "epoch" and is_assigned for code in codes for name, is_assigned in _attributes(code))


@of_class
def set_at_start(cls: type) -> frozenset[str]:
    """Return the attributes that ``__iter__`` or ``reset`` of a class assigns before it reads them."""
    found: set[str] = set()
    for name, function in functions(cls):
        if name in ("__iter__", "reset"):
            first = dict(reversed(list(_attributes(function.__code__))))
            found |= {attribute for attribute, is_assigned in first.items() if is_assigned}
    return frozenset(found)


def functions(cls: type) -> Iterator[tuple[str, Any]]:
    """Return the functions of a class and its bases by name, as their users wrote them."""
    for base in cls.__mro__:
        for name, value in list(vars(base).items()):  # from Python 3.14 on, a look at an attribute may add one
            if inspect.isfunction(function := inspect.unwrap(value)):
                yield name, function


def _attributes(code: CodeType) -> Iterator[tuple[str, bool]]:
    """Return the attributes that a piece of code uses, in order, and whether it assigns them."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"):
            yield step.argval, step.opname == "STORE_ATTR"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _attributes(constant)
