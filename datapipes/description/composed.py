"""Operators that are functions: they give stages of other operators, or several, and are looked for as a class is.

``isinstance(stage, Forker)`` and ``find_dps(graph, Forker)`` ask what made a stage. The stage remembers it by name, so
that its copies know it too. To a type checker these operators are the functions that they are written as, because
what a chain method gives is read from them.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from typing import Any, TypeVar, cast

from datapipes.description.parameters import with_shared
from datapipes.description.pipe import Named

F = TypeVar("F", bound=Callable[..., Any])


class Composed(type):
    """The kind of these operators: classes to ``isinstance`` and to pickle, functions to whoever calls them."""

    __wrapped__: Callable[..., Any]

    @property
    def __signature__(cls) -> Signature:
        return signature(cls.__wrapped__)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        given = cls.__wrapped__(*args, **kwargs)
        for stage in given if isinstance(given, list) else [given]:
            if not any(stage is taken for taken in (*args, *kwargs.values())):  # one that is handed back stays as it is
                stage._made_by = _name(cls)
        return given

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Named) and instance._made_by == _name(cls)


def composed(function: F) -> F:
    """Decorator: an operator that is a function, with its signature and docstring.

    >>> from datapipes.graph import find_dps, traverse_dps
    >>> from datapipes.iter import Forker, IterableWrapper
    >>> a, b = Forker(IterableWrapper("abc"), 2)
    >>> isinstance(a, Forker), find_dps(traverse_dps(a.zip(b)), Forker) == [a, b]
    (True, True)
    """
    kept = {name: getattr(function, name) for name in ("__module__", "__qualname__", "__doc__")}
    if function.__doc__:
        kept["__doc__"] = with_shared(function.__doc__, function)
    kept["__firstlineno__"] = function.__code__.co_firstlineno  # where Python 3.13 and later look for its source
    return cast("F", Composed(function.__name__, (), {**kept, "__wrapped__": function}))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
