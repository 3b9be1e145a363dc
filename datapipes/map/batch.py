"""batch: elements of a map-style pipe in groups of a fixed size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.description.printing import stage
from datapipes.elements.chunk import DataChunk
from datapipes.operators.checks import length_of, needs_count, source_length

B_co = TypeVar("B_co", covariant=True)


@operator
class Batcher(MapDataPipe[B_co]):
    """Under key ``k``, the elements ``k * batch_size`` and following, as a list.

    Args:
        batch_size: The number of elements in a batch.
        drop_last: Whether a last batch that is not full is left out.
        wrapper_class: What makes a batch of a list of elements: a class, or a function. A ``DataChunk`` is a list.

    >>> from datapipes.map import SequenceWrapper
    >>> SequenceWrapper(range(5)).batch(2)[2]
    [4]
    """

    _fluent: ClassVar[str | None] = "batch"

    datapipe: MapDataPipe[Any]
    batch_size: int
    drop_last: bool = False
    wrapper_class: Callable[[list[Any]], B_co] = DataChunk  # type: ignore[assignment]  # the usual B_co

    def __post_init__(self) -> None:
        needs_count(self, "batch_size", 1, "Batch size is required to be larger than 0")

    def __getitem__(self, key: Any) -> B_co:
        batch: list[Any] = []
        first = key * self.batch_size
        try:
            batch.extend(self.datapipe[first + i] for i in range(self.batch_size if key >= 0 else 0))
        except IndexError:
            if self._is_inside(first + len(batch)):
                raise  # the error of a function, and not the end
            if self.drop_last:
                batch = []
        if not batch:
            raise IndexError(f"Index {key} is out of bound: there is no such batch, in {stage(self)}")
        return self.wrapper_class(batch)

    def _is_inside(self, position: int) -> bool:
        try:
            return position < length_of(self.datapipe)
        except TypeError:
            return False  # only an IndexError tells where a source without a length ends

    def __len__(self) -> int:
        length = source_length(self, self.datapipe)
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
