"""batch, unbatch: elements in groups of a fixed size, and the single elements of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, ClassVar, TypeVar

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.chunk import DataChunk
from datapipes.errors import StateError
from datapipes.operator_support.checks import needs_count, source_length
from datapipes.operator_support.flattening import Flattening
from datapipes.position.cells import Cell
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run
from datapipes.rewriting.gathering import BatchAccess, is_held, rows_of

B_co = TypeVar("B_co", covariant=True)


@operator
class Batcher(IterDataPipe[B_co]):
    """Lists of ``batch_size`` elements; the last may be shorter, unless ``drop_last``.

    Args:
        batch_size: The number of elements in a batch.
        drop_last: Whether to leave out a last batch that is not full.
        wrapper_class: A class or function that makes a batch of a list of elements. A ``DataChunk`` is a list.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).batch(2))
    [[0, 1], [2, 3], [4]]
    """

    _fluent: ClassVar[str | None] = "batch"

    datapipe: IterDataPipe[Any]
    batch_size: int
    drop_last: bool = False
    wrapper_class: Callable[[list[Any]], B_co] = DataChunk  # type: ignore[assignment]  # the usual B_co

    def __post_init__(self) -> None:
        needs_count(self, "batch_size", 1, "Batch size is required to be larger than 0")

    def _open(self, at: Opening) -> Iterator[B_co]:
        chunks = self.wrapper_class is DataChunk
        batches = at.grouped(self.datapipe, at.cell(lambda: _BatchCell(self, DataChunk if chunks else list)))
        return batches if chunks else self._made(at, batches, self.wrapper_class)

    def _made(self, at: Opening, batches: Iterator[list[Any]], make: Callable[[list[Any]], B_co]) -> Iterator[B_co]:
        for batch in batches:
            try:
                made = make(batch)
            except BaseException as error:
                for element in reversed(batch):  # the one that is put back last comes first
                    at.keep(element, error)
                raise
            yield made

    def _rewritten_for_run(self, run: Run) -> IterDataPipe[B_co]:
        positions, at_once = self.of_positions(run)
        if type(self) is not Batcher or at_once.listed is None:
            return self
        new: BatchReader[B_co] = object.__new__(BatchReader)
        structure.fill(new, positions, lambda parent: parent)
        new.at_once = at_once
        return new

    def of_positions(self, run: Run) -> tuple[Batcher[Any], BatchAccess]:
        """Return batches of the positions of rows, and how to read these; this stage, if its source has no rows."""
        rows = rows_of(self.datapipe)
        if rows is None or is_held(run, self):
            return self, BatchAccess()
        return structure.with_parents(self, lambda _: rows.positions), rows.at_once

    def in_blocks(self, run: Run) -> Batcher[Any]:
        """Return the same batches of positions as tensors, if they can be made so and no batch is begun."""
        begun = structure.place_of(self) in run.held
        source = None if begun else self.datapipe._in_blocks(self.batch_size)
        if source is None:
            return self
        new: _PositionBatches = object.__new__(_PositionBatches)
        structure.fill(new, self, lambda parent: source)
        return new

    def __len__(self) -> int:
        length = source_length(self, self.datapipe)
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


class BatchReader(Batcher[B_co]):
    """Batches of rows that are read in one call, at the positions that the source gives."""

    at_once: BatchAccess

    def _open(self, at: Opening) -> Iterator[B_co]:
        batches: Iterator[list[int]] = at.grouped(self.datapipe, at.cell(lambda: _BatchCell(self, list)))
        rows: Any = self.at_once.listed
        return self._made(at, batches, lambda batch: self.wrapper_class(rows(batch)))

    def of_positions(self, run: Run) -> tuple[Batcher[Any], BatchAccess]:
        positions: Batcher[Any] = object.__new__(Batcher)
        structure.fill(positions, self, lambda parent: parent)
        return positions, self.at_once


class _PositionBatches(Batcher[Any]):
    """Batches of positions whose source already gives batches."""

    def _open(self, at: Opening) -> Iterator[Any]:
        at.cell(lambda: _BatchCell(self, list))
        blocks = at.source(self.datapipe)
        return (block for block in blocks if len(block) == self.batch_size) if self.drop_last else blocks


class _BatchCell(Cell):
    """Elements of an incomplete batch; None between two batches.

    After an exception in the source it keeps the elements already taken.
    """

    def __init__(self, pipe: Batcher[Any], new_batch: Callable[[], list[Any]]) -> None:
        self.size = pipe.batch_size
        self.new_batch = new_batch
        self.partial: list[Any] | None = None
        self._drop_last = pipe.drop_last

    def batches(self, source: Iterator[Any]) -> Iterator[list[Any]]:
        """Yield the batches of an iterator."""
        size = self.size
        while True:
            batch = self.begin()
            batch.extend(islice(source, size - len(batch)))
            if len(batch) < size:
                break
            self.partial = None
            yield batch
        yield from self.rest()

    def begin(self) -> list[Any]:
        if self.partial is None:
            self.partial = self.new_batch()
        return self.partial

    def rest(self) -> Iterator[list[Any]]:
        batch, self.partial = self.partial, None
        if batch and not self._drop_last:
            yield batch

    def save(self) -> bytes | None:
        return self.encode(list(self.partial)) if self.partial else None

    def load(self, saved: Any) -> None:
        if saved is not None:
            self.begin().extend(self.decode_list(saved))
            if len(self.begin()) > self.size:  # an interruption may have come when it was full and not handed on
                raise StateError(f"expected at most {self.size} elements of a batch, found {len(self.begin())}")

    def close(self) -> None:
        self.partial = None


@operator
class UnBatcher(Flattening[Any]):
    """The single elements of batches.

    Args:
        unbatch_level: Number of levels of lists to unpack; -1 for all of them. A batch with fewer is an
            ``IndexError``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(4)).batch(2).batch(2).unbatch(2))
    [0, 1, 2, 3]
    """

    _fluent: ClassVar[str | None] = "unbatch"

    datapipe: IterDataPipe[Any]
    unbatch_level: int = 1

    def _inner(self, element: Any) -> list[Any]:
        level = self.unbatch_level
        if level < -1:
            raise ValueError(f"unbatch_level must be -1 or more, got {level}")
        elements, depth = [element], 0
        while depth != level and (level > 0 or any(isinstance(x, list) for x in elements)):
            if level > 0 and not all(isinstance(x, list) for x in elements):
                remedy = ""
                if other := next((x for x in elements if hasattr(x, "to_pylist")), None):
                    remedy = f"; a {type(other).__name__} becomes rows by .flatmap(lambda batch: batch.to_pylist())"
                raise IndexError(f"unbatch_level {level} exceeds the depth of the batch, which is {depth}{remedy}")
            elements = [y for x in elements for y in (x if isinstance(x, list) else [x])]
            depth += 1
        return elements
