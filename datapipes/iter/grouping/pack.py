"""pack: sequences of tokens side by side in blocks of one length, with marks that separate them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.description.renamed import renamed
from datapipes.errors import BadArgument, StateError
from datapipes.operator_support.checks import needs, needs_count
from datapipes.position.cells import Cell, fields
from datapipes.position.opening import Opening

_TOKENS = "tokens"
_OWN = ("segments", "positions")

Fit: TypeAlias = Literal["greedy", "best", "cut"]
Piece: TypeAlias = dict[str, Any]
"""A sequence, or a part of one: each of its columns has a value for each token."""
Block: TypeAlias = list[Piece]


@renamed(length="size")
@operator
class Packer(IterDataPipe[dict[str, Any]]):
    """Blocks of ``size`` tokens: sequences side by side, and the rest of a block filled with ``padding``.

    An element is a sequence: a list, a tuple, or a numpy array or tensor of one dimension. Or it is a dict of sequences
    of one length, such as tokens and labels, which are packed together. A block is a dict of these columns
    (``"tokens"`` for plain sequences), and of two more: ``"segments"`` counts the sequences in the block from 1, and is
    0 at the padding; ``"positions"`` counts the tokens of each sequence from 0. The columns are tensors, arrays or
    lists like the sequences, which must be of one kind.

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

    >>> from datapipes.iter import IterableWrapper
    >>> for block in IterableWrapper([[5, 6, 7], [8, 9], [4]]).pack(4, fit="best"):
    ...     print(block["tokens"], block["segments"], block["positions"])
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

    def __post_init__(self) -> None:
        needs_count(self, "size", 1, "A block has at least one token")
        needs_count(self, "open_blocks", 1, "At least one block is open")
        needs(self.fit in get_args(Fit), self, f'fit must be "greedy", "best" or "cut", got {self.fit!r:.60}')

    def _open(self, at: Opening) -> Iterator[dict[str, Any]]:
        return self._blocks(at, at.source(self.source_datapipe), at.cell(lambda: _PackCell(self.size)))

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
        size = _size(waiting[0])
        fitting = [i for i, room in enumerate(rooms) if room >= size or self.fit == "cut"]
        if not fitting:
            if len(rooms) == (self.open_blocks if self.fit == "best" else 1):
                return _taken(blocks, rooms, rooms.index(min(rooms)))
            fitting = [len(blocks)]
            blocks.append([])
            rooms.append(self.size)
        best = min(fitting, key=rooms.__getitem__)
        piece, room = waiting[0], rooms[best]
        waiting[:1] = [_part(piece, room, size)] if size > room else []
        blocks[best] = [*blocks[best], _part(piece, 0, room)]
        rooms[best] -= min(size, room)
        return None if rooms[best] else _taken(blocks, rooms, best)

    def _pieces(self, element: Any, blocks: list[Block]) -> list[Piece]:
        """Return a sequence in pieces of at most a block. Refuse one that cannot be packed with the others."""
        piece = dict(element) if isinstance(element, Mapping) else {_TOKENS: element}
        kinds = {name: _kind(column) for name, column in piece.items()}
        if not piece or None in kinds.values() or len({*map(len, piece.values())}) > 1 or {*_OWN} & {*piece}:
            raise BadArgument(
                f"{stage(self)} needs sequences of tokens: a list, an array or a tensor of one dimension, or a dict of "
                f"several of one length, with no name 'segments' or 'positions'; got {element!r:.200}"
            )
        others = {name: _kind(column) for name, column in blocks[0][0].items()} if blocks else kinds
        if kinds != others:
            raise BadArgument(f"{stage(self)}: {kinds} cannot be in one block with {others}; make them alike before")
        if isinstance(self.padding, Mapping) and (missing := piece.keys() - self.padding.keys()):
            raise BadArgument(f"padding lacks the columns {sorted(missing)}, in {stage(self)}")
        size = _size(piece)
        if self.fit == "cut":
            return [piece] if size else []
        return [_part(piece, first, min(first + self.size, size)) for first in range(0, size, self.size)]

    def _laid_out(self, block: Block) -> dict[str, Any]:
        """Return a block as new columns."""
        length, first = self.size, next(iter(block[0].values()))
        padding = self.padding if isinstance(self.padding, Mapping) else dict.fromkeys(block[0], self.padding)
        laid = {name: _filled(column, length, padding[name]) for name, column in block[0].items()}
        segments, positions = (_filled(_counted(first, 0), length, 0) for _ in _OWN)
        at = 0
        for number, piece in enumerate(block, 1):
            size = _size(piece)
            place = slice(at, at + size)
            for name, column in piece.items():
                laid[name][place] = column
            positions[place] = _counted(first, size)
            segments[place] = _filled(positions, size, number)
            at += size
        return laid | dict(zip(_OWN, (segments, positions), strict=True))


def _kind(column: Any) -> str | None:
    """Return the kind of a column: the list, or the type and dtype. Return None if it is no sequence of tokens."""
    numpy = sys.modules.get("numpy")
    if isinstance(column, list | tuple):
        return "list"
    is_tensor = isinstance(column, torch.Tensor)
    is_array = numpy is not None and isinstance(column, numpy.ndarray)
    return f"{type(column).__name__} of {column.dtype}" if (is_tensor or is_array) and column.ndim == 1 else None


def _size(piece: Piece) -> int:
    return len(next(iter(piece.values())))


def _part(piece: Piece, start: int, stop: int) -> Piece:
    return {name: column[start:stop] for name, column in piece.items()}


def _filled(column: Any, length: int, value: int | float) -> Any:
    """Return a new column of the same kind and of this length, filled with a value."""
    if isinstance(column, torch.Tensor):
        return torch.full((length,), value, dtype=column.dtype)
    if isinstance(column, list | tuple):
        return [value] * length
    return sys.modules["numpy"].full(length, value, dtype=column.dtype)


def _counted(column: Any, length: int) -> Any:
    """Return 0, 1, 2 ... as a column of the same kind."""
    if isinstance(column, torch.Tensor):
        return torch.arange(length)
    if isinstance(column, list | tuple):
        return list(range(length))
    return sys.modules["numpy"].arange(length)


def _taken(blocks: list[Block], rooms: list[int], number: int) -> Block:
    """Remove an open block and return it."""
    del rooms[number]
    return blocks.pop(number)


class _PackCell(Cell):
    """The open blocks as lists of sequences, and the pieces of a sequence that wait for a block."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.blocks: list[Block] = []
        self.rooms: list[int] = []  # number of tokens that each block can still take
        self.waiting: list[Piece] = []

    def save(self) -> Any:
        if not self.blocks and not self.waiting:
            return None
        return {"blocks": self.encode(self.blocks), "waiting": self.encode(self.waiting)}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        blocks, waiting = map(self.decode_list, fields(saved, "blocks", "waiting"))
        if not all(type(block) is list and block for block in blocks):
            raise StateError("blocks: expected lists of sequences")
        for piece in (*waiting, *(piece for block in blocks for piece in block)):
            if type(piece) is not dict or not piece or None in {*map(_kind, piece.values())}:
                raise StateError(f"expected a sequence as a dict of columns, found {piece!r:.80}")
        self.blocks += blocks
        self.rooms += [self._length - sum(map(_size, block)) for block in blocks]
        self.waiting.extend(waiting)

    def close(self) -> None:
        self.blocks.clear()
        self.rooms.clear()
        self.waiting.clear()
