"""Batch stage and batch size of a graph, for the micro-batches of a device. Pure functions: no pipe is changed.

The search for the batch goes from the end of the graph up, through stages that keep batches one by one. Workers that
run such a graph give its batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from torch.utils.data import default_collate

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import Pipe
from datapipes.elements.chunk import DataChunk
from datapipes.iter import Batcher, Collator, FullSync, Mapper, PinMemory, Prefetcher
from datapipes.operator_support.checks import source_length
from datapipes.position.opening import Opening
from reading_services.workers.gather import Gathered

_KEEP_BATCHES = (Mapper, Collator, Prefetcher, PinMemory, FullSync)


def batcher_of(graph: Pipe) -> Batcher[Any] | None:
    """Return the ``batch`` stage whose batches a graph gives, collated or not. Return None if there is none."""
    while type(graph) in _KEEP_BATCHES or type(graph) is Gathered:
        graph = _above(graph)
    return graph if type(graph) is Batcher else None


def is_uncollated(graph: Pipe) -> bool:
    """Return whether batches are lists of rows."""
    while type(graph) in (Prefetcher, FullSync, Gathered):
        graph = _above(graph)
    return type(graph) is Batcher and graph.wrapper_class in (DataChunk, list)


def enlarged(graph: Pipe, times: int) -> Pipe | None:
    """Return a graph whose batches have ``times`` as many rows, read and collated together.

    Return None if the rows might differ. The last batch has all remaining rows, even if the graph's has ``drop_last``.
    """
    torchs = _collates_as_torch_does(graph)
    batcher = graph.datapipe if torchs else graph
    if type(batcher) is not Batcher or batcher.wrapper_class not in (DataChunk, list):
        return None
    larger = structure.with_parents(batcher, lambda parent: parent)
    larger.batch_size, larger.drop_last = batcher.batch_size * times, False
    return structure.with_parents(graph, lambda _: larger) if torchs else Collator(larger)


def counting_rows(graph: Pipe) -> Pipe | None:
    """Return a graph whose length is the number of rows in all batches. Return None if its batch stage is not known."""
    if type(graph) is Batcher:
        return RowCount(graph.datapipe, graph.batch_size if graph.drop_last else 1)
    if type(graph) not in _KEEP_BATCHES and type(graph) is not Gathered:
        return None
    above = counting_rows(_above(graph))
    return None if above is None else _with_above(graph, above)


def keeps_rows(graph: Pipe) -> bool:
    """Return whether certainly no stage below the batch changes the number of rows."""
    while type(graph) in (Prefetcher, PinMemory, FullSync, Gathered) or _collates_as_torch_does(graph):
        graph = _above(graph)
    return type(graph) is Batcher


@operator
class RowCount(IterDataPipe[Any]):
    """Stand-in for a batch stage, of which only the number of rows is needed."""

    _stands_for: ClassVar[str | None] = "datapipe"

    datapipe: IterDataPipe[Any]
    unit: int

    def _open(self, at: Opening) -> Iterator[Any]:
        return at.source(self.datapipe)

    def __len__(self) -> int:
        return source_length(self, self.datapipe) // self.unit * self.unit


def _collates_as_torch_does(graph: Pipe) -> bool:
    return type(graph) is Collator and graph.fn is default_collate and graph.on_error == "raise"


def _above(graph: Pipe) -> Pipe:
    return graph.graph if type(graph) is Gathered else structure.parents(graph)[0]


def _with_above(graph: Pipe, above: Pipe) -> Pipe:
    if type(graph) is Gathered:
        return graph.of(above)
    return structure.with_parents(graph, lambda _: above)
