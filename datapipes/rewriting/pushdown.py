"""Pushdown: a shard makes only its own elements, and they are those of the plain definition, in the same order.

``sharding_filter`` is defined as every n-th element of the stream above it. Read as written, each of n shards makes the
whole of that stream. So a session with several shards rewrites its private copy of the graph
(``_rewritten_for_run``), by the rules of ``pushed``. Operators take part through ``_positions``, ``_is_free``,
``_shuffles`` and ``_commutes``. ``skip`` is rewritten by the same rules, also in a run with one shard: its shard is the
positions after the first ones.

Stages keep their places, and with them their seeds and cells. Positions take the place of the stream that they replace.
A shuffle stays above the filter, where all shards share its seed. An element that raises keeps its position: only its
own shard sees the error. The length of a stream that is read by position is fixed when it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from datapipes.description import structure
from datapipes.description.indexed import Indexed, indexed, only_source, range_of
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import Pipe
from datapipes.errors import StateError
from datapipes.operator_support.checks import source_length
from datapipes.position.cells import CountCell
from datapipes.position.on_error import may_leave_out
from datapipes.position.opening import Opening
from datapipes.position.steps import Step
from datapipes.position.user_classes import is_sharding
from datapipes.rewriting.gathering import RowStream, rows_of

T_co = TypeVar("T_co", covariant=True)


def pushed(shard: Pipe) -> Pipe:
    """Push down a sharding filter: move the stages that commute below it, and read streams by position.

    1. **The filter and a one-to-one stage commute**: every n-th of ``f`` of all is ``f`` of every n-th. One-to-one
       are stages with a ``"map"`` step, such as ``map``, ``collate`` and ``open_files``, and stages that hand on their
       input unchanged (``_commutes``), such as ``prefetch``.
    2. **A stream that can be read by position is read at the positions of the shard.** It equals the stream of
       positions 0, 1, 2 ... with a one-to-one stage below, the ``ReadAt``. By rule 1, the filter goes in between.
       ``datapipes.description.indexed`` says which streams can be read by position.
    3. **A shuffle and a one-to-one stage commute** above such a stream: the order does not depend on the elements. The
       shuffle then orders positions, and the elements are made below the filter.
    4. **The shuffle of a map-style pipe is the shuffle of its positions**, and is read in the same way.
    5. **Every n-th number of a range is a range.** If the source gives the numbers of a range, as ``Positions`` do, the
       filter takes a slice of it in the place of the source. The source is not opened.

    Every other stage stops the rewriting, because its elements depend on earlier ones or on their number: ``filter``,
    ``flatmap``, ``batch``, forks, users' classes, and stages that may leave elements out (``on_error``).

    >>> from datapipes.iter import IterableWrapper
    >>> graph = structure.unfold(IterableWrapper("ab").map(str.upper).sharding_filter())
    >>> pushed(graph)
    IterableWrapper('ab').sharding_filter().map(str.upper)
    """
    one_to_one: list[Pipe] = []
    shuffles: list[Pipe] = []
    above_shuffles = 0
    top = shard.source_datapipe
    while True:
        top = _as_written(top)
        if _is_shuffle(top):
            shuffles.append(top)
        elif _is_one_to_one(top):
            one_to_one.append(top)
            above_shuffles += bool(shuffles)
        else:
            break
        top = only_source(top)
    positions, read = _shuffled_rows(top) or _positions(top)
    source: Pipe = positions
    if positions is None:
        source, shuffles = [*shuffles, top][0], []
        del one_to_one[len(one_to_one) - above_shuffles :]
    for shuffle in reversed(shuffles):
        source = _put(shuffle, source)
    new = _put(shard, source)
    if source is positions and range_of(source) is not None:
        new.__dict__.update(_place=structure.place_of(source), _of_range=True)
    if read is not None:
        new = ReadAt(new, read)
    for stage in reversed(one_to_one):
        new = _put(stage, new)
    return new


def permuting(shuffle: Pipe, more_than: int) -> Pipe | None:
    """Make a shuffle permute all of its source, and put the one-to-one stages above it below it.

    The shuffle then draws positions, and the elements are made when they are handed on, also in a run with one shard.
    Return None unless the source can be read by position and has a known length above ``more_than``.

    >>> from datapipes.iter import IterableWrapper
    >>> permuting(structure.unfold(IterableWrapper(range(9)).map(str).shuffle()), more_than=5)
    IterableWrapper(range(0, 9)).shuffle().map(str)
    """
    one_to_one: list[Pipe] = []
    top = only_source(shuffle)
    while _is_one_to_one(top):
        one_to_one.append(top)
        top = only_source(top)
    length = indexed(top).known_length if _is_by_position(top) else None  # type: ignore[union-attr]  # it has access
    if length is None or length <= more_than:
        return None
    source, read = _positions(top)
    new = _put(shuffle, source)
    new.__dict__["_permutes"] = True
    if read is not None:
        new = ReadAt(new, read)
    for stage in reversed(one_to_one):
        new = _put(stage, new)
    return new


def _is_shuffle(stage: Pipe) -> bool:
    return structure.is_native(stage) and bool(stage._shuffles)


def _shuffled_rows(stage: Pipe) -> tuple[Pipe, Pipe] | None:
    """Return the positions of a source that draws its own order, and the rows in which they are positions."""
    if only_source(stage) is not None or indexed(stage) is not None:
        return None
    found = rows_of(stage)
    return None if found is None else (found.positions, found.rows)


def _as_written(stage: Pipe) -> Pipe:
    """Return the shuffle of elements if a stage reads at shuffled positions, else the stage itself."""
    is_rewritten = type(stage) is ReadAt and _is_shuffle(stage.datapipe)
    return _put(stage.datapipe, stage.read) if is_rewritten else stage


def _is_one_to_one(stage: Pipe) -> bool:
    """Return whether a stage makes one element of each, or raises. Retries of an element do not matter."""
    if not structure.is_native(stage) or may_leave_out(stage) or only_source(stage) is None:
        return False
    step = stage._step()
    return bool(stage._commutes if step is None else step.kind == "map")


def _put(stage: Pipe, source: Pipe) -> Pipe:
    """Return a copy of a stage that reads another stream."""
    return structure.with_parents(stage, lambda parent: source if structure.is_stream(parent) else parent)


def _positions(pipe: Pipe) -> tuple[Pipe | None, Pipe | None]:
    """Return the replacement for a stream while it is shuffled, and the stream to read at the remaining positions.

    If reading costs nothing, the stream is its own replacement. Return (None, None) if it cannot be read by position.
    """
    if not _is_by_position(pipe):
        return None, None
    return (Positions(pipe), pipe) if _costs(pipe) else (pipe, None)


def _is_by_position(pipe: Pipe) -> bool:
    """Return whether a stream can be read by position without losing anything.

    Two things would be lost: the thread of a stage that runs ahead, and the shard for which a shuffle between two
    filters is seeded.
    """
    if indexed(pipe) is None:
        return False
    return not any(stage._prefetches or is_sharding(stage) for stage in _streams(pipe))


def _streams(pipe: Pipe) -> list[Pipe]:
    """Return a stage and the streams above it, without map-style pipes."""
    return structure.walk(pipe, inputs=lambda stage: list(filter(structure.is_stream, structure.parents(stage))))


def _costs(pipe: Pipe) -> bool:
    """Return whether reading an element of a stream calls or copies anything."""
    for stage in _streams(pipe):
        is_source = not any(map(structure.is_stream, structure.parents(stage)))
        makes_elements = stage._step() is not None or stage._draws_by_number
        if makes_elements or (is_source and not stage._is_free()):
            return True
    return False


class Selecting(IterDataPipe[T_co]):
    """Base of stages that hand on the elements at some positions of their source: those of a slice."""

    _passes_through: ClassVar[bool] = True
    _of_range: bool = False  # whether this, the copy of a session, is in the place of its source and slices its range

    source_datapipe: IterDataPipe[T_co]

    def _slice(self) -> slice:
        """Return the positions in the source, for any length."""
        raise NotImplementedError

    def _reads(self) -> Iterable[Any]:
        return () if self._of_range else super()._reads()

    def _positions(self) -> RowStream | None:
        above = rows_of(self.source_datapipe)
        return None if above is None else above.below(self)

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        if source is None:
            return None
        part, at = self._slice(), source.at
        positions = range(source.length)[part]
        numbers = None if source.numbers is None else source.numbers[part]
        return Indexed(len(positions), lambda i: at(positions[i]), numbers)

    def __len__(self) -> int:
        return len(range(source_length(self, self.source_datapipe))[self._slice()])


@operator
class Positions(IterDataPipe[int]):
    """0, 1, 2 ..., the positions of a stream that can be read by position, in the place of that stream."""

    _stands_for: ClassVar[str | None] = "read"

    read: Pipe

    def __post_init__(self) -> None:
        self.__dict__["_place"] = structure.place_of(self.read)

    def numbers(self) -> range:
        """Return the range of all positions."""
        found = indexed(self.read)
        return range(0 if found is None else found.length)

    def _open(self, at: Opening) -> Iterator[int]:
        given = at.cell(CountCell)
        given.origin = self._origin
        return given.following(self.numbers())

    def _indexed(self) -> Indexed:
        numbers = self.numbers()
        return Indexed(len(numbers), int, numbers)

    def _origin(self, i: int) -> tuple[object, Any]:
        origin: tuple[object, Any] = self.read._origin(i)
        return origin

    def _is_free(self) -> bool:
        return True


@operator
class ReadAt(IterDataPipe[Any]):
    """Elements of one stream at the positions that another stream gives."""

    _stands_for: ClassVar[str | None] = "read"

    datapipe: IterDataPipe[Any]
    read: Pipe

    def __post_init__(self) -> None:
        self.__dict__["_place"] = structure.NO_CELL

    def _positions(self) -> RowStream | None:
        rows = rows_of(self.read)
        return None if rows is None else rows._replace(positions=self.datapipe)

    def _read_by_position(self) -> Pipe:
        return self.read

    def _step(self) -> Step:
        found = indexed(self.read)
        if found is None:
            raise StateError(f"{self.read!r:.80} could be read by position before, and now it cannot")
        return Step("map", found.at)
