"""Graphs of pipes: the attributes and inputs of a stage; walk, rewrite, unfold.

The inputs of a pipe are the pipes in its attributes, or in lists, tuples, sets, dicts and deques that are its
attributes. An operator declares these attributes (``pipe.operator``). All attributes of a user's class are searched.
Only ``fill`` and ``set_attribute`` change a pipe, and only the one that they are given.

Every walk is a loop over a graph's distinct pipes: its time depends on their number, not on the depth or the paths.

A deep graph is pickled and copied sources first. Python pickles an object inside its holder, so a chain of pipes would
nest as deep as it is long. Therefore the first pipe to be pickled lists all stages above it, sources first, and every
stage holds only objects that have been pickled before. Apart from that, pickling is Python's own: each stage is pickled
once, by its own ``__getstate__`` if it has one, and shared objects stay shared.
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
"""The same, for code that handles all four classes: they have no base class of their own in common."""

R = TypeVar("R")

_OPERATORS_OF_HUBS = {"fork": "Forker", "demux": "Demultiplexer"}

NO_CELL = -1
"""The place of stages that keep no position. Sessions add them to a graph, and no state contains them."""

MOST_POSITIONS = 200_000
"""The most stages of one opening. A diamond of plain pipes doubles them at every level."""

_LOOKED_AT = 1000
"""Limit on the values of a collection that are searched. A collection without a pipe among its first values is data."""

_SHALLOW = 100
"""The largest number of stages of a graph that is pickled in Python's own order."""


def of_class(ask: Callable[[type], R]) -> Callable[[type], R]:
    """Cache a question about classes: isinstance() is slow for pipes, whose classes are abstract base classes."""
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
    return is_native_class(cls) and cls._rewritten_for_run is not IterDataPipe._rewritten_for_run  # type: ignore[attr-defined]  # it has one


@of_class
def draws_by_number_class(cls: type) -> bool:
    return bool(getattr(cls, "_draws_by_number", False))


@of_class
def _is_collection_class(cls: type) -> bool:
    return issubclass(cls, list | tuple | set | frozenset | dict | deque)


@of_class
def _declared(cls: type) -> tuple[str, ...] | None:
    """Return the attributes that a class itself declares to hold its inputs. Its subclasses may hold other ones."""
    names: tuple[str, ...] | None = vars(cls).get("_parents")
    return names


@of_class
def _data(cls: type) -> frozenset[str]:
    """Return the fields of the operator from which a class derives, without those that hold inputs."""
    for base in cls.__mro__:
        if (names := _declared(base)) is not None:
            return frozenset(getattr(base, "__dataclass_fields__", ())).difference(names)
    return frozenset()


@of_class
def _single_parents(cls: type) -> tuple[str, ...]:
    """Return the fields of an operator that hold one pipe each."""
    known = getattr(cls, "__dataclass_fields__", {})
    return tuple(name for name in _declared(cls) or () if name in known and kind_of(known[name].type) is not None)


def needs_parents(stage: Pipe) -> None:
    """Raise GraphError if an operator holds another value in place of a pipe. Its constructor does not check it."""
    for name in _single_parents(type(stage)):
        given = vars(stage)[name]
        if given is not None and not is_pipe(given):  # None where a part of a graph was cut off
            raise GraphError(
                f"{class_name(stage)}({name}=...) expects a pipe, got {type(given).__name__}: {given!r:.80}; wrap a "
                "list, or another iterable, in IterableWrapper(...)"
            )


@of_class
def _slots_of_class(cls: type) -> tuple[str, ...]:
    declared = (vars(base).get("__slots__", ()) for base in cls.__mro__)
    names = chain.from_iterable((slots,) if isinstance(slots, str) else slots for slots in declared)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def is_pipe(value: object) -> bool:
    """Return whether a value is a stage of a graph, ours or torch's."""
    return is_pipe_class(type(value))


def is_native(pipe: Pipe) -> bool:
    """Return whether a stage is an operator of this library, not a class with an ``__iter__`` of its own."""
    return is_native_class(type(pipe))


def is_fixed(pipe: Pipe) -> bool:
    """Return whether a stage is an operator that sets nothing on itself, and whose inputs only its attributes change.

    Return False for a class that is derived from an operator, and for an operator that holds inputs in a list or dict.
    """
    names = _declared(type(pipe)) if is_native_class(type(pipe)) else None
    return names is not None and not any(
        isinstance(pipe.__dict__.get(name), list | dict | set | deque) for name in names
    )


def is_replaced(pipe: Pipe) -> bool:
    """Return whether a stage is an operator that may become another one in a run."""
    return is_replaced_class(type(pipe))


def draws_by_number(pipe: Pipe) -> bool:
    """Return whether a stage is an operator that draws random numbers for each element, by the element's number."""
    return draws_by_number_class(type(pipe))


def is_stream(pipe: Pipe) -> bool:
    """Return whether a pipe has a position (map-style pipes have none)."""
    return is_stream_class(type(pipe))


def attributes(pipe: Pipe) -> dict[str, Any]:
    """Return the attributes of a pipe, or of any other object, by name, with slots."""
    held: dict[str, Any] = getattr(pipe, "__dict__", {})
    slots = _slots_of_class(type(pipe))
    return {**held, **{name: getattr(pipe, name) for name in slots if hasattr(pipe, name)}} if slots else held


def occurrences(pipe: Pipe) -> list[Pipe]:
    """Return the pipes that a stage holds, in order. A pipe that is held several times occurs several times."""
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
    """Return the attributes that may hold inputs, for a class that declares none."""
    data = _data(type(pipe))
    return [name for name in attributes(pipe) if name not in data]


def pipes_in(value: object) -> Iterator[Pipe]:
    """Yield a pipe itself, or the pipes in a collection, in order."""
    if is_pipe(value):
        yield value
    elif _is_collection_class(type(value)) and _holds_pipes(value):
        for item in _items(value):
            yield from pipes_in(item)


def _items(collection: Any) -> Iterator[Any]:
    return chain(collection, collection.values()) if isinstance(collection, dict) else iter(collection)


def _holds_pipes(collection: object) -> bool:
    """Return whether a pipe is among the first values of a collection. Collections inside it are searched last."""
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
    """Return the distinct inputs of a stage, in the order of its attributes.

    >>> from datapipes.iter import IterableWrapper
    >>> source = IterableWrapper([1])
    >>> parents(source.zip(source)) == [source]
    True
    """
    found = occurrences(pipe)
    return found if len(found) < 2 else list({id(p): p for p in found}.values())


def with_parents(pipe: Pipe, swap: Callable[[Pipe], Pipe]) -> Pipe:
    """Return a copy of one stage in which ``swap`` has replaced each input."""
    new = object.__new__(type(pipe))
    fill(new, pipe, swap)
    return new


def fill(target: Pipe, pipe: Pipe, swap: Callable[[Pipe], Pipe]) -> None:
    """Copy the attributes of a pipe to ``target``, a pipe of its class, with each input replaced by ``swap``."""
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
    """Set an attribute or a slot without calling the class's own ``__setattr__``."""
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
    """Copy a collection with other items, and with all other attributes of its class."""
    new = copy.copy(collection)
    new.clear()
    (new.update if isinstance(new, dict) else new.extend)(items)
    return new


def walk(*ends: Pipe, inputs: Callable[[Pipe], list[Pipe]] = occurrences) -> list[Pipe]:
    """Return every stage of one or several graphs once, each after its inputs. The end of a graph comes last.

    Args:
        ends: The last stages.
        inputs: A function that returns the stages to visit above each stage. The default: its inputs.

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


def read_by_others(stages: Iterable[Pipe], part: set[int]) -> Iterator[Pipe]:
    """Yield the stages of a part, a set of identities, that stages outside of the part read."""
    others = (stage for stage in stages if id(stage) not in part)
    return (read for stage in others for read in parents(stage) if id(read) in part)


def rewrite(pipe: Pipe, rule: Callable[[Pipe], Pipe]) -> Pipe:
    """Return a new graph in which ``rule`` has replaced each stage. Unchanged stages are shared with the old graph.

    Args:
        pipe: The last pipe of the old graph, which is not changed.
        rule: A function of one stage, whose inputs have been rewritten. It returns that stage or another one. It is
            called once for each stage.

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
    """Return a private copy of a graph in which every stage has one consumer and its own place.

    A stage that is read twice, as in ``zip(src, src)``, becomes two stages, because it has two positions. Two kinds of
    stages stay shared: the hub of the children of ``fork`` and its kin, and map-style pipes, which have no position. A
    child that is read twice also becomes two stages, and the second one gets its own hub. A stage that has a place
    keeps it. The other ones are numbered on, sources first.
    """
    return unfolded(pipe)[-1][1]


def unfolded(pipe: Pipe) -> list[tuple[Pipe, Pipe]]:
    """Return the stages of a graph, each with a copy that ``unfold`` makes of it. The end of the graph comes last."""
    reads: dict[int, list[Pipe]] = {}

    def read(stage: Pipe) -> list[Pipe]:
        # An operator reads each occurrence separately. A user's class reads each distinct pipe.
        reads[id(stage)] = occurrences(stage) if is_native_class(type(stage)) else parents(stage)
        return reads[id(stage)]

    stages = walk(pipe, inputs=read)
    owned = _owned_hubs(stages)
    _needs_finite(stages, reads)
    shared: dict[int, list[tuple[Pipe, set[object]]]] = {}  # the copies of shared stages, each with its readers
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
                    shared.pop(id(hub), None)  # it belongs to another copy of this stage
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


def copied(pipe: Pipe) -> list[tuple[Pipe, Pipe]]:
    """Return the stages of an unfolded graph, each with a copy at the same place. The end of the graph comes last."""
    new: dict[int, Pipe] = {}
    stages = walk(pipe)
    for stage in stages:
        new[id(stage)] = with_parents(stage, lambda parent: new[id(parent)])
    return [(stage, new[id(stage)]) for stage in stages]


def _owned_hubs(stages: list[Pipe]) -> dict[int, list[Pipe]]:
    """Return, for each stage, the hubs that all readers read through it, and through no stage nearer to them.

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
    """Raise GraphError for a graph that is endless, or too large when it is unfolded."""
    is_tree = sum(map(len, reads.values())) < len(stages)
    total = len(stages) if is_tree else _positions(stages, reads)
    if total > MOST_POSITIONS:
        raise GraphError(
            f"this graph has {total} positions ({MOST_POSITIONS} at most), because its stages are read along many "
            f"paths; share a stage that is read twice with fork(): {stages[-1]!r:.200}"
        )


def _positions(stages: list[Pipe], reads: dict[int, list[Pipe]]) -> int:
    """Return the number of stages after unfolding, by counting the readers of each."""
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
    """Return the identity of a stage as a reader of a hub, which serves each child once. None: it reads no hub."""
    held = consumer.__dict__
    if "instance_id" in held and held.get("main_datapipe") is pipe:
        return "child", held["instance_id"]
    return ("other", id(consumer)) if is_hub_class(type(pipe)) else None


def _above_itself(pipe: Pipe) -> GraphError:
    return GraphError(f"this graph has no source, because one of its stages is above itself: {pipe!r:.200}")


def is_hub(pipe: Pipe) -> bool:
    """Return whether a stage is an operator that several children read: the hub of fork and its kin."""
    return is_hub_class(type(pipe))


def class_name(pipe: Pipe) -> str:
    """Return the name of a stage's class, or of the operator that makes it, if that is a hub of its own class."""
    cls = type(pipe)
    return _OPERATORS_OF_HUBS.get(cls._fluent, cls.__qualname__) if is_hub_class(cls) else cls.__qualname__


def has_hubs(stages: Iterable[Pipe]) -> bool:
    """Return whether there is a hub among some stages."""
    return any(map(is_hub_class, map(type, stages)))


def hub_of(pipe: Pipe) -> Pipe | None:
    """Return the hub that a child of fork, demux or unzip, ours or torch's, shares with its siblings, or None."""
    return vars(pipe).get("main_datapipe") if "instance_id" in vars(pipe) else None


def _copy(pipe: Pipe, read: list[Pipe], made: list[Pipe]) -> Pipe:
    if is_native_class(type(pipe)):
        each = iter(made)
        return with_parents(pipe, lambda _: next(each))
    by_identity = {id(old): new for old, new in zip(read, made, strict=True)}
    return with_parents(pipe, lambda parent: by_identity[id(parent)])


def place_of(pipe: Pipe) -> int:
    """Return the place of a stage: its number in an unfolded graph."""
    return int(pipe.__dict__["_place"])


class _PickledFirst:
    """The stages above the first pipe to be pickled. It lives as long as the pickler."""

    def __init__(self, stages: list[Pipe]) -> None:
        self.stages = stages
        self.ids = set(map(id, stages))

    def __reduce__(self) -> Any:
        return list, (self.stages,)


class _Pickling(threading.local):
    def __init__(self) -> None:
        self.under_way: WeakSet[_PickledFirst] = WeakSet()


_here = _Pickling()


def sources_first(pipe: Pipe, reduced: tuple[Any, ...], usual: Callable[[Pipe], bool]) -> Any:
    """Extend Python's own reduction of a pipe. ``usual`` returns whether a pipe is pickled with its attributes."""
    if not usual(pipe) or any(id(pipe) in above.ids for above in _here.under_way):
        return reduced
    stages = walk(pipe, inputs=lambda stage: parents(stage) if usual(stage) else [])
    if len(stages) <= _SHALLOW:
        return reduced
    above = _PickledFirst(stages[:-1])
    _here.under_way.add(above)
    make, arguments, *rest = reduced
    return _after, (above, make, arguments), *rest


def _after(above: object, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Make a pipe after the stages above it, which have been unpickled before."""
    return make(*arguments)
