"""Pushdown: a shard makes only its own elements, and they are those of the plain definition, in the same order.

``sharding_filter`` is defined as every n-th element of the stream above it. Read as it is written, each of n shards
makes the whole of that stream. So a session rewrites its private copy of the graph, if there are several shards:

1. **The filter and a one-to-one stage commute**, whatever is above them: every n-th of ``f`` of all is ``f`` of every
   n-th. Such stages are ``map``, ``collate``, ``open_files`` and whatever else makes one element of one (a ``"map"``
   step), and those that hand on what they take (``_commutes``), like ``prefetch``.
2. **A stream that can be read by position is read at the positions of the shard.** It is its positions 0, 1, 2 ..., and
   below them a one-to-one stage, the ``ReadAt``; by rule 1 the filter goes in between. What can be read by position is
   said in ``datapipes.description.indexed``: sequences and map-style pipes, and zip, enumerate, header, concat, cycle
   of those.
3. **A shuffle and a one-to-one stage commute** above such a stream: how a shuffle orders elements does not depend on
   what they are. It then shuffles positions, and what is to be made of them is made below the filter.
4. **The shuffle of a map-style pipe is the shuffle of its positions**, and is read like one.
5. **Every n-th number of a range is a range**: positions that nobody has shuffled are not even counted through.

All else stops the climb from the filter upwards, because what it gives hangs on what came before or on how much there
was: ``filter``, ``flatmap``, ``batch``, forks, users' classes, and stages that may leave elements out (``on_error``).

Stages keep their places, and with them their seeds and cells; positions take the place of what they are positions of,
and a shuffle stays above the filter, where all shards share its seed. An element that raises keeps its position: it is
an error of the shard that it belongs to, whereas read as written each shard meets it. What can be read by position is
as long as it was when it was opened.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from datapipes.description import structure
from datapipes.description.indexed import indexed, only_source
from datapipes.description.pipe import IterDataPipe
from datapipes.description.structure import Pipe
from datapipes.iter.combining.zipping import Zipper
from datapipes.iter.elements.numbering import Enumerator, Header
from datapipes.iter.grouping.shuffle import Shuffler
from datapipes.iter.placement.shard import ShardingFilter
from datapipes.iter.sources.wrapper import IterableWrapper
from datapipes.map.shuffle import Shuffler as MapShuffler
from datapipes.position.on_error import may_leave_out
from datapipes.position.seeds import Run
from datapipes.rewriting.positions import Positions, ReadAt, ShuffledPositions, Slice


def push_down(end: Pipe, opened: Sequence[Pipe], run: Run) -> Pipe:
    """The same graph with its filters as near to its sources as they go.

    The graph is an unfolded one, and ``opened`` are the stages that a session opens by itself.

    >>> from datapipes.iter import IterableWrapper
    >>> graph = structure.unfold(IterableWrapper("ab").map(str.upper).sharding_filter().batch(2))
    >>> push_down(graph, structure.walk(graph), Run(seed=0, shard=(2, 0)))
    IterableWrapper('ab').sharding_filter().map(str.upper).batch(2)
    """
    filters = {structure.place_of(stage): stage for stage in opened if _is(stage, ShardingFilter)}
    for shard in filters.values():
        shard._opened_as = shard._shard(run)  # one that is read by position will never be opened
    several = {place for place, shard in filters.items() if shard._opened_as[0] > 1}

    def rule(stage: Pipe) -> Pipe:
        return _pushed(stage) if structure.place_of(stage) in several else stage

    return structure.rewrite(end, rule) if several else end


def _pushed(shard: Pipe) -> Pipe:
    """A filter with what goes below it below it, and with what it can read by position read so."""
    one_to_one: list[Pipe] = []
    shuffles: list[Pipe] = []
    above_shuffles = 0
    top = shard.source_datapipe
    while True:
        if _is(top, Shuffler):
            shuffles.append(top)
        elif _is_one_to_one(top):
            one_to_one.append(top)
            above_shuffles += bool(shuffles)
        else:
            break
        top = only_source(top)
    if shuffles or _is_shuffled_map(top):
        source, read = _positions(top)
        if source is None:
            source, shuffles = shuffles[0], []
            del one_to_one[len(one_to_one) - above_shuffles :]
        for shuffle in reversed(shuffles):
            source = _put(shuffle, source)
        new = _put(shard, source)
        if read is not None:
            new = ReadAt(new, read)
    elif _is_by_position(top) and (_costs(top) or _is_range(top)):
        new = _part(top, shard, top)
    else:
        new = _put(shard, top)
    for stage in reversed(one_to_one):
        new = _put(stage, new)
    return new


def _is(stage: Pipe, kind: type[IterDataPipe[Any]]) -> bool:
    """Whether a stage is opened as an operator is; a class derived from one may do so in its own way."""
    return structure.is_native(stage) and type(stage)._open is kind._open


def _is_shuffled_map(stage: Pipe) -> bool:
    return _is(stage, MapShuffler) and bool(stage._enabled)


def _is_one_to_one(stage: Pipe) -> bool:
    """Whether a stage makes one element of each, or raises; trying again is no matter of the other elements."""
    if not structure.is_native(stage) or may_leave_out(stage) or only_source(stage) is None:
        return False
    step = stage._step()
    return bool(stage._commutes if step is None else step.kind == "map")


def _put(stage: Pipe, source: Pipe, as_class: type | None = None) -> Pipe:
    """A copy of a stage that reads another stream."""
    new: Pipe = object.__new__(as_class or type(stage))
    structure.fill(new, stage, lambda parent: source if structure.is_stream(parent) else parent)
    return new


def _positions(pipe: Pipe) -> tuple[Pipe | None, Pipe | None]:
    """What stands for a stream while it is shuffled, and what is read afterwards, at the positions that are left.

    Where reading costs nothing, the stream stands for itself. None if it cannot be read by position.
    """
    if _is_shuffled_map(pipe):
        return _put(pipe, None, as_class=ShuffledPositions), _put(pipe, None).set_shuffle(False)
    if not _is_by_position(pipe):
        return None, None
    return (Positions(pipe), pipe) if _costs(pipe) else (pipe, None)


def _is_by_position(pipe: Pipe) -> bool:
    """Whether a stream can be read by position, and nothing is lost by it.

    The thread of a stage that runs ahead would be, and the shard that a shuffle between two filters is seeded for.
    """
    if indexed(pipe) is None:
        return False
    return not any(stage._runs_ahead or isinstance(stage, ShardingFilter) for stage in _streams(pipe))


def _streams(pipe: Pipe) -> list[Pipe]:
    """A stage and those above it that have a position, up to the map-style pipes."""
    return structure.walk_by(lambda stage: list(filter(structure.is_stream, structure.parents(stage))), pipe)


def _costs(pipe: Pipe) -> bool:
    """Whether something is called or copied for each element of a stream."""
    for stage in _streams(pipe):
        if isinstance(stage, IterableWrapper):
            if stage._copies():
                return True
        elif stage._step() is not None or not any(map(structure.is_stream, structure.parents(stage))):
            return True
    return False


def _is_range(pipe: Pipe) -> bool:
    return _is(pipe, IterableWrapper) and isinstance(pipe.iterable, range)


def _part(pipe: Pipe, shard: Pipe, whole: Pipe) -> Pipe:
    """The elements of a stream at the positions of a shard, of which there are as many as ``whole`` has elements.

    Rows are made of parts, so that numbers are counted and rows are put together by C code.
    """
    if _is_one_to_one(pipe):
        return _put(pipe, _part(only_source(pipe), shard, whole))
    if _is(pipe, Header):
        return _part(pipe.source_datapipe, shard, whole)
    if _is(pipe, Zipper):
        return structure.with_parents(pipe, lambda column: _part(column, shard, whole))
    if _is(pipe, Enumerator):
        numbers = _slice(shard, whole, structure.NO_CELL - 1 - structure.place_of(pipe))
        numbers.base = range(pipe.starting_index, pipe.starting_index + sys.maxsize)
        row = Zipper(numbers, _part(pipe.source_datapipe, shard, whole))
        row.__dict__["_place"] = structure.place_of(pipe)
        return row
    numbers = _slice(shard, whole, structure.place_of(pipe))
    if _is_range(pipe):
        numbers.base = pipe.iterable
        return numbers
    return ReadAt(numbers, pipe)


def _slice(shard: Pipe, whole: Pipe, place: int) -> Slice:
    """The positions of a shard in a stream that can be read by position."""
    new: Slice = _put(shard, whole, as_class=Slice)
    new.__dict__["_place"] = place
    return new


def readers(opened: Sequence[Pipe]) -> dict[int, Pipe]:
    """By whom a stage is read, by its place, if it is read by position and a session does not open it."""
    return {
        structure.place_of(stage): reader
        for reader in opened
        if isinstance(reader, ReadAt)
        for stage in structure.walk(reader.read)
        if structure.place_of(stage) != structure.NO_CELL
    }
