"""in_batch_shuffle: a random order within each batch.

The order of a batch is a pure function of the stage's seed and the batch's number, so the position is a count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.chunk import DataChunk
from datapipes.operators.checks import same_length
from datapipes.operators.random_order import Shuffling
from datapipes.position.counting import Given
from datapipes.position.opening import Opening
from datapipes.position.seeds import derive


@operator
class InBatchShuffler(Shuffling, IterDataPipe[Any]):
    """Each batch, which may be any sequence, with its elements in a random order; the batches keep theirs.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(range(6)).batch(3).in_batch_shuffle().set_seed(1)
    >>> [sorted(batch) for batch in dp], list(dp) == list(dp)
    ([[0, 1, 2], [3, 4, 5]], True)
    """

    _fluent: ClassVar[str | None] = "in_batch_shuffle"

    datapipe: IterDataPipe[Any]

    def _open(self, at: Opening) -> Iterator[Any]:
        source = at.source(self.datapipe)
        return self._shuffled(source, at.seed(self._seed), at.cell(Given)) if self._enabled else source

    def _shuffled(self, source: Iterator[Any], seed: int, given: Given) -> Iterator[DataChunk[Any]]:
        for batch in given.counting(source):
            generator = torch.Generator().manual_seed(derive(seed, given.done()))
            order = torch.randperm(len(batch), generator=generator).tolist()
            yield DataChunk([batch[i] for i in order])

    __len__ = same_length
