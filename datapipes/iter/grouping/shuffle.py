"""shuffle, in_batch_shuffle: a random order of all elements, within a buffer, or within each batch.

A shuffle without ``buffer_size`` permutes all of a source that can be read by position and has more than 10,000
elements (``pushdown.permuting``). The position is a count in a ``Permutation``, which is computed while it is read. A
listing of files is read to its end first; a state has a digest of its paths, and a resume lists the files again.

Otherwise there is a buffer. Once it is full, each element replaces one drawn at random, which is handed on; at the end
the buffer is handed on in a random order. A block of draws is a pure function of the stage's seed and the block's
number, so the position of the draws is their count. The order of a batch is a function of the seed and its number.

If the source can be read by position, a state has only the count: a resume reads the buffer's elements again. Otherwise
a state has the elements. This also holds in a worker whose functions draw from global generators, because these would
give other numbers. Below a map-style pipe the buffer has numbers and no rows: a row is read when it is handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from operator import length_hint
from types import BuiltinMethodType, MethodWrapperType
from typing import Any, ClassVar, TypeVar

import torch

from datapipes.description import structure
from datapipes.description.indexed import Indexed, indexed, reread
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.chunk import DataChunk
from datapipes.errors import StateError, consumes_element
from datapipes.iter.grouping.batch import UnBatcher
from datapipes.operator_support.checks import needs_count, same_length
from datapipes.operator_support.random_order import DrawBlocks, Permutation, Shuffling
from datapipes.position import global_draws
from datapipes.position.cells import Cell, Completion, CountCell, Table, count, fields
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run, derive
from datapipes.rewriting.gathering import RowStream, rows_of
from datapipes.rewriting.pushdown import Positions, ReadAt, permuting

T_co = TypeVar("T_co", covariant=True)

_BLOCK = 4096


class DefaultSize(int):
    """``buffer_size`` that the user has not given. It is an int, as in torch; a given 10,000 is not an instance."""


_DEFAULT = DefaultSize(10_000)


@operator
class Shuffler(Shuffling, IterDataPipe[T_co]):
    """The elements in a random order: of all of them, or within a buffer.

    Without ``buffer_size``, all of a source that can be read by position is permuted: a list, a map-style pipe, a
    listing of files, and stages that make one element of each of theirs. No elements are kept for that. Any other
    source is shuffled in a buffer of 10,000.

    ``set_shuffle(False)`` keeps the order. Each epoch has an order of its own, which follows from the loader's seed.

    Args:
        buffer_size: Number of elements in a buffer, which is then used for any source. One as large as the stream
            shuffles all of it. A smaller one needs less memory, gives its first element earlier, and moves elements
            less far. Default: see above.
        unbatch_level: Number of levels of batches to unpack first, as ``unbatch`` does; -1 for all of them.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(5)).shuffle()
    >>> sorted(dp), list(dp.set_seed(1)) == list(dp.set_seed(1))
    ([0, 1, 2, 3, 4], True)
    """

    _fluent: ClassVar[str | None] = "shuffle"
    _passes_through: ClassVar[bool] = True
    _shuffles: ClassVar[bool] = True
    _permutes: ClassVar[bool] = False  # whether this copy, made for a session, permutes all of its source

    datapipe: IterDataPipe[T_co]

    def __init__(self, datapipe: IterDataPipe[Any], *, buffer_size: int = _DEFAULT, unbatch_level: int = 0) -> None:
        self.datapipe = datapipe if unbatch_level == 0 else UnBatcher(datapipe, unbatch_level)
        self.buffer_size = buffer_size
        if not isinstance(buffer_size, DefaultSize):
            needs_count(self, "buffer_size", 1, "buffer_size should be larger than 0")

    def _reads(self) -> Iterable[Any]:
        return () if self._permutes else super()._reads()

    def _read_by_position(self) -> IterDataPipe[Any] | None:
        return self.datapipe if self._permutes else None

    def _open(self, at: Opening) -> Iterator[T_co]:
        if self._permutes:
            return self._permuted(at.seed(self._seed), at.cell(CountCell))
        source = at.source(self.datapipe)
        if not self._enabled:
            return source
        seed = at.seed(self._seed)
        above = at.above() if self._may_permute(at.run) and _lists(self.datapipe) else None
        if above is not None:
            start = above.at_start()
            return self._listed(source, seed, at.cell(lambda: _ListingCell(start)))
        cell = at.cell(lambda: _ShuffleCell(self, seed))
        if at.resumed:
            cell.keep_elements()
        return self._shuffled(source, cell)

    def _shuffled(self, source: Iterator[T_co], cell: _ShuffleCell) -> Iterator[T_co]:
        buffer = cell.elements()
        if not cell.emptying:
            buffer.extend(islice(source, self.buffer_size - len(buffer)))
            more = True
            while more:
                slots = cell.slots()
                left, more = length_hint(slots), False
                # zip takes from the source first: an exception there leaves no slot drawn without an element. islice
                # takes no more elements than there are slots, because drawing further slots may be interrupted.
                for element, slot in zip(islice(source, left), slots, strict=False):
                    drawn = buffer[slot]
                    buffer[slot] = element
                    yield drawn
                more = not length_hint(slots)
            cell.begin_emptying()
        while buffer:
            drawn = buffer[-1]
            del buffer[-1]  # without a call: no signal can arrive in between
            yield drawn

    def _permuted(self, seed: int, given: CountCell) -> Iterator[Any]:
        source, stream = indexed(self.datapipe), self.datapipe
        if source is None:
            raise StateError(f"{stream!r:.80} could be read by position, and no longer can")
        order = Permutation(source.length, seed)
        origin = stream.read._origin if isinstance(stream, Positions) else stream._origin
        given.origin = lambda i: origin(order[i])
        numbers = source.numbers
        if numbers is not None and all(-(2**63) <= end < 2**63 for end in (numbers[0], numbers[-1])):
            return given.following(order.of(numbers))
        if isinstance(source.at, BuiltinMethodType | MethodWrapperType):  # no signal can arrive within it
            return map(source.at, given.following(order))
        return self._read(source.at, given.following(order), given)

    def _read(self, at: Callable[[int], Any], numbers: Iterator[int], given: CountCell) -> Iterator[Any]:
        for number in numbers:
            try:
                made = at(number)
            except BaseException as error:
                given.take_again(error)
                raise
            yield made
            made = None  # dropped before the next one is made

    def _listed(self, source: Iterator[T_co], seed: int, cell: _ListingCell) -> Iterator[T_co]:
        paths = cell.listed(source)
        size = len(paths)
        order: Sequence[int] = (
            Permutation(size, seed) if size > self.buffer_size else _last_order(seed, size).flip(0).tolist()
        )
        yield from map(paths.__getitem__, cell.given.following(order))

    def _may_permute(self, run: Run) -> bool:
        """Return whether this shuffle permutes all of its source, if the source allows it."""
        return self._enabled and isinstance(self.buffer_size, DefaultSize) and not run.buffered

    def _rewritten_for_run(self, run: Run) -> IterDataPipe[Any]:
        if self._may_permute(run) and (whole := permuting(self, self.buffer_size)) is not None:
            permuted: IterDataPipe[Any] = whole
            return permuted
        # A saved buffer already has its rows.
        rows = None if structure.place_of(self) in run.held else self._positions()
        return self if rows is None else ReadAt(rows.positions, rows.rows)

    def _positions(self) -> RowStream | None:
        above = rows_of(self.datapipe) if self._enabled else None
        return None if above is None or above.rows is not self.datapipe else above.below(self)

    def _indexed(self) -> Indexed | None:
        return None if self._enabled else indexed(self.datapipe)

    __len__ = same_length


def _lists(pipe: Any) -> bool:
    return structure.is_native(pipe) and bool(pipe._lists)


def _last_order(seed: int, length: int) -> torch.Tensor:
    """Return the order in which a buffer is handed on at the end, beginning with the last."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(derive(seed, "last")))


class _ListingCell(Cell):
    """Paths of a listing, and the number handed on. A resume lists the files again, unless listing raised an error."""

    carries = True

    def __init__(self, start: Table) -> None:
        self._start = start  # the table above before the listing
        self._paths: list[Any] = []
        self._is_whole = False
        self._keeps_paths = False
        self._names: str | None = None  # a digest of all paths
        self.given = CountCell()

    def listed(self, source: Iterator[Any]) -> list[Any]:
        """Return all paths, in the order of the listing."""
        try:
            self._paths.extend(source)
        except BaseException:
            self._keeps_paths = True  # listing again would meet the error again
            raise
        self._is_whole = True
        if self._names is not None and self._names != self._digest():
            raise StateError(
                f"{self.label}: the listed files are not those of the saved state, so that some would be "
                "missed and others repeated: restore the files, begin the epoch again without the state, or "
                "list the files once and give the list to IterableWrapper"
            )
        return self._paths

    def _digest(self) -> str:
        text = "\0".join(map(str, self._paths))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def done(self) -> int:
        return self.given.given()

    def part(self) -> Completion | None:
        return (self.done(), len(self._paths)) if self._is_whole else None

    def carried(self) -> Table | None:
        return None if self._keeps_paths else self._start

    def save(self) -> dict[str, Any]:
        if self._keeps_paths:
            return {"given": self.done(), "paths": self.encode(self._paths)}
        if self._is_whole and self._names is None:
            self._names = self._digest()
        return {"given": self.done(), "names": self._names}

    def load(self, saved: Any) -> None:
        self._keeps_paths = isinstance(saved, dict) and "paths" in saved
        given, data = fields(saved, "given", "paths" if self._keeps_paths else "names")
        self.given.load(given)
        if self._keeps_paths:
            self._paths = self.decode_list(data)
        elif data is None or type(data) is str:
            self._names = data
        else:
            raise StateError(f"names: expected a digest, found {data!r:.80}")


class _ShuffleCell(Cell):
    """The buffer, the number of drawn slots, and whether the buffer is being emptied."""

    def __init__(self, pipe: Shuffler[Any], seed: int) -> None:
        self._pipe = pipe
        self._seed = seed
        self._elements: list[Any] = []
        slots = self._slots_of = partial(_slots, seed, pipe.buffer_size)
        self._draws: DrawBlocks[int] = DrawBlocks(_BLOCK, lambda block: slots(block).tolist())
        self._by_position = indexed(pipe.datapipe) is not None
        self._of_positions = type(pipe.datapipe) is Positions
        self._may_draw = not self._of_positions and any(map(_calls, structure.walk(pipe.datapipe)))
        self._taken_in_all = 0
        self._loaded: dict[str, Any] | None = None  # a position whose elements were not read again yet
        self.emptying = False

    def elements(self) -> list[Any]:
        """Return the buffer. The first call after loading a position reads its elements again."""
        if self._loaded is not None:
            taken, left = self._loaded["taken"], self._loaded["left"]
            positions = self._positions(taken)[:left]
            elements = reread(self._pipe.datapipe, positions)
            if elements is None:
                raise StateError(
                    f"{self.label}: saved when the source could be read by position, which this source cannot"
                )
            self._elements, self._loaded = elements, None
        return self._elements

    def holds(self) -> int:
        return len(self._elements)

    def keep_elements(self) -> None:
        """Stop relying on counts: after an exception, an element may be missing from them."""
        self._by_position = False

    def slots(self) -> Iterator[int]:
        """Return the next slots to draw, of one block."""
        return self._draws.block()

    def begin_emptying(self) -> None:
        """Put the buffer into the order in which it is handed on, last one first: the source has ended."""
        elements = self._elements
        taken = len(elements) + self._draws.count
        in_order = list(map(elements.__getitem__, _last_order(self._seed, len(elements)).tolist()))
        elements[:] = in_order  # from here on without a call
        self._taken_in_all = taken
        self.emptying = True

    def _positions(self, taken: int) -> list[int]:
        """Return the numbers of the elements in the buffer after ``taken`` elements of the source.

        The draws are read backwards until each slot was drawn. The cost depends on the size of the buffer, not on
        ``taken``.
        """
        size = self._pipe.buffer_size
        inside = torch.arange(min(taken, size))
        at_once = max(1, size // _BLOCK)  # blocks between two checks of all slots
        for end in range(-(-max(taken - size, 0) // _BLOCK), 0, -at_once):
            for number in range(max(0, end - at_once), end):
                first = size + number * _BLOCK
                count_here = min(_BLOCK, taken - first)
                # An element stays in its slot until a later one replaces it: the largest number wins.
                inside.scatter_reduce_(
                    0, self._slots_of(number)[:count_here], torch.arange(first, first + count_here), reduce="amax"
                )
            if all(bool((part >= size).all()) for part in torch.split(inside, _BLOCK)):
                break
        if self.emptying:
            inside = inside[_last_order(self._seed, len(inside))]
        positions: list[int] = inside.tolist()
        return positions

    def done(self) -> int:
        return self._taken_in_all - len(self._elements) if self.emptying else self._draws.count

    def part(self) -> Completion | None:
        return (self.done(), self._taken_in_all) if self.emptying else None

    def save(self) -> dict[str, Any]:
        if self._loaded is not None:
            return self._loaded
        left = len(self._elements)
        saved: dict[str, Any] = {
            "size": int(self._pipe.buffer_size),
            "taken": self._taken_in_all if self.emptying else left + self._draws.count,
            "left": left,
            "emptying": self.emptying,
        }
        if not self._by_position or (self._may_draw and global_draws.drawn()):
            saved["positions" if self._of_positions else "elements"] = self.encode(self._elements)
        return saved

    def load(self, saved: Any) -> None:
        # For a shard, a field "elements" may have positions, too.
        kinds = ("elements", "positions") if self._of_positions else ("elements",)
        kept = [kind for kind in kinds if isinstance(saved, dict) and saved.get(kind) is not None]
        elements = saved[kept[0]] if kept else None
        names = ("size", "taken", "left", "emptying", *kept)
        size, taken, left, emptying = fields(saved, *names)[:4]
        if size != self._pipe.buffer_size:
            raise StateError(f"size: saved with buffer_size={size!r}, but it is {self._pipe.buffer_size} now")
        if type(emptying) is not bool:
            raise StateError(f"emptying: expected True or False, found {emptying!r:.80}")
        taken = count(taken, "taken")
        left = count(left, "left", most=min(size, taken))
        self.emptying = emptying
        self._taken_in_all = taken
        self._draws.go_to(max(taken - size, 0))
        if elements is not None:
            self._elements = self.decode_list(elements)
            self._by_position = False
            if len(self._elements) != left:
                raise StateError(f"left: expected {left} elements in the buffer, found {len(self._elements)}")
        elif not self._by_position:
            raise StateError("elements: missing, but the source of this stage cannot be read by position")
        else:
            source = indexed(self._pipe.datapipe)
            count(taken, "taken", most=None if source is None else source.length)
            self._loaded = saved

    def close(self) -> None:
        self._elements.clear()


def _calls(stage: structure.Pipe) -> bool:
    """Return whether a stage calls a user's code for an element: a function, or a map-style pipe."""
    is_operator = structure.is_native(stage) and structure.is_stream(stage)
    return not is_operator or stage._commutes or stage._step() is not None


def _slots(seed: int, size: int, block: int) -> torch.Tensor:
    """Return a block of slots in a buffer of this size."""
    generator = torch.Generator().manual_seed(derive(seed, block))
    return torch.randint(size, (_BLOCK,), generator=generator)


@operator
class InBatchShuffler(Shuffling, IterDataPipe[Any]):
    """Each batch, which may be any sequence, with its elements in a random order; the batches keep their order.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(6)).batch(3).in_batch_shuffle()
    >>> [sorted(batch) for batch in dp], list(dp.set_seed(1)) == list(dp.set_seed(1))
    ([[0, 1, 2], [3, 4, 5]], True)
    """

    _fluent: ClassVar[str | None] = "in_batch_shuffle"

    datapipe: IterDataPipe[Any]

    def _open(self, at: Opening) -> Iterator[Any]:
        source = at.source(self.datapipe)
        return (
            self._shuffled(source, at.seed(self._seed), at.cell(_InBatchShuffleCell), at) if self._enabled else source
        )

    def _shuffled(
        self, source: Iterator[Any], seed: int, cell: _InBatchShuffleCell, at: Opening
    ) -> Iterator[DataChunk[Any]]:
        for batch in source:
            try:
                generator = torch.Generator().manual_seed(derive(seed, cell.taken + 1))
                order = torch.randperm(len(batch), generator=generator).tolist()
                shuffled = DataChunk([batch[i] for i in order])
            except BaseException as error:
                at.keep(batch, error)
                cell.taken += consumes_element(error)
                raise
            cell.taken += 1
            yield shuffled

    __len__ = same_length


class _InBatchShuffleCell(Cell):
    """Number of batches taken."""

    def __init__(self) -> None:
        self.taken = 0

    def save(self) -> int:
        return self.taken

    def done(self) -> int:
        return self.taken

    def load(self, saved: Any) -> None:
        self.taken = count(saved)
