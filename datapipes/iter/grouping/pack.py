"""pack: sequences of tokens side by side in blocks of one length, with marks that separate them.

Lists become tensors through ``array``: it takes a seventh of the time of ``torch.tensor``, needs no numpy, and raises
an error for a value that the type cannot hold.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, get_args

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.description.renamed import renamed
from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.operator_support.checks import needs, needs_count
from datapipes.position.cells import Cell, fields
from datapipes.position.opening import Opening

_TOKENS = "tokens"
_OWN = ("segments", "positions")
_LISTS: Final = (list, tuple)
_TYPECODES: Final = {
    torch.int8: "b",
    torch.int16: "h",
    torch.int32: "i",
    torch.int64: "q",
    torch.uint8: "B",
    torch.uint16: "H",
    torch.uint32: "I",
    torch.uint64: "Q",
    torch.float32: "f",
    torch.float64: "d",
}

Fit: TypeAlias = Literal["greedy", "best", "cut"]
Column: TypeAlias = "torch.Tensor | list[Any]"


class Piece(NamedTuple):
    """A part of a sequence: ``size`` values of each column, from ``start`` on. It is cut out when it is used."""

    size: int
    columns: dict[str, Column]
    types: dict[str, torch.dtype | type]
    start: int = 0
    is_whole: bool = True

    def part(self, start: int, stop: int) -> Piece:
        return Piece(stop - start, self.columns, self.types, self.start + start, False)

    def values(self, name: str) -> Column:
        column = self.columns[name]
        return column if self.is_whole else column[self.start : self.start + self.size]


Block: TypeAlias = list[Piece]


@renamed(length="size")
@operator
class Packer(IterDataPipe[dict[str, Any]]):
    """Blocks of ``size`` tokens: sequences side by side, and the rest of a block filled with ``padding``.

    An element is a sequence: a list, a tuple, or a numpy array or tensor of one dimension. Or it is a dict of sequences
    of one length, such as tokens and labels, which are packed together. A block is a dict of these columns
    (``"tokens"`` for plain sequences), and of two more: ``"segments"`` counts the sequences in the block from 1, and is
    0 at the padding; ``"positions"`` counts the tokens of each sequence from 0.

    The columns are tensors, so ``pack(n).batch(b).collate()`` gives tensors of shape [b, n]. A list of ints becomes
    int64, of floats float32, and of bools bool; a list of anything else stays a list. Arrays and tensors keep their
    type. All sequences must have columns of one type; ``dtype`` gives it where lists differ, such as [0, 1] and [0.5].

    A sequence longer than a block is cut into parts of ``size`` and a rest, each a sequence of its own. Empty ones
    are dropped. The blocks that are open at the end come last, in the order in which they were begun.

    Args:
        size: The number of tokens in a block.
        fit: ``"greedy"``: a sequence that does not fit into the open block begins the next. ``"best"``: several blocks
            are open, and a sequence goes where the least room remains; if it fits nowhere, the fullest block is handed
            on. ``"cut"``: a sequence is cut to fill the block and continues in the next one as a sequence of its own,
            so that only the last block has padding.
        open_blocks: Most open blocks, for ``"best"``.
        padding: The value to fill blocks with, or a dict with one for each column.
        drop_last: Whether to leave out the blocks that are open at the end.
        dtype: The type of all columns, or a dict with one for each of some columns. A value that an integer type cannot
            hold is an error. By default, the type follows from the values.
        marks: Whether to give the columns ``"segments"`` and ``"positions"``. Without them, a block takes a third of
            the memory.

    >>> from datapipes.iter import IterableWrapper
    >>> for block in IterableWrapper([[5, 6, 7], [8, 9], [4]]).pack(4, fit="best"):
    ...     print(*(block[name].tolist() for name in ("tokens", "segments", "positions")))
    [5, 6, 7, 4] [1, 1, 1, 2] [0, 1, 2, 0]
    [8, 9, 0, 0] [1, 1, 0, 0] [0, 1, 0, 0]
    """

    _fluent: ClassVar[str | None] = "pack"

    source_datapipe: IterDataPipe[Any]
    size: int
    fit: Fit = "greedy"
    open_blocks: int = 16
    padding: int | float | Mapping[str, int | float] = 0
    drop_last: bool = False
    dtype: torch.dtype | Mapping[str, torch.dtype] | None = None
    marks: bool = True

    def __post_init__(self) -> None:
        needs_count(self, "size", 1, "A block has at least one token")
        needs_count(self, "open_blocks", 1, "At least one block is open")
        needs(self.fit in get_args(Fit), self, f'fit must be "greedy", "best" or "cut", got {self.fit!r:.60}')
        for dtype in self.dtype.values() if isinstance(self.dtype, Mapping) else [self.dtype]:
            if not isinstance(dtype, torch.dtype | None):
                raise BadArgumentType(f"dtype must be one of torch's, such as torch.int32, got {dtype!r:.60}")

    def _open(self, at: Opening) -> Iterator[dict[str, Any]]:
        return self._blocks(at, at.source(self.source_datapipe), at.cell(lambda: _PackCell(self)))

    def _blocks(self, at: Opening, source: Iterator[Any], cell: _PackCell) -> Iterator[dict[str, Any]]:
        while True:
            while cell.waiting:
                blocks, rooms, waiting = cell.blocks[:], cell.rooms[:], cell.waiting[:]
                full = self._put(blocks, rooms, waiting)
                laid_out = None if full is None else self._laid_out(full)
                cell.blocks, cell.rooms, cell.waiting = blocks, rooms, waiting  # without a call: no signal in between
                if laid_out is not None:
                    yield laid_out
                    laid_out = None
            for element in source:
                try:
                    pieces = self._pieces(element, cell.blocks)
                except BaseException as error:
                    at.keep(element, error)
                    raise
                cell.waiting = pieces
                break
            else:
                break
        while cell.blocks:
            last = None if self.drop_last else self._laid_out(cell.blocks[0])
            del cell.blocks[0], cell.rooms[0]
            if last is not None:
                yield last

    def _put(self, blocks: list[Block], rooms: list[int], waiting: list[Piece]) -> Block | None:
        """Put the first waiting piece into a block, or make room for it. Return the block to hand on, or None.

        Each open block has room for at least one token. The lists are changed, but not the objects in them.
        """
        piece = waiting[0]
        size, best = piece.size, None
        for number, room in enumerate(rooms):
            if (room >= size or self.fit == "cut") and (best is None or room < rooms[best]):
                best = number
        if best is None:
            if len(rooms) == (self.open_blocks if self.fit == "best" else 1):
                return _taken(blocks, rooms, rooms.index(min(rooms)))
            best = len(blocks)
            blocks.append([])
            rooms.append(self.size)
        room = rooms[best]
        if size > room:
            waiting[0], piece = piece.part(room, size), piece.part(0, room)
        else:
            del waiting[0]
        blocks[best] = [*blocks[best], piece]
        rooms[best] -= piece.size
        return None if rooms[best] else _taken(blocks, rooms, best)

    def _pieces(self, element: Any, blocks: list[Block]) -> list[Piece]:
        """Return a sequence in pieces of at most a block. Refuse one that cannot be packed with the others."""
        is_plain = isinstance(element, _LISTS) or not isinstance(element, Mapping)
        columns = {_TOKENS: element} if is_plain else dict(element)
        if not _is_sequence(columns) or not columns.keys().isdisjoint(_OWN):
            raise BadArgument(
                f"{stage(self)} needs sequences of tokens: a list, an array or a tensor of one dimension, or a dict of "
                f"several of one length, with no name 'segments' or 'positions'; got {element!r:.200}"
            )
        if isinstance(self.padding, Mapping) and (missing := columns.keys() - self.padding.keys()):
            raise BadArgument(f"padding lacks the columns {sorted(missing)}, in {stage(self)}")
        if not len(next(iter(columns.values()))):
            return []
        piece = self.converted(columns)
        if blocks and piece.types != (types := blocks[0][0].types):
            raise BadArgument(
                f"{stage(self)}: {piece.types} cannot be in one block with {types}; give dtype=, or make them alike "
                "before"
            )
        if self.fit == "cut" or piece.size <= self.size:
            return [piece]
        starts = range(0, piece.size, self.size)
        return [piece.part(start, min(start + self.size, piece.size)) for start in starts]

    def converted(self, columns: dict[str, Any]) -> Piece:
        """Return the columns of a sequence as tensors. A list that is not of numbers stays a list."""
        given, new = self.dtype, dict[str, Column]()
        types: dict[str, torch.dtype | type] = {}
        for name, column in columns.items():
            try:
                dtype = given if given is None or isinstance(given, torch.dtype) else given.get(name)
                new[name] = values = _column(column, dtype)
            except (TypeError, OverflowError) as error:
                raise BadArgument(f"{stage(self)}: {error}; got {column!r:.200}") from error
            types[name] = list if isinstance(values, list) else values.dtype
        return Piece(len(column), new, types)

    def _laid_out(self, block: Block) -> dict[str, Any]:
        """Return a block as new columns."""
        rest = self.size
        for piece in block:
            rest -= piece.size
        laid: dict[str, Any] = {}
        for name in block[0].columns:
            columns = [piece.values(name) for piece in block]
            if rest:
                padding = self.padding[name] if isinstance(self.padding, Mapping) else self.padding
                columns.append(_filled(columns[0], rest, padding))
            laid[name] = _joined(columns)
        if self.marks:
            laid |= self._marks(block, rest)
        return laid

    def _marks(self, block: Block, rest: int) -> dict[str, torch.Tensor]:
        """Return the numbers of the sequences in a block, and of the tokens in each sequence."""
        segments, positions, counted = array("q"), array("q"), _counted(self.size)
        for number, piece in enumerate(block, 1):
            segments += array("q", [number]) * piece.size
            positions += counted[: piece.size]
        if rest:
            segments += array("q", [0]) * rest
            positions += array("q", [0]) * rest
        tensors = (torch.frombuffer(marks, dtype=torch.int64) for marks in (segments, positions))
        return dict(zip(_OWN, tensors, strict=True))


def _is_sequence(columns: dict[str, Any]) -> bool:
    """Return whether all columns are sequences of one length."""
    sizes = set()
    for column in columns.values():
        if not isinstance(column, _LISTS):
            is_tensor = isinstance(column, torch.Tensor) or _is_array(column)
            if not is_tensor or column.ndim != 1:
                return False
        sizes.add(len(column))
    return len(sizes) == 1


def _is_array(column: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(column, numpy.ndarray)


def _column(column: Any, dtype: torch.dtype | None) -> Column:
    """Return a sequence that is not empty as a tensor, or as a list if it is not of numbers and there is no dtype."""
    if not isinstance(column, _LISTS) and _is_array(column):
        column = _from_array(column)
    if isinstance(column, torch.Tensor):
        return column if dtype in (None, column.dtype) else _cast(column, dtype)
    if dtype in _TYPECODES:
        return torch.frombuffer(array(_TYPECODES[dtype], column), dtype=dtype)
    tensor = _of_numbers(column)
    if dtype is None:
        return list(column) if tensor is None else tensor
    if tensor is None:
        raise TypeError(f"not all are numbers, so they cannot become {dtype}")
    return _cast(tensor, dtype)


def _of_numbers(column: list[Any] | tuple[Any, ...]) -> torch.Tensor | None:
    """Return ints as int64, floats as float32 and bools as bool. Return None for anything else."""
    if type(column[0]) is bool and {*map(type, column)} == {bool}:
        return torch.frombuffer(bytearray(column), dtype=torch.bool)
    try:
        return torch.frombuffer(array("q", column), dtype=torch.int64)
    except (TypeError, OverflowError):
        kinds = {*map(type, column)}
    if all(issubclass(kind, Real) for kind in kinds) and not all(issubclass(kind, Integral) for kind in kinds):
        with suppress(OverflowError):
            return torch.frombuffer(array("f", column), dtype=torch.float32)
    return None


def _from_array(column: Any) -> torch.Tensor | list[Any]:
    """Return an array as a tensor that shares its memory if possible. Return a list if torch has no such type."""
    native = column.astype(column.dtype.newbyteorder("="), order="C", copy=not column.flags.writeable)
    try:
        return torch.from_numpy(native)
    except TypeError:
        elements: list[Any] = column.tolist()
        return elements


def _cast(column: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert a tensor. Raise OverflowError if an integer type cannot hold its values."""
    new = column.to(dtype)
    if not (dtype.is_floating_point or dtype.is_complex) and not torch.equal(new.to(column.dtype), column):
        raise OverflowError(f"{dtype} cannot hold all values of {column.dtype}")
    return new


def _filled(column: Column, length: int, value: int | float) -> Column:
    """Return a new column of the same type and of this length, filled with a value."""
    return [value] * length if isinstance(column, list) else column.new_full((length,), value)


def _joined(columns: list[Any]) -> Column:
    """Return columns one after the other as a new column."""
    return [*chain.from_iterable(columns)] if isinstance(columns[0], list) else torch.cat(columns)


@cache
def _counted(size: int) -> array[int]:
    return array("q", range(size))


def _saved(piece: Piece) -> dict[str, Column]:
    return {name: piece.values(name) for name in piece.columns}


def _taken(blocks: list[Block], rooms: list[int], number: int) -> Block:
    """Remove an open block and return it."""
    del rooms[number]
    return blocks.pop(number)


class _PackCell(Cell):
    """The open blocks as lists of sequences, and the pieces of a sequence that wait for a block."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self.blocks: list[Block] = []
        self.rooms: list[int] = []  # number of tokens that each block can still take
        self.waiting: list[Piece] = []

    def save(self) -> Any:
        if not self.blocks and not self.waiting:
            return None
        blocks = [list(map(_saved, block)) for block in self.blocks]
        return {"blocks": self.encode(blocks), "waiting": self.encode(list(map(_saved, self.waiting)))}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        blocks, waiting = map(self.decode_list, fields(saved, "blocks", "waiting"))
        if not all(type(block) is list and block for block in blocks):
            raise StateError("blocks: expected lists of sequences")
        self.blocks += [list(map(self._piece, block)) for block in blocks]
        self.rooms += [self._packer.size - sum(piece.size for piece in block) for block in self.blocks]
        self.waiting += map(self._piece, waiting)
        if not all(room > 0 for room in self.rooms):
            raise StateError(f"blocks: expected fewer than {self._packer.size} tokens in each")

    def _piece(self, columns: Any) -> Piece:
        """Return a saved sequence. 0.1.0 saved its columns as they came, such as lists of ints."""
        if type(columns) is not dict or not _is_sequence(columns) or not len(next(iter(columns.values()))):
            raise StateError(f"expected a sequence as a dict of columns, found {columns!r:.80}")
        try:
            return self._packer.converted(columns)
        except BadArgument as error:
            raise StateError(str(error)) from error

    def close(self) -> None:
        self.blocks.clear()
        self.rooms.clear()
        self.waiting.clear()
