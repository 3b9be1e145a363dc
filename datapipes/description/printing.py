"""Repr of a pipe: the call that makes it.

``chain`` prints a whole graph, ``stage`` one stage of it, for errors. Long data and long graphs are shortened, so that
printing is always cheap. It makes no element and calls no function of the graph. Secrets (values under names such as
"password", passwords in URLs) are left out, because reprs end up in logs.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from types import BuiltinFunctionType, MethodDescriptorType, ModuleType
from typing import Any

from datapipes.description import structure
from datapipes.description.given_sources import is_given
from datapipes.description.names import is_hidden
from datapipes.description.pipe import IterDataPipe, MapDataPipe, Named
from datapipes.description.structure import of_class
from datapipes.fluent import IterMethods, MapMethods, operators_of
from datapipes.messages.short import SECRET, is_secret, shortened
from datapipes.messages.where import where

_OF_ONE_MACHINE = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s(<]*/|0x[0-9a-f]+")

_MOST_STAGES = 100
_MOST_NESTED = 20

_MISSING = object()


def chain(pipe: object) -> str:
    """Return the expression that builds a graph, with the place of each function in it.

    >>> from datapipes.iter import IterableWrapper
    >>> IterableWrapper(range(9)).filter(bool).batch(4, drop_last=True)
    IterableWrapper(range(0, 9)).filter(bool).batch(4, drop_last=True)
    """
    return _chain(pipe, _PrintLimits(_MOST_STAGES, _MOST_NESTED))


def stage(pipe: object) -> str:
    """Return one stage without the stages above it, such as ``.batch(4, drop_last=True)``."""
    return _call(pipe, _PrintLimits(0, 0))


def argument(value: object) -> str:
    """Return a value as a short argument of a call: ``4``, ``<double at train.py:7>``."""
    return _value(value, _PrintLimits(0, 0))


def on_any_machine(graph: structure.Pipe) -> str:
    """Return the stages as they print, without values that may differ among machines: data, texts, folders, addresses.

    >>> from datapipes.iter import IterableWrapper
    >>> on_any_machine(IterableWrapper([1, 2]).batch(2))
    'IterableWrapper .batch(2)'
    """
    stages = (type(each).__name__ if not structure.parents(each) else stage(each) for each in structure.walk(graph))
    return _OF_ONE_MACHINE.sub("", " ".join(stages))


def as_written(pipe: structure.Pipe) -> structure.Pipe:
    """Return the stage of the user's graph that a stage of a service replaces. Return any other stage itself."""
    while structure.is_pipe(other := _stands_for(pipe)):
        pipe = other
    return pipe


def _stands_for(pipe: object) -> Any:
    return vars(pipe).get(getattr(type(pipe), "_stands_for", None) or "")


def operator_calls() -> dict[str, str]:
    """Return how the stages of each operator print, in short, by the name of the class. Import all operators.

    >>> operator_calls()["Batcher"]
    '.batch()'
    """
    for methods in (IterMethods, MapMethods):
        operators_of(methods)
    calls: dict[str, str] = {}
    classes: list[type[Named]] = [Named]
    for cls in classes:
        classes += cls.__subclasses__()
        if (fluent := vars(cls).get("_fluent")) is not None and structure.is_native_class(cls):
            calls[cls.__name__] = f".{fluent}()"
            calls[f"{cls.__name__}Child"] = f".{fluent}()[...]"  # of a hub
    return calls


@dataclass(slots=True)
class _PrintLimits:
    """Limits on printing a graph: the stages left, and the levels of nesting left."""

    stages: int
    levels: int


def _chain(pipe: object, room: _PrintLimits) -> str:
    """Return the expression for a graph. A loop walks up the first input of each stage."""
    calls = []
    while True:
        room.stages -= 1
        if room.stages < 0:
            calls.append("...")
            break
        pipe = as_written(pipe)
        calls.append(_call(pipe, room))
        child = _child(pipe)
        parents = structure.parents(pipe) if child is None else [child[0]]
        if not parents or (child is None and _fluent(pipe) is None):
            break
        pipe = parents[0]
    return "".join(reversed(calls))


def _fluent(pipe: object) -> str | None:
    """Return the method that makes a stage of this very class.

    Return None for a user's subclass, for an operator whose name a program has taken, and for a stage over a list.
    """
    name: str | None = vars(type(pipe)).get("_fluent")
    kind = IterDataPipe if isinstance(pipe, IterDataPipe) else MapDataPipe
    return None if name is None or is_hidden(kind, name) or _given(pipe) else name


def _child(pipe: structure.Pipe) -> tuple[object, int] | None:
    """Return the call that returned this stage in a list of several, and its index in the list. None: there is none."""
    hub = structure.hub_of(pipe)
    if hub is not None:
        return hub, vars(pipe)["instance_id"]
    given: tuple[object, int] | None = pipe._unpacked_from() if structure.is_native(pipe) else None
    return given


def _call(pipe: object, room: _PrintLimits) -> str:
    pipe = as_written(pipe)
    if isinstance(text := _stands_for(pipe), str):
        return text
    child = _child(pipe)
    if child is not None:
        return f"[{child[1]}]"
    fluent = _fluent(pipe)
    arguments = _arguments(pipe, skip_source=fluent is not None, room=room)
    return f"{'.' + fluent if fluent else structure.class_name(pipe)}({', '.join(arguments)})"


@of_class
def _parameters(cls: type) -> Sequence[Parameter]:
    try:
        return list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):  # Python cannot determine its signature
        return []


def _arguments(pipe: object, skip_source: bool, room: _PrintLimits) -> list[str]:
    """Return the arguments of the constructor call, read back from the attributes of the same names."""
    shown: list[str] = []
    values = structure.attributes(pipe)
    if not skip_source:  # a class may keep its source under another name than the parameter's
        values = {**{p.name: s for p, s in zip(_parameters(type(pipe)), _given(pipe), strict=False)}, **values}
    for parameter in _parameters(type(pipe)):
        name, kind, default = parameter.name, parameter.kind, parameter.default
        value = values.get(name, values.get(f"_{name}", _MISSING))
        is_source, skip_source = skip_source, False
        if kind is Parameter.VAR_POSITIONAL:
            items = list(value) if isinstance(value, tuple | list) else []
            shown += [_value(item, room) for item in (items[1:] if is_source else items)]
        elif kind is Parameter.VAR_KEYWORD:
            options = value if isinstance(value, dict) else {}
            shown += [_named(str(key), item, room) for key, item in options.items()]
        elif is_source:
            continue
        elif default is Parameter.empty and kind is not Parameter.KEYWORD_ONLY:
            shown.append(_secret_or_value(name, value, room))
        elif value is not _MISSING and value is not default and not _same(value, default):
            shown.append(_named(name, value, room))
    return shown


def _given(pipe: object) -> list[object]:
    """Return a list with the source of a stage if the source was given as a list or another iterable, else []."""
    return [source for source in structure.parents(pipe)[:1] if is_given(source)]


def _same(value: object, default: object) -> bool:
    comparable = isinstance(value, bool | int | float | str | tuple | BuiltinFunctionType)
    return comparable and type(value) is type(default) and bool(value == default)


def _named(name: str, value: Any, room: _PrintLimits) -> str:
    return f"{name}={_secret_or_value(name, value, room)}"


def _secret_or_value(name: str, value: Any, room: _PrintLimits) -> str:
    return SECRET if is_secret(name, value) else _value(value, room)


def _value(value: Any, room: _PrintLimits) -> str:
    if value is _MISSING:
        return "..."  # a class that keeps its argument under another name, or not at all
    if structure.is_pipe(value):
        if is_given(value):
            return _value(vars(value)[value._identified_by], room)
        return _inner_chain(value, room)
    if isinstance(value, type):
        return value.__qualname__
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, functools.partial):
        arguments = [_value(item, room) for item in (value.func, *value.args)]
        arguments += [_named(name, item, room) for name, item in value.keywords.items()]
        return f"functools.partial({', '.join(arguments)})"
    if callable(value):
        return _function(value)
    if next(structure.pipes_in(value), None) is not None:
        return _collection(value, room)
    return shortened(value)


def _inner_chain(pipe: object, room: _PrintLimits) -> str:
    if room.stages <= 0 or room.levels <= 0:
        return "..."
    room.levels -= 1
    text = _chain(pipe, room)
    room.levels += 1
    return text


def _collection(held: Any, room: _PrintLimits) -> str:
    """Return a collection that contains pipes, as text."""
    if isinstance(held, dict):
        return f"{{{', '.join(f'{_value(key, room)}: {_value(item, room)}' for key, item in held.items())}}}"
    items = ", ".join(_value(item, room) for item in held)
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
