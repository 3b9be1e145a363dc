"""Attributes of a stage, and its parents, the pipes among them.

The parents of a pipe are the pipes in its attributes, or in lists, tuples, sets, dicts and deques that are its
attributes. An operator declares which attributes those are (``pipe.operator``); of a class of a user's, all are looked
at. Nothing here changes a pipe, but for ``fill``, which changes the one that it is told to.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar, cast

from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes.description.pipe import IterDataPipe, MapDataPipe

DataPipe: TypeAlias = IterDataPipe | MapDataPipe | TorchIterDataPipe | TorchMapDataPipe  # type: ignore[type-arg]  # isinstance() takes no parametrised ones
"""A stage of a graph, ours or torch's: for annotations and for ``isinstance``."""
Pipe: TypeAlias = Any
"""The same, where code deals with any of the four: they have no base of their own in common."""

R = TypeVar("R")

_LOOKED_AT = 1000
"""Limit on values of a collection that are looked at: one that begins with so many others is data, without a pipe."""


def of_class(ask: Callable[[type], R]) -> Callable[[type], R]:
    """Ask each class once: the classes of pipes are abstract base classes, for which isinstance() is slow."""
    return cast("Callable[[type], R]", cache(ask))


@of_class
def is_pipe_class(cls: type) -> bool:
    return issubclass(cls, DataPipe)


@of_class
def is_native_class(cls: type) -> bool:
    return issubclass(cls, IterDataPipe) and cls._is_operator() and cls.__iter__ is IterDataPipe.__iter__


@of_class
def is_stream_class(cls: type) -> bool:
    return issubclass(cls, IterDataPipe | TorchIterDataPipe)


@of_class
def is_hub_class(cls: type) -> bool:
    return bool(getattr(cls, "_hub", False))


@of_class
def is_replaced_class(cls: type) -> bool:
    return is_native_class(cls) and cls._in_run is not IterDataPipe._in_run  # type: ignore[attr-defined]  # it has one


@of_class
def _is_collection_class(cls: type) -> bool:
    return issubclass(cls, list | tuple | set | frozenset | dict | deque)


@of_class
def _declared(cls: type) -> tuple[str, ...] | None:
    """Attributes that a class itself declares to hold its parents; classes derived from it may hold others."""
    names: tuple[str, ...] | None = vars(cls).get("_parents")
    return names


@of_class
def _data(cls: type) -> frozenset[str]:
    """The fields of the operator that a class derives from, but for those that hold parents."""
    for base in cls.__mro__:
        if (names := _declared(base)) is not None:
            return frozenset(getattr(base, "__dataclass_fields__", ())).difference(names)
    return frozenset()


@of_class
def _slots_of_class(cls: type) -> tuple[str, ...]:
    declared = (vars(base).get("__slots__", ()) for base in cls.__mro__)
    names = chain.from_iterable((slots,) if isinstance(slots, str) else slots for slots in declared)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def is_pipe(value: object) -> bool:
    """Whether a value is a stage of a graph, ours or torch's."""
    return is_pipe_class(type(value))


def is_native(pipe: Pipe) -> bool:
    """Whether a stage is an operator of this library, rather than a class with an ``__iter__`` of its own."""
    return is_native_class(type(pipe))


def is_replaced(pipe: Pipe) -> bool:
    """Whether a stage is an operator that may become another one in a run."""
    return is_replaced_class(type(pipe))


def is_stream(pipe: Pipe) -> bool:
    """Whether a pipe has a position (map-style pipes have none)."""
    return is_stream_class(type(pipe))


def attributes(pipe: Pipe) -> dict[str, Any]:
    """The attributes of a pipe by name, slots included."""
    held: dict[str, Any] = pipe.__dict__
    slots = _slots_of_class(type(pipe))
    return {**held, **{name: getattr(pipe, name) for name in slots if hasattr(pipe, name)}} if slots else held


def occurrences(pipe: Pipe) -> list[Pipe]:
    """The pipes that a stage holds, in order, one as often as it is held."""
    found: list[Pipe] = []
    names = _declared(type(pipe))
    held = pipe.__dict__ if names is not None else attributes(pipe)
    for name in _searched(pipe) if names is None else names:
        value = held.get(name)
        if is_pipe_class(type(value)):
            found.append(value)
        elif _is_collection_class(type(value)):
            found += pipes_in(value)
    return found


def _searched(pipe: Pipe) -> list[str]:
    """Attributes that may hold parents, for a class that declares none."""
    data = _data(type(pipe))
    return [name for name in attributes(pipe) if name not in data]


def pipes_in(value: object) -> Iterator[Pipe]:
    """A pipe itself, or those in a collection, in order."""
    if is_pipe(value):
        yield value
    elif _is_collection_class(type(value)) and _holds_pipes(value):
        for item in _items(value):
            yield from pipes_in(item)


def _items(collection: Any) -> Iterator[Any]:
    return chain(collection, collection.values()) if isinstance(collection, dict) else iter(collection)


def _holds_pipes(collection: object) -> bool:
    """Whether a pipe is among the first values of a collection, those of the collections in it coming last."""
    left, waiting = _LOOKED_AT, [collection]
    for inner in waiting:
        for item in islice(_items(inner), left):
            left -= 1
            if is_pipe(item):
                return True
            if _is_collection_class(type(item)):
                waiting.append(item)
    return False


def parents(pipe: Pipe) -> list[Pipe]:
    """The distinct inputs of a stage, in the order of its attributes.

    >>> from datapipes.iter import IterableWrapper
    >>> source = IterableWrapper([1])
    >>> parents(source.zip(source)) == [source]
    True
    """
    found = occurrences(pipe)
    return found if len(found) < 2 else list({id(p): p for p in found}.values())


def with_parents(pipe: Pipe, swap: Callable[[Pipe], Pipe]) -> Pipe:
    """A copy of one stage in which each parent is what ``swap`` makes of it."""
    new = object.__new__(type(pipe))
    fill(new, pipe, swap)
    return new


def fill(target: Pipe, pipe: Pipe, swap: Callable[[Pipe], Pipe]) -> None:
    """Copy the attributes of a pipe to ``target``, of its class, each parent replaced by what ``swap`` makes of it."""
    target.__dict__.update(pipe.__dict__)
    names = _declared(type(pipe))
    if names is None:
        held = attributes(pipe)
        for name in _searched(pipe):
            set_attribute(target, name, _swapped(held[name], swap))
        return
    for name in names:
        value = target.__dict__.get(name)
        if is_pipe_class(type(value)):
            target.__dict__[name] = swap(value)
        elif _is_collection_class(type(value)):
            target.__dict__[name] = _swapped(value, swap)


def set_attribute(pipe: Pipe, name: str, value: object) -> None:
    """Set an attribute that ``attributes`` shows, past the class's own ``__setattr__``."""
    if name in _slots_of_class(type(pipe)):
        object.__setattr__(pipe, name, value)
    else:
        pipe.__dict__[name] = value


def _swapped(value: Any, swap: Callable[[Pipe], Pipe]) -> Any:
    if is_pipe(value):
        return swap(value)
    if not _is_collection_class(type(value)) or not _holds_pipes(value):
        return value
    if isinstance(value, dict):
        keys = [_swapped(key, swap) for key in value]  # keys first, as in _items
        return _refilled(value, dict(zip(keys, [_swapped(item, swap) for item in value.values()], strict=True)))
    items = [_swapped(item, swap) for item in value]
    if isinstance(value, list | deque):
        return _refilled(value, items)
    return getattr(value, "_make", type(value))(items)  # a namedtuple takes its fields one by one


def _refilled(collection: Any, items: Any) -> Any:
    """Copy a collection with other items, and all that its class remembers beside them."""
    new = copy.copy(collection)
    new.clear()
    (new.update if isinstance(new, dict) else new.extend)(items)
    return new
