"""Registry of fluent names: the functions and classes that are methods of pipes.

The built-in operators are real methods (``datapipes.fluent``). The table ``functions`` of IterDataPipe and that of
MapDataPipe hold what users add: ``functional_datapipe`` puts a class there, and a pipe looks a name up in it when it
has no such method. One name has one owner for each kind of pipe; a second owner is told who the first is.
"""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Callable
from typing import Any

from datapipes.errors import BadArgument, NameTaken

Factory = Callable[..., Any]


def describe_owner(owner: object) -> str:
    """``module.name`` of a class or function."""
    name = getattr(owner, "__qualname__", type(owner).__qualname__)
    return f"{getattr(owner, '__module__', '?')}.{name}"


def register(base: Any, name: str, owner: Factory, replace: bool = False) -> None:
    """Give ``name`` to ``owner``, among the names of the pipes of ``base``; ``replace`` takes it from another user's.

    A real method cannot be replaced: it is found before any name of the table. The same definition may come again, as
    it does when a notebook's cell is run twice.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
        raise BadArgument(f"{name!r} cannot be a method's name: choose another one for {describe_owner(owner)}")
    method = getattr(base, name, None)
    holder = method if method is not None else None if replace else base.functions.get(name)
    if holder is not None and describe_owner(holder) != describe_owner(owner):
        raise NameTaken(
            f"the name {name!r} of {base.__name__} is already taken by {describe_owner(holder)}: "
            f"choose another one for {describe_owner(owner)}"
        )
    base.functions[name] = owner


def unknown(pipe: object, name: str, base: Any, other: Any) -> AttributeError:
    """The error for an unknown method, with the nearest known name.

    ``base`` is the kind of the pipe, and ``other`` the other kind, which may have what was asked for.
    """
    said = f"{type(pipe).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):  # such a name is a probe by another library, and not worth a search
        known = [n for n in (*dir(type(pipe)), *base.functions) if not n.startswith("_")]
        near = difflib.get_close_matches(name, known, n=1)
        if hasattr(other, name) or name in other.functions:
            said += f"; {other.__name__} has it, and {_CONVERTERS[base.__name__]}() makes one of this pipe"
        elif near:
            said += f"; did you mean {near[0]!r}?"
    return AttributeError(said, name=name, obj=pipe)


_CONVERTERS = {"IterDataPipe": "to_map_datapipe", "MapDataPipe": "to_iter_datapipe"}
