"""Graphs of pipes: walk, rewrite, unfold. Pure functions: none changes a pipe.

What a single stage holds is said in ``datapipes.description.parents``, whose functions are to be had here as well.
Every walk is a loop over a graph's distinct pipes: as long as the graph is large, whatever its depth, and however many
paths lead to one stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from datapipes.description.parents import (
    DataPipe,
    Pipe,
    attributes,
    fill,
    is_hub_class,
    is_native,
    is_native_class,
    is_pipe,
    is_replaced,
    is_stream,
    is_stream_class,
    occurrences,
    parents,
    pipes_in,
    set_attribute,
    with_parents,
)
from datapipes.errors import GraphError

__all__ = [
    "NO_CELL",
    "DataPipe",
    "Pipe",
    "attributes",
    "fill",
    "has_hubs",
    "hub_of",
    "is_hub",
    "is_native",
    "is_pipe",
    "is_replaced",
    "is_stream",
    "occurrences",
    "parents",
    "pipes_in",
    "place_of",
    "rewrite",
    "set_attribute",
    "unfold",
    "walk",
    "walk_by",
    "with_parents",
]

NO_CELL = -1
"""The place of stages that keep no position, which sessions add to a graph and no state knows of."""

MOST_POSITIONS = 200_000
"""The most stages that one opening may have; a diamond of plain pipes doubles them at every level."""


def walk(*ends: Pipe) -> list[Pipe]:
    """Every stage of a graph once, each after its parents; the graph's end comes last. Of several graphs, likewise.

    >>> from datapipes.iter import IterableWrapper
    >>> walk(IterableWrapper([1]).batch(2))
    [IterableWrapper([1]), IterableWrapper([1]).batch(2)]
    """
    return walk_by(occurrences, *ends)


def walk_by(inputs: Callable[[Pipe], list[Pipe]], *ends: Pipe) -> list[Pipe]:
    """Walk a graph by a function that gives the stages above each, instead of by parents."""
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
    reads: dict[int, list[Pipe]] = {}

    def read(stage: Pipe) -> list[Pipe]:
        # An operator reads each occurrence by itself; a user's class, each distinct pipe.
        reads[id(stage)] = occurrences(stage) if is_native_class(type(stage)) else parents(stage)
        return reads[id(stage)]

    stages = walk_by(read, pipe)
    owned = _owned_hubs(stages)
    _needs_finite(stages, reads)
    shared: dict[int, list[tuple[Pipe, set[object]]]] = {}  # the copies of what is shared, each with its readers
    taken: set[int] = set()
    made_in_order: list[Pipe] = []
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
            made_in_order.append(new)
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
    for stage in made_in_order:
        if "_place" not in stage.__dict__:
            stage.__dict__["_place"] = number
            number += 1
    return new


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
