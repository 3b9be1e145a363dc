"""shuffle: the elements of a map-style pipe as a stream in a random order, which needs no memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from datapipes.converting.conversion import keys_of
from datapipes.description import structure
from datapipes.description.indexed import Indexed
from datapipes.description.pipe import IterDataPipe, MapDataPipe, operator
from datapipes.operator_support.random_order import Permutation, Shuffling
from datapipes.position.cells import CountCell
from datapipes.position.opening import Opening
from datapipes.rewriting.gathering import RowStream, at_once

T_co = TypeVar("T_co", covariant=True)


@operator
class Shuffler(Shuffling, IterDataPipe[T_co]):
    """The elements in a random order, as a stream; only the current one is in memory.

    Args:
        indices: The keys of the elements. ``None``: 0, 1, 2 ... up to the length, which the pipe must then have.

    >>> from datapipes.map import SequenceWrapper
    >>> sorted(SequenceWrapper("abc").shuffle(indices=[0, 2]))
    ['a', 'c']
    """

    _fluent: ClassVar[str | None] = "shuffle"
    _identified_by: ClassVar[str | None] = "indices"

    datapipe: MapDataPipe[T_co]
    indices: Sequence[Any]

    def __init__(self, datapipe: MapDataPipe[T_co], *, indices: Iterable[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = keys_of("shuffle", datapipe, indices)

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(self._order(at.seed(self._seed)), at.cell(CountCell))

    def _order(self, seed: int) -> Sequence[int]:
        """Return the positions in ``indices`` in the order in which they are read."""
        return Permutation(len(self.indices), seed) if self._enabled else range(len(self.indices))

    def _elements(self, order: Sequence[int], given: CountCell) -> Iterator[T_co]:
        datapipe, indices = self.datapipe, self.indices
        given.origin = lambda i: self._origin(order[i])
        for position in given.following(order):
            try:
                made = datapipe[indices[position]]
            except BaseException as error:
                given.take_again(error)
                raise
            yield made
            made = None  # type: ignore[assignment]  # dropped before the next one is made

    def _origin(self, i: int) -> tuple[object, Any]:
        return self.datapipe, self.indices[i]

    def _at(self, position: int) -> T_co:
        return self.datapipe[self.indices[position]]

    def _indexed(self) -> Indexed | None:
        return None if self._enabled else Indexed(len(self.indices), self._at)

    def _positions(self) -> RowStream:
        order = object.__new__(ShuffledPositions)
        structure.fill(order, self, lambda parent: parent)
        rows = structure.with_parents(self, lambda parent: parent).set_shuffle(False)
        return RowStream(order, rows, at_once(self.datapipe, self.indices))

    def __len__(self) -> int:
        return len(self.indices)


class ShuffledPositions(Shuffler[Any]):
    """Positions of a map-style pipe, in the order in which a shuffle reads them."""

    _parents: ClassVar[tuple[str, ...] | None] = ()
    _block: int | None = None  # number of positions in one tensor; None: single positions

    def _open(self, at: Opening) -> Iterator[Any]:
        given, order = at.cell(CountCell), self._order(at.seed(self._seed))
        given.origin = lambda i: self._origin(order[i])
        if self._block is None:
            return given.following(order)
        left: Any = given.left_of(order)
        return given.counting_blocks(left.blocks(self._block))

    def _in_blocks(self, size: int) -> ShuffledPositions | None:
        if not self._enabled:
            return None
        new: ShuffledPositions = structure.with_parents(self, lambda parent: parent)
        new._block = size
        return new
