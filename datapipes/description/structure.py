"""Graphs of pipes: the attributes and parents of a stage; walk, rewrite, unfold.

The parents of a pipe are the pipes in its attributes, or in lists, tuples, sets, dicts and deques that are its
attributes. An operator declares which attributes those are (``pipe.operator``); of a class of a user's, all are looked
at. Nothing here changes a pipe, but for ``fill`` and ``set_attribute``, which change the one that they are told to.

Every walk is a loop over a graph's distinct pipes: as long as the graph is large, whatever its depth, and however many
paths lead to one stage.

A graph is pickled and copied as Python does it, but sources first where it is deep. Python pickles what an object holds
inside that object, so a chain of pipes would nest as deep as it is long. The pipe that pickling begins with therefore
names all stages above it, sources first. When Python gets to a stage, everything that the stage holds has been pickled
before, and is referred to. Nothing else differs: each stage is pickled once, by its own ``__getstate__`` if it has one,
and what two pipes share is shared afterwards.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar, cast
from weakref import WeakSet

from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes.description.given_sources import kind_of
from datapipes.description.pipe import IterDataPipe, MapDataPipe
from datapipes.errors import GraphError

DataPipe: TypeAlias = IterDataPipe | MapDataPipe | TorchIterDataPipe | TorchMapDataPipe  # type: ignore[type-arg]  # isinstance() takes no parametrised ones
"""A stage of a graph, ours or torch's: for annotations and for ``isinstance``."""
Pipe: TypeAlias = Any
"""The same, where code deals with any of the four: they have no base of their own in common."""

R = TypeVar("R")

_OPERATORS_OF_HUBS = {"fork": "Forker", "demux": "Demultiplexer"}

NO_CELL = -1
"""The place of stages that keep no position, which sessions add to a graph and no state knows of."""

MOST_POSITIONS = 200_000
"""The most stages that one opening may have; a diamond of plain pipes doubles them at every level."""

_LOOKED_AT = 1000
"""Limit on values of a collection that are looked at: one that begins with so many others is data, without a pipe."""

_SHALLOW = 100
"""Up to how many stages a graph is pickled just as Python would."""


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
def _single_parents(cls: type) -> tuple[str, ...]:
    """The fields of an operator that hold one pipe each."""
    known = getattr(cls, "__dataclass_fields__", {})
    return tuple(name for name in _declared(cls) or () if name in known and kind_of(known[name].type) is not None)


def needs_parents(stage: Pipe) -> None:
    """Raise if an operator was given something else in place of a pipe; its constructor takes what it gets."""
    for name in _single_parents(type(stage)):
        given = vars(stage)[name]
        if given is not None and not is_pipe(given):  # None where a part of a graph was cut off
            raise GraphError(
                f"{class_name(stage)}({name}=...) expects a pipe, got {type(given).__name__}: {given!r:.80}; wrap a "
                "list, or what else can be iterated over, in IterableWrapper(...)"
            )


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


def walk(*ends: Pipe, inputs: Callable[[Pipe], list[Pipe]] = occurrences) -> list[Pipe]:
    """Every stage of a graph once, each after its parents; the graph's end comes last. Of several graphs, likewise.

    Args:
        ends: The last stages.
        inputs: A function that gives the stages to go on with above each, if these are not its parents.

    >>> from datapipes.iter import IterableWrapper
    >>> walk(IterableWrapper([1]).batch(2))
    [IterableWrapper([1]), IterableWrapper([1]).batch(2)]
    """
    done: list[Pipe] = []
    seen: set[int] = set()
    for end in ends:
        if not is_pipe(end):
            raise GraphError(f"Expected `IterDataPipe` or `MapDataPipe`, got {type(end).__name__}: {end!r:.80}")
        stack = [] if id(end) in seen else [(end, iter(inputs(end)))]
        seen.add(id(end))
        while stack:
            current, todo = stack[-1]
            for parent in todo:
                if id(parent) not in seen:
                    seen.add(id(parent))
                    stack.append((parent, iter(inputs(parent))))
                    break
            else:
                done.append(current)
                stack.pop()
    return done


def rewrite(pipe: Pipe, rule: Callable[[Pipe], Pipe]) -> Pipe:
    """A new graph in which each stage is what ``rule`` makes of it; what no rule changes is shared with the old one.

    Args:
        pipe: The end of the old graph, which stays as it is.
        rule: A function that is given each stage once, with its parents already rewritten, and returns that stage or
            another one.

    >>> from datapipes.iter import Batcher, IterableWrapper
    >>> dp = IterableWrapper(range(6)).batch(2).map(len)
    >>> rewrite(dp, lambda stage: stage.datapipe.batch(3) if isinstance(stage, Batcher) else stage)
    IterableWrapper(range(0, 6)).batch(3).map(len)
    """
    new: dict[int, Pipe] = {}
    for old in walk(pipe):
        changed = False
        for parent in occurrences(old):
            if id(parent) not in new:
                raise _above_itself(old)
            changed = changed or new[id(parent)] is not parent
        new[id(old)] = rule(with_parents(old, lambda parent: new[id(parent)]) if changed else old)
    return new[id(pipe)]


def unfold(pipe: Pipe) -> Pipe:
    """A private copy of a graph in which every stage has one consumer and a place of its own.

    A stage that is read twice, as in ``zip(src, src)``, becomes two stages, since those are two positions. What is
    shared on purpose stays one: the hub behind the children of ``fork`` and its kin, and map-style pipes, which have no
    position. A child that is read twice is two positions as well, and its second reader gets a hub of its own. A stage
    that has a place keeps it; the others are numbered on, sources first.
    """
    return unfolded(pipe)[-1][1]


def unfolded(pipe: Pipe) -> list[tuple[Pipe, Pipe]]:
    """Return the stages of a graph, each with a copy that ``unfold`` makes of it; the end of the graph comes last."""
    reads: dict[int, list[Pipe]] = {}

    def read(stage: Pipe) -> list[Pipe]:
        # An operator reads each occurrence by itself; a user's class, each distinct pipe.
        reads[id(stage)] = occurrences(stage) if is_native_class(type(stage)) else parents(stage)
        return reads[id(stage)]

    stages = walk(pipe, inputs=read)
    owned = _owned_hubs(stages)
    _needs_finite(stages, reads)
    shared: dict[int, list[tuple[Pipe, set[object]]]] = {}  # the copies of what is shared, each with its readers
    taken: set[int] = set()
    made_in_order: list[tuple[Pipe, Pipe]] = []
    stack: list[tuple[Pipe, object, Iterator[Pipe], list[Pipe]]] = [(pipe, None, iter(reads[id(pipe)]), [])]
    while True:
        current, read_as, todo, made = stack[-1]
        for parent in todo:
            reader = _reader(current, parent)
            for new, readers in shared.get(id(parent), ()):
                if reader is None or reader not in readers:
                    readers.add(reader)
                    made.append(new)
                    break
            else:
                for hub in owned.get(id(parent), ()):
                    shared.pop(id(hub), None)  # another copy of this stage had it
                stack.append((parent, reader, iter(reads[id(parent)]), []))
                break
        else:
            stack.pop()
            new = _copy(current, reads[id(current)], made)
            made_in_order.append((current, new))
            place = new.__dict__.get("_place")
            if place is None or place in taken:
                new.__dict__.pop("_place", None)
            else:
                taken.add(place)
            if not stack:
                break
            if read_as is not None or not is_stream_class(type(current)):
                shared.setdefault(id(current), []).append((new, {read_as}))
            stack[-1][3].append(new)
    number = max(taken, default=-1) + 1
    for _, stage in made_in_order:
        if "_place" not in stage.__dict__:
            stage.__dict__["_place"] = number
            number += 1
    return made_in_order


def _owned_hubs(stages: list[Pipe]) -> dict[int, list[Pipe]]:
    """For each stage, the hubs that everybody reads through it, and through no stage nearer to them.

    Each copy of such a stage starts a hub of its own, so that two copies never share one.
    """
    if not has_hubs(stages):
        return {}
    order = {id(stage): -i for i, stage in enumerate(stages)}  # consumers first
    through: dict[int, Pipe] = {}
    owned: dict[int, list[Pipe]] = {}
    for stage in reversed(stages):
        if is_hub(stage) and id(stage) in through:
            owned.setdefault(id(through[id(stage)]), []).append(stage)
        for parent in parents(stage):
            one, other = stage, through.get(id(parent), stage)
            while one is not other:
                if order[id(one)] > order[id(other)]:
                    one = through[id(one)]
                else:
                    other = through[id(other)]
            through[id(parent)] = one
    return owned


def _needs_finite(stages: list[Pipe], reads: dict[int, list[Pipe]]) -> None:
    """Refuse a graph that is too large when unfolded, or endless."""
    is_tree = sum(map(len, reads.values())) < len(stages)
    total = len(stages) if is_tree else _positions(stages, reads)
    if total > MOST_POSITIONS:
        raise GraphError(
            f"this graph has {total} positions ({MOST_POSITIONS} at most), because its stages are read along many "
            f"paths; share what is read twice with fork(): {stages[-1]!r:.200}"
        )


def _positions(stages: list[Pipe], reads: dict[int, list[Pipe]]) -> int:
    """The number of stages after unfolding, by counting the readers of each."""
    order = {id(stage): i for i, stage in enumerate(stages)}
    times = dict.fromkeys(order, 0)
    by_reader: dict[int, Counter[object]] = {}
    times[id(stages[-1])] = 1
    for stage in reversed(stages):
        if id(stage) in by_reader:
            times[id(stage)] = max(by_reader[id(stage)].values())
        for parent in reads[id(stage)]:
            if order[id(parent)] >= order[id(stage)]:
                raise _above_itself(stage)
            reader = _reader(stage, parent)
            if reader is not None:
                by_reader.setdefault(id(parent), Counter())[reader] += times[id(stage)]
            elif is_stream(parent):
                times[id(parent)] += times[id(stage)]
            else:
                times[id(parent)] = 1
    return sum(times.values())


def _reader(consumer: Pipe, pipe: Pipe) -> object:
    """The identity under which a stage reads a hub, which serves each child once; None if it reads no hub."""
    held = consumer.__dict__
    if "instance_id" in held and held.get("main_datapipe") is pipe:
        return "child", held["instance_id"]
    return ("other", id(consumer)) if is_hub_class(type(pipe)) else None


def _above_itself(pipe: Pipe) -> GraphError:
    return GraphError(f"this graph has no beginning, because one of its stages is its own source: {pipe!r:.200}")


def is_hub(pipe: Pipe) -> bool:
    """Whether a stage is an operator that several children read: the source of fork and its kin."""
    return is_hub_class(type(pipe))


def class_name(pipe: Pipe) -> str:
    """Return the name of a stage's class, or of the operator that makes it, if that is a hub of its own class."""
    cls = type(pipe)
    return _OPERATORS_OF_HUBS.get(cls._fluent, cls.__qualname__) if is_hub_class(cls) else cls.__qualname__


def has_hubs(stages: Iterable[Pipe]) -> bool:
    """Whether there is one among some stages."""
    return any(map(is_hub_class, map(type, stages)))


def hub_of(pipe: Pipe) -> Pipe | None:
    """The hub that a child of fork, demux or unzip, ours or torch's, shares with its siblings; else None."""
    return vars(pipe).get("main_datapipe") if "instance_id" in vars(pipe) else None


def _copy(pipe: Pipe, read: list[Pipe], made: list[Pipe]) -> Pipe:
    if is_native_class(type(pipe)):
        each = iter(made)
        return with_parents(pipe, lambda _: next(each))
    by_identity = {id(old): new for old, new in zip(read, made, strict=True)}
    return with_parents(pipe, lambda parent: by_identity[id(parent)])


def place_of(pipe: Pipe) -> int:
    """The number of a stage in an unfolded graph."""
    return int(pipe.__dict__["_place"])


class _Above:
    """The stages above the pipe that pickling began with. Lives as long as the pickler, which remembers what it saw."""

    def __init__(self, stages: list[Pipe]) -> None:
        self.stages = stages
        self.ids = set(map(id, stages))

    def __reduce__(self) -> Any:
        return list, (self.stages,)


class _Pickling(threading.local):
    def __init__(self) -> None:
        self.under_way: WeakSet[_Above] = WeakSet()


_here = _Pickling()


def sources_first(pipe: Pipe, reduced: tuple[Any, ...], usual: Callable[[Pipe], bool]) -> Any:
    """Reduce a pipe, given Python's own reduction; ``usual``: whether a pipe is pickled with its attributes."""
    if not usual(pipe) or any(id(pipe) in above.ids for above in _here.under_way):
        return reduced
    stages = walk(pipe, inputs=lambda stage: parents(stage) if usual(stage) else [])
    if len(stages) <= _SHALLOW:
        return reduced
    above = _Above(stages[:-1])
    _here.under_way.add(above)
    make, arguments, *rest = reduced
    return _after, (above, make, arguments), *rest


def _after(above: object, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Make a pipe after the stages above it, which have been unpickled by now."""
    return make(*arguments)
