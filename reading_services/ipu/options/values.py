"""Typed options that can be frozen: the base of all parts of the options.

A class declares its values as a table of ``Value(default)``, and its setters as a table of signatures (``kept``). A
value has the type of its default; a bool passes for an int. A frozen object cannot change. Only ``createOrSet`` adds
names that are not declared.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable
from copy import deepcopy
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from datapipes.errors import BadArgument

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def kept(
    doc: str, name: str = "", kind: type = object, make: Callable[[Any], Any] = lambda given: given
) -> Callable[[F], F]:
    """Return a decorator that makes a setter from its signature. The setter stores its argument and returns the object.

    ``make`` converts the argument, which has to be a ``kind``. The value's name is ``name``, by default the
    parameter's. ``_Popart.key`` is a setting of the backend; another name with an underscore is an attribute.
    """

    def method(declared: F) -> F:
        signature = inspect.signature(declared)
        _, parameter = signature.parameters

        @wraps(declared)
        def keep(self: Any, *args: Any, **kwargs: Any) -> Any:
            declared(self, *args, **kwargs)  # raises Python's own errors about arguments
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            value = given.arguments[parameter]
            if not isinstance(value, kind):
                wanted = "True or False" if kind is bool else kind.__name__
                raise BadArgument(f"{parameter} of {declared.__name__}() has to be {wanted}, and not {value!r}")
            self._keep(name or parameter, make(value))
            return self

        keep.__doc__ = doc
        return cast("F", keep)

    return method


class Value(Generic[T]):
    """One declared value: its default, which sets its type, and its least value."""

    def __init__(self, default: T, at_least: int | None = None) -> None:
        self.default = default
        self.at_least = at_least

    def __set_name__(self, owner: type[OptionValues], name: str) -> None:
        self.name = name
        owner._declared = {**owner._declared, name: self}

    @overload
    def __get__(self, values: None, owner: type[OptionValues]) -> Value[T]: ...
    @overload
    def __get__(self, values: OptionValues, owner: type[OptionValues]) -> T: ...
    def __get__(self, values: OptionValues | None, owner: type[OptionValues]) -> Value[T] | T:
        if values is None:
            return self
        found: T = values._value(self.name)
        return found

    def __set__(self, values: OptionValues, value: T) -> None:
        values.set(**{self.name: value})


class OptionValues:
    """Named values. Methods that change them return the object, so that calls can be chained."""

    _values: dict[str, Any]
    _frozen: bool
    _popart: OptionValues | None
    """The backend's settings, if setters of this class write there."""
    _declared: dict[str, Value[Any]] = {}  # noqa: RUF012 - never changed: a class that declares more makes its own

    def __init__(self, popart: OptionValues | None = None) -> None:
        # __setattr__ refuses new private attributes, so they are made without it.
        values = {name: deepcopy(value.default) for name, value in self._declared.items()}
        self.__dict__.update(_values=values, _frozen=False, _popart=popart)

    def set(self, **values: Any) -> Self:
        """Set values by their names. Each must exist already, and keep its type."""
        self.checkIsFrozen()
        for name, value in values.items():
            if name not in self._values:
                known = ", ".join(self._names())
                raise BadArgument(f"Invalid option {name}, valid options are {known}{self._hint(name)}")
            self._check(name, value)
        self._values.update(values)
        return self

    def createOrSet(self, **values: Any) -> Self:
        """Set values by their names. Names that do not exist are added."""
        self.checkIsFrozen()
        self.set(**{name: value for name, value in values.items() if name in self._values})
        self._values.update(values)
        return self

    def deleteIfExists(self, name: str) -> Self:
        """Remove a value if it exists. Raise AttributeError if the options are frozen."""
        self.checkIsFrozen()
        self._values.pop(name, None)
        return self

    def exists(self, name: str) -> bool:
        """Return whether there is a value of this name."""
        return name in self._values

    def checkIsFrozen(self) -> None:
        """Raise AttributeError if the values are frozen."""
        if self._frozen:
            raise AttributeError(
                "Can't modify frozen Options: a DataLoader or a model is using them. Set them before, or change a "
                "clone() and give that to a new one"
            )

    def toDict(self) -> dict[str, Any]:
        """Return the values by their names."""
        return dict(self._values)

    def _keep(self, name: str, value: Any) -> None:
        self.checkIsFrozen()
        if name.startswith("_Popart.") and self._popart is not None:
            self._popart.createOrSet(**{name.removeprefix("_Popart."): value})
        elif name.startswith("_"):
            self.__dict__[name] = value
        else:
            self.createOrSet(**{name: value})

    def _check(self, name: str, value: object) -> None:
        declared = self._declared.get(name)
        kind = type(declared.default if declared else self._values[name])
        if not isinstance(value, kind):
            raise BadArgument(f"Unexpected type {type(value)} for option {name}. Expected {kind}")
        if declared and declared.at_least is not None and value < declared.at_least:
            raise BadArgument(f"{name} has to be {declared.at_least} or more, and not {value}")

    def _value(self, name: str) -> Any:
        if name not in self._values:
            raise AttributeError(f"Invalid attribute {name}.{self._hint(name)}")
        return self._values[name]

    def _hint(self, name: str) -> str:
        """Return a hint for an unknown name: the method with a similar name, or an empty text."""
        first, *rest = name.split("_")
        method = first + "".join(word.title() for word in rest)
        return f" (call {method}() to set it)" if callable(getattr(type(self), method, None)) else ""

    def _names(self) -> list[str]:
        """Return the declared names in their order, then the others sorted."""
        return [n for n in self._declared if n in self._values] + sorted(self._values.keys() - self._declared.keys())

    def _freeze(self, frozen: bool = True) -> None:
        for each in (self, *vars(self).values()):  # with its parts
            if isinstance(each, OptionValues):
                each._frozen = frozen

    def _unfreeze(self) -> None:
        self._freeze(False)

    def __call__(self, name: str) -> Any:
        return self._value(name)

    if not TYPE_CHECKING:  # a type checker reports names that are not declared

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"Invalid private attribute {name}.")
            return self._value(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            if not hasattr(self, name):
                raise AttributeError(f"Invalid private attribute {name}.")
            object.__setattr__(self, name, value)
        elif isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"{name} cannot be replaced; call its methods")
        else:
            self.set(**{name: value})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an independent copy, which is not frozen."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(deepcopy(self.__dict__, memo), _frozen=False)
        return copied

    def _shown(self) -> list[str]:
        return [f"{name}={settled(self._values[name])}" for name in self._names()]

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"


def settled(value: object) -> str:
    """Return a repr that is equal for equal values: dictionaries in the order of their keys, enums by their names."""
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case dict():
            items = sorted((settled(key), settled(one)) for key, one in value.items())
            return "{" + ", ".join(f"{key}: {one}" for key, one in items) + "}"
        case list():
            return "[" + ", ".join(map(settled, value)) + "]"
    return repr(value)
