"""Errors for calls of a chain method with wrong arguments. They show how to call the method.

Python's own error counts the pipe among the arguments and names the operator's constructor.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from datapipes.errors import BadArgumentType

_EVERYWHERE = {"on_error", "max_errors", "transfer"}  # a positional value is never meant as one of these


def explaining(operator: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the method that makes an operator of its pipe. It shows how it is called if the arguments do not fit."""

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return operator(self, *args, **kwargs)
        except TypeError:
            explained = _explained(call, args, kwargs)
            if explained is None:  # the call fits, and the error comes from inside
                raise
            raise explained from None

    call.__name__ = name
    return call


def _explained(method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> BadArgumentType | None:
    """Return the error for a call that does not fit the signature, or None if it fits.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper("abc").shuffle(2)
    Traceback (most recent call last):
        ...
    datapipes.errors.BadArgumentType: shuffle(2): too many positional arguments; write shuffle(buffer_size=2)
    """
    _, *parameters = inspect.signature(method).parameters.values()
    try:
        inspect.Signature(parameters).bind(*args, **kwargs)
    except TypeError as error:
        name = method.__name__
        return BadArgumentType(f"{_call(name, args, kwargs)}: {error}; {_remedy(name, parameters, args, kwargs)}")
    return None


def _call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    from datapipes.description.printing import argument

    shown = [*map(argument, args), *(f"{key}={argument(value)}" for key, value in kwargs.items())]
    return f"{name}({', '.join(shown)})"


def _is_alike(default: object, given: object) -> bool:
    return isinstance(default, type(given)) and isinstance(default, bool) == isinstance(given, bool)


def _remedy(name: str, parameters: list[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    by_place = [p for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    by_name = [p for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.name not in _EVERYWHERE | {*kwargs}]
    if len(args) == len(by_place) + 1:
        meant = by_name if len(by_name) == 1 else [p for p in by_name if _is_alike(p.default, args[-1])]
        if meant:
            return f"write {_call(name, args[:-1], {meant[0].name: args[-1], **kwargs})}"
    names = [p.name for p in parameters]
    for key in kwargs:
        if key not in names and (near := difflib.get_close_matches(key, names, n=1)):
            return f"did you mean {near[0]!r}?"
    bare = [p.replace(default=Parameter.empty, annotation=Parameter.empty) for p in parameters]
    return f"it is called as {name}{inspect.Signature(bare)}"
