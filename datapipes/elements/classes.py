"""Allow-list of users' classes that may be in a saved state, and how their objects are saved.

Invariants: only a class that the program itself allowed is ever made from saved bytes. Making an object runs none of
the class's code: no ``__init__``, no ``__new__``, no ``__setstate__``, no property. An enum's member is found by its
value, a named tuple is filled with its fields, and any other object is made blank and gets its attributes. (An object
that is a key of a dict or in a set is hashed and compared.) ``encode`` refuses a class that needs more than that.
"""

from __future__ import annotations

import copyreg
import io
from enum import Enum, Flag
from inspect import getattr_static
from types import BuiltinFunctionType, MemberDescriptorType
from typing import Any, Final, TypeVar

from datapipes.elements.streams import StreamWrapper

C = TypeVar("C", bound=type)

FAMILIES: Final = ("enum", "named tuple", "object")
HEAP_TYPE: Final = 1 << 9  # CPython's flag of classes that were made at run time

_COMBINE: Final = Flag._missing_.__func__  # type: ignore[attr-defined]  # it is a class method
_allowed: dict[str, type] = {}


class NotAllowed(LookupError):
    """A class that the program did not allow. The message says how to allow it."""


def allow(cls: C) -> C:
    """Allow objects of a class in saved states. Usable as a decorator.

    The class is a dataclass, a named tuple, an enum or a plain class. It is allowed in this process; a class that is
    defined again under the same name replaces the older one.

    >>> from dataclasses import dataclass
    >>> @allow
    ... @dataclass
    ... class Point:
    ...     x: int
    >>> Point in allowed()
    True
    """
    if not isinstance(cls, type):
        raise TypeError(f"allow() takes a class, not {cls!r:.80}")
    if (problem := _unallowable(cls)) is not None:
        raise TypeError(f"{full_name(cls)} cannot be allowed: {problem}")
    _allowed[full_name(cls)] = cls
    return cls


def allowed() -> tuple[type, ...]:
    """Return the classes that ``allow`` was called with, sorted by name.

    >>> all(isinstance(cls, type) for cls in allowed())
    True
    """
    return tuple(_allowed[name] for name in sorted(_allowed))


def full_name(cls: type) -> str:
    """Return the name under which a class is saved: its module and its qualified name.

    >>> full_name(Enum)
    'enum.Enum'
    """
    return f"{cls.__module__}.{cls.__qualname__}"


def is_allowed(cls: type) -> bool:
    """Return whether this very class may be in saved states."""
    return _allowed.get(full_name(cls)) is cls


def is_enum(cls: type) -> bool:
    """Return whether objects of this class are saved by their value."""
    return issubclass(cls, Enum)


def is_named_tuple(cls: type) -> bool:
    """Return whether objects of this class are saved by their fields."""
    return issubclass(cls, tuple) and _built_in_base(cls) is tuple and isinstance(getattr(cls, "_fields", None), tuple)


def _unallowable(cls: type) -> str | None:
    if issubclass(cls, StreamWrapper | io.IOBase):
        return "an open file cannot be saved: read it in a map() before this stage, or let the stage buffer paths"
    if is_enum(cls) or is_named_tuple(cls) or (base := _built_in_base(cls)) is object:
        return None
    derived = "" if base is cls else f"it is derived from {full_name(base)}; "
    return f"{derived}only plain values, enums, named tuples, dataclasses and plain classes load without running code"


def _built_in_base(cls: type) -> type:
    """Return the nearest base written in C that decides how the objects are laid out in memory."""
    return next(
        base
        for base in cls.__mro__
        if not base.__flags__ & HEAP_TYPE or isinstance(vars(base).get("__new__"), BuiltinFunctionType)
    )


def fields_of(obj: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the arguments of ``make``, and those of ``fill`` or None, that rebuild an object of an allowed class."""
    cls: Any = type(obj)
    if not is_allowed(cls):
        raise TypeError(_unallowable(cls) or _advice(obj))
    if is_enum(cls):
        if _member(cls, obj._value_) is not obj:
            raise TypeError("its value does not identify it")
        return ("enum", full_name(cls), obj._value_), None
    if is_named_tuple(cls):
        plain = cls.__reduce_ex__ is object.__reduce_ex__ and cls.__reduce__ is object.__reduce__
        if not plain or getattr(obj, "__dict__", None):
            raise TypeError("it is made of more than its fields: its own __reduce__, or attributes")
        return ("named tuple", full_name(cls), tuple(tuple.__iter__(obj))), None
    return ("object", full_name(cls)), _checked_state(obj)


def _advice(obj: Any) -> str:
    """Return advice about an object of a class that is not allowed. Raise TypeError if allowing it does not help."""
    cls = type(obj)
    if not (is_enum(cls) or is_named_tuple(cls)):
        _checked_state(obj)
    name = full_name(cls).removeprefix("__main__.")
    advice = f"allow it with datapipes.allow({name}), or keep plain values in the elements"
    return f"its class may not be in saved states; {advice}"


def _checked_state(obj: Any) -> Any:
    """Return the state of an object that consists of its attributes. Raise TypeError with advice for any other."""
    try:
        state = _state_of(obj)
        _attributes(type(obj), state)
    except TypeError as error:
        raise TypeError(
            f"{error}; put the stage that makes such objects below the one that buffers them, as in "
            ".shuffle().map(decode), or have it make bytes, arrays or tensors"
        ) from error
    return state


def _state_of(obj: Any) -> Any:
    setstate = getattr(type(obj), "__setstate__", None)
    # Frozen dataclasses with slots have a generated pair, which saves the same as object's.
    if getattr(setstate, "__module__", None) == "dataclasses":
        return object.__getstate__(obj)
    if setstate is not None:
        raise TypeError("its __setstate__ would have to run when it is loaded")
    reduced = obj.__reduce_ex__(4)
    function, arguments, state, *items = (reduced, (), None) if isinstance(reduced, str) else (*reduced, None)[:6]
    if function is not copyreg.__newobj__:  # type: ignore[attr-defined]  # pickle's own, missing in the stubs
        name = getattr(function, "__qualname__", function)
        raise TypeError(f"its __reduce__ asks for {name} to be called when it is loaded")
    if len(arguments) != 1 or arguments[0] is not type(obj) or any(part is not None for part in items):
        raise TypeError("it is made of more than its attributes: __getnewargs__, or items")
    return state


def make(family: object, name: object, *content: Any) -> Any:
    """Make an object of an allowed class. One that is neither an enum nor a named tuple is blank."""
    cls = _allowed.get(name) if type(name) is str else None
    if cls is None:
        raise NotAllowed(
            f"holds objects of the class {name!r:.200}, which this process does not allow; "
            "if you trust it, import it and call datapipes.allow with it before loading"
        )
    if is_enum(cls) and family == "enum" and len(content) == 1:
        return _member(cls, content[0])
    if is_named_tuple(cls) and family == "named tuple" and len(content) == 1:
        fields: Any = content[0]
        if type(fields) is not tuple or len(fields) != len(cls._fields):  # type: ignore[attr-defined]  # a named tuple
            raise ValueError(f"not the fields of {name}")
        return tuple.__new__(cls, fields)
    if family == "object" and not content and _built_in_base(cls) is object and not is_enum(cls):
        return object.__new__(cls)
    raise TypeError(f"{name} is not of the kind {family!r:.40} any more, or the state is damaged")


def fill(obj: Any, state: Any) -> None:
    """Set the attributes of a blank object."""
    attributes, slots = _attributes(type(obj), state)
    if attributes:
        object.__getattribute__(obj, "__dict__").update(attributes)
    for slot, value in slots:
        slot.__set__(obj, value)


def _attributes(cls: type, state: Any) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Split a state into the attributes for an object's dict and those for its slots.

    Raise TypeError if it is no state.
    """
    in_dict, in_slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    in_dict, in_slots = ({} if part is None else part for part in (in_dict, in_slots))
    for part in (in_dict, in_slots):
        if type(part) is not dict or not all(type(name) is str for name in part):
            raise TypeError("its state is not a dict of its attributes")
    if in_dict and not cls.__dictoffset__:
        raise TypeError("its state has attributes for which it has no slots")
    slots = [(getattr_static(cls, name, None), value) for name, value in in_slots.items()]
    if not all(isinstance(slot, MemberDescriptorType) for slot, _ in slots):
        raise TypeError("its state has values for slots that it does not have")
    return in_dict, slots


def _member(cls: Any, value: Any) -> Any:
    for member in cls.__members__.values():
        if type(member._value_) is type(value) and member._value_ == value:
            return member
    if issubclass(cls, Flag) and type(value) is int and cls._missing_.__func__ is _COMBINE:
        return cls(value)  # several flags at once, which have no name of their own
    raise ValueError(f"{full_name(cls)} has no member of the value {value!r:.80}")
