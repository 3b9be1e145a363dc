"""How a pipe prints: as the call that makes it.

``chain`` prints a whole graph, ``stage`` one stage of it; errors use the latter. Long data and long graphs are
shortened, so that printing costs little whatever is printed, and no element is made and no function called for it.
What is secret by its name, or is the password of a URL, is left out: reprs end up in logs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from enum import Enum
from inspect import Parameter
from types import BuiltinFunctionType, MethodDescriptorType, ModuleType
from typing import Any

from datapipes import structure
from datapipes.held import of_class
from datapipes.shortened import SECRET, is_secret, shortened
from datapipes.where import where

_MOST_STAGES = 100

_MISSING = object()


def chain(pipe: object) -> str:
    """The expression that builds a graph, with the place of each function in it.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(range(9)).filter(bool).batch(4, drop_last=True)
    IterableWrapper(range(0, 9)).filter(bool).batch(4, drop_last=True)
    """
    return _chain(pipe, [_MOST_STAGES])


def stage(pipe: object) -> str:
    """One stage, without what is above it: ``.batch(4, drop_last=True)``."""
    return _call(pipe, [0])


def _chain(pipe: object, budget: list[int]) -> str:
    """Walk up the first parents in a loop; ``budget`` is what may still be printed of the whole graph."""
    calls = []
    while True:
        budget[0] -= 1
        if budget[0] < 0:
            calls.append("...")
            break
        calls.append(_call(pipe, budget))
        hub = structure.hub_of(pipe)
        parents = structure.parents(pipe) if hub is None else [hub]
        if not parents or (hub is None and _fluent(pipe) is None):
            break
        pipe = parents[0]
    return "".join(reversed(calls))


def _fluent(pipe: object) -> str | None:
    """The method that makes a stage of this very class; a user's subclass is made by its constructor."""
    name: str | None = vars(type(pipe)).get("_fluent")
    return name


def _call(pipe: object, budget: list[int]) -> str:
    if structure.hub_of(pipe) is not None:
        return f"[{vars(pipe)['instance_id']}]"  # a child of fork or demux
    fluent = _fluent(pipe)
    arguments = _arguments(pipe, skip_source=fluent is not None, budget=budget)
    return f"{'.' + fluent if fluent else type(pipe).__qualname__}({', '.join(arguments)})"


@of_class
def _parameters(cls: type) -> Sequence[Parameter]:
    try:
        return list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):  # it has none that Python could tell
        return []


def _arguments(pipe: object, skip_source: bool, budget: list[int]) -> list[str]:
    """The arguments of the constructor call, read back from the attributes of the same names."""
    shown: list[str] = []
    values = structure.attributes(pipe)
    for parameter in _parameters(type(pipe)):
        name, kind, default = parameter.name, parameter.kind, parameter.default
        value = values.get(name, values.get(f"_{name}", _MISSING))
        is_source, skip_source = skip_source, False
        if kind is Parameter.VAR_POSITIONAL:
            items = list(value) if isinstance(value, tuple | list) else []
            shown += [_value(item, budget) for item in (items[1:] if is_source else items)]
        elif kind is Parameter.VAR_KEYWORD:
            options = value if isinstance(value, dict) else {}
            shown += [_named(str(key), item, budget) for key, item in options.items()]
        elif is_source:
            continue
        elif default is Parameter.empty and kind is not Parameter.KEYWORD_ONLY:
            shown.append(_secret_or_value(name, value, budget))
        elif value is not _MISSING and value is not default and not _same(value, default):
            shown.append(_named(name, value, budget))
    return shown


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and isinstance(value, bool | int | float | str | tuple) and value == default


def _named(name: str, value: Any, budget: list[int]) -> str:
    return f"{name}={_secret_or_value(name, value, budget)}"


def _secret_or_value(name: str, value: Any, budget: list[int]) -> str:
    return SECRET if is_secret(name, value) else _value(value, budget)


def _value(value: Any, budget: list[int]) -> str:
    if value is _MISSING:
        return "..."  # a class that keeps its argument under another name, or not at all
    if structure.is_pipe(value):
        return _chain(value, budget) if budget[0] > 0 else "..."
    if isinstance(value, type):
        return value.__qualname__
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, functools.partial):
        arguments = [_value(item, budget) for item in (value.func, *value.args)]
        arguments += [_named(name, item, budget) for name, item in value.keywords.items()]
        return f"functools.partial({', '.join(arguments)})"
    if callable(value):
        return _function(value)
    if next(structure.pipes_in(value), None) is not None:
        return _collection(value, budget)
    return shortened(value)


def _collection(held: Any, budget: list[int]) -> str:
    """A collection with pipes in it."""
    if isinstance(held, dict):
        return f"{{{', '.join(f'{_value(key, budget)}: {_value(item, budget)}' for key, item in held.items())}}}"
    items = ", ".join(_value(item, budget) for item in held)
    if isinstance(held, tuple):
        return f"({items},)" if len(held) == 1 else f"({items})"
    return f"[{items}]" if isinstance(held, list) else f"{type(held).__name__}([{items}])"


def _function(fn: Any) -> str:
    text = where(fn)
    if " at " in text:
        return f"<{text}>"
    if isinstance(fn, BuiltinFunctionType | MethodDescriptorType):
        owner = getattr(fn, "__self__", None)
        return text if owner is None or isinstance(owner, type | ModuleType) else f"<{text}>"
    return shortened(fn)
