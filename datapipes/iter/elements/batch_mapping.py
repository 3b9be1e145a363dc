"""map_batches: a function of many elements at once, and the elements of what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import StateError
from datapipes.operators.checks import needs_callable, needs_count
from datapipes.operators.flattening import Flattening
from datapipes.operators.flattening_position import Inner
from datapipes.position.cells import fields
from datapipes.position.on_error import Tolerant
from datapipes.position.opening import Opening

R_co = TypeVar("R_co", covariant=True)


@operator
class BatchMapper(Tolerant, Flattening[R_co]):
    """Every element of what a function makes of each batch of elements.

    If ``fn`` raises, the batch is the element that could not be made.

    Args:
        fn: The function. It is given a batch as a list, and returns an iterable of as many elements as it likes.
        batch_size: The number of elements in a batch; the last may be shorter.
        input_col: The column of which ``fn`` is given a list; a list of columns makes that a list of lists, one for
            each element. ``None``: the whole elements.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).map_batches(lambda batch: [sum(batch)], batch_size=2))
    [1, 5, 4]
    """

    _fluent: ClassVar[str | None] = "map_batches"

    datapipe: IterDataPipe[Any]
    fn: Callable[[list[Any]], Iterable[R_co]]
    batch_size: int
    input_col: Any = None

    def __post_init__(self) -> None:
        needs_callable("map_batches", self.fn)
        needs_count(self, "batch_size", 1, "Batch size is required to be larger than 0")
        super().__post_init__()

    def _open(self, at: Opening) -> Iterator[R_co]:
        above = at.above() if at.is_private() else None
        held = at.cell(partial(_HeldBatch, self)).watching(above, at_start=not at.resumed)
        return self._elements(held.batches(at.source(self.datapipe)), held)

    def _inner(self, batch: list[Any]) -> Iterable[R_co]:
        column = self.input_col
        if isinstance(column, list | tuple):
            return self.fn([[element[one] for one in column] for element in batch])
        return self.fn(batch if column is None else [element[column] for element in batch])

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__}'s length relies on the output of its function.")


class _HeldBatch(Inner):
    """The batch at hand, and the elements taken for the next one when the source raised."""

    def __init__(self, pipe: BatchMapper[Any]) -> None:
        super().__init__(pipe)
        self._size = pipe.batch_size
        self._partial: list[Any] = []

    def watching(self, above: Any, at_start: bool) -> _HeldBatch:
        super().watching(above, at_start)
        return self

    def batches(self, source: Iterator[Any]) -> Iterator[list[Any]]:
        """Lists of the elements of ``source``, after those that were taken already."""
        while True:
            if self._partial:
                self._above = None  # this batch began before the positions that were looked at last
            self._partial.extend(islice(source, self._size - len(self._partial)))
            batch, self._partial = self._partial, []
            if batch:
                yield batch
            if len(batch) < self._size:
                return

    def save(self) -> dict[str, Any]:
        return {"held": super().save(), "partial": self.encode(self._partial) if self._partial else None}

    def load(self, saved: Any) -> None:
        held, partial_batch = fields(saved, "held", "partial")
        super().load(held)
        if partial_batch is not None:
            self._partial = self.decode_list(partial_batch)
            if len(self._partial) >= self._size:
                raise StateError(f"expected fewer than {self._size} elements of a batch, found {len(self._partial)}")

    def close(self) -> None:
        super().close()
        self._partial = []
