"""The stage that regroups the rows of micro-batches as combined batches, one for each step of a device.

It works on rows: a combined batch has the rows of its micro-batches if they were full. So a worker may give its last,
short micro-batch in the middle of the stream. The rows keep their order. With ``drop_last``, the rows that are too few
for a last combined batch are dropped and counted; no other row is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.chunk import DataChunk
from datapipes.errors import BadArgument, StateError
from datapipes.memory import batches
from datapipes.operator_support.checks import source_length
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening
from reading_services.ipu.host.micro_batches import counting_rows, keeps_rows
from reading_services.ipu.host.rebatching import WaitingBatches, rows_of
from reading_services.ipu.names.messages import logger


@dataclass
class Dropped:
    """Number of rows that the last whole epoch dropped."""

    rows: int = 0


@operator
class Combined(IterDataPipe[Any]):
    """Batches of ``micro_batches`` times ``rows`` rows, from batches of any size. The last may be shorter.

    Without ``rows``, the first micro-batch sets it. The rest at the end is first cut to a multiple of ``unit``.
    ``steps`` is the largest number of batches.

    >>> from datapipes.iter import IterableWrapper
    >>> micro_batches = IterableWrapper(range(7)).batch(2).collate()
    >>> list(Combined(micro_batches, micro_batches=2, rows=2, drop_last=False))
    [tensor([0, 1, 2, 3]), tensor([4, 5, 6])]
    """

    _stands_for: ClassVar[str | None] = "datapipe"

    datapipe: IterDataPipe[Any]
    micro_batches: int
    rows: int | None = None
    drop_last: bool = True
    unit: int = 1
    steps: int | None = None

    def __post_init__(self) -> None:
        self.dropped = Dropped()
        self.counts_exactly = self.rows is not None and keeps_rows(self.datapipe)

    def _open(self, at: Opening) -> Iterator[Any]:
        return at.cell(lambda: _RegroupCell(self)).combined(at.source(self.datapipe))

    def __len__(self) -> int:
        rows = counting_rows(self.datapipe)
        if rows is None or self.rows is None:
            there, each = source_length(self, self.datapipe), self.micro_batches
        else:
            there, each = source_length(self, rows) // self.unit * self.unit, self.micro_batches * self.rows
        length = there // each if self.drop_last else -(-there // each)
        return length if self.steps is None else min(length, self.steps)


class _RegroupCell(Cell):
    """Rows that wait for a full batch, and the number of combined batches so far. Between two batches few rows wait."""

    def __init__(self, pipe: Combined) -> None:
        self._pipe = pipe
        self._size = None if pipe.rows is None else pipe.rows * pipe.micro_batches
        self._given = 0
        self._waiting = WaitingBatches()

    def combined(self, micro_batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the combined batches of these micro-batches."""
        pipe, waiting = self._pipe, self._waiting
        pipe.dropped.rows = 0
        for batch in micro_batches:
            self._take(batch)
            del batch  # the consumer must hold the only reference
            while self._size and waiting.rows >= self._size and self._given != pipe.steps:
                self._given += 1
                yield waiting.taken(self._size)
        rest = waiting.rows // pipe.unit * pipe.unit
        kept = not pipe.drop_last and self._given != pipe.steps
        pipe.dropped.rows = 0 if kept else rest
        if rest and not kept and not self._given:
            logger.warning(
                "all %d rows of this epoch are dropped: a combined batch needs %s. Pass drop_last=False to get "
                "fewer, or make micro-batches, device iterations, replicas or accumulation smaller",
                rest,
                self._size,
            )
        last = waiting.taken(rest) if rest and kept else None
        self._waiting = WaitingBatches()
        if last is not None:
            self._given += 1
            yield last

    def _take(self, batch: Any) -> None:
        if isinstance(batch, DataChunk):  # from a user's stage that batches without collating
            batch = batches.collated(list(batch))
        try:
            self._waiting.add(batch)
        except BadArgument as error:
            raise BadArgument(
                f"a combined batch is made of batches: {error}. End the graph with .batch(rows).collate()"
            ) from None
        if self._size is None:
            self._size = self._pipe.micro_batches * rows_of(batch)

    def save(self) -> dict[str, Any]:
        waiting = self._waiting.batches
        return {"size": self._size, "given": self._given, "waiting": self.encode(list(waiting)) if waiting else None}

    def load(self, saved: Any) -> None:
        size, given, waiting = fields(saved, "size", "given", "waiting")
        self._size = None if size is None else count(size, "size")
        self._given = count(given, "given")
        try:
            for batch in [] if waiting is None else self.decode_list(waiting):
                self._waiting.add(batch)
        except BadArgument as error:
            raise StateError(f"waiting: {error}") from None

    def close(self) -> None:
        self._waiting = WaitingBatches()
