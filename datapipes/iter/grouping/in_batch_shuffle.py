"""in_batch_shuffle: a random order within each batch.

The order of a batch is a pure function of the stage's seed and the batch's number, so the position is a count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.chunk import DataChunk
from datapipes.operators.checks import same_length
from datapipes.position.counting import Given
from datapipes.position.opening import Opening
from datapipes.position.seeds import derive

Self = TypeVar("Self", bound="InBatchShuffler")


@operator
class InBatchShuffler(IterDataPipe[Any]):
    """Each batch, which may be any sequence, with its elements in a random order; the batches keep theirs.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(6)).batch(3).in_batch_shuffle().set_seed(1)
    >>> [sorted(batch) for batch in dp], list(dp) == list(dp)
    ([[0, 1, 2], [3, 4, 5]], True)
    """

    _fluent: ClassVar[str | None] = "in_batch_shuffle"

    datapipe: IterDataPipe[Any]

    def __post_init__(self) -> None:
        self._enabled = True
        self._seed: int | None = None

    def set_shuffle(self: Self, shuffle: bool = True) -> Self:
        """Switch shuffling off or on, for the iterations that start from now on."""
        self._enabled = shuffle
        return self

    def set_seed(self: Self, seed: int) -> Self:
        """Pin this stage's seed: it is used instead of the loader's; epochs of a loader still differ."""
        self._seed = seed
        return self

    def _open(self, at: Opening) -> Iterator[Any]:
        source = at.source(self.datapipe)
        return self._shuffled(source, at.seed(self._seed), at.cell(Given)) if self._enabled else source

    def _shuffled(self, source: Iterator[Any], seed: int, given: Given) -> Iterator[DataChunk[Any]]:
        for batch in given.counting(source):
            generator = torch.Generator().manual_seed(derive(seed, given.done()))
            order = torch.randperm(len(batch), generator=generator).tolist()
            yield DataChunk([batch[i] for i in order])

    __len__ = same_length
