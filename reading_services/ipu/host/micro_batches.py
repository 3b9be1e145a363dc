"""Batch stage and batch size of a graph, for the micro-batches of a device. Pure functions: no pipe is changed.

The batch is looked for from the end of the graph up, through stages that keep batches one by one; workers that run such
a graph give its batches.
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
from datapipes.operators.checks import source_length
from datapipes.position.opening import Opening
from reading_services.workers.gather import Gathered

_KEEP_BATCHES = (Mapper, Collator, Prefetcher, PinMemory, FullSync)


def batcher_of(graph: Pipe) -> Batcher[Any] | None:
    """The ``batch`` whose batches a graph gives, as they are or collated."""
    while type(graph) in _KEEP_BATCHES or type(graph) is Gathered:
        graph = _above(graph)
    return graph if type(graph) is Batcher else None


def is_uncollated(graph: Pipe) -> bool:
    """Whether batches come as lists of rows."""
    while type(graph) in (Prefetcher, FullSync, Gathered):
        graph = _above(graph)
    return type(graph) is Batcher and graph.wrapper_class in (DataChunk, list)


def enlarged(graph: Pipe, times: int) -> Pipe | None:
    """A graph whose batches have so many times the rows, read and collated at once; None if they may not be the same.

    All rows are given: what the graph's batch has left over, its last batch has, even with ``drop_last``.
    """
    torchs = _collates_as_torch_does(graph)
    batcher = graph.datapipe if torchs else graph
    if type(batcher) is not Batcher or batcher.wrapper_class not in (DataChunk, list):
        return None
    larger = structure.with_parents(batcher, lambda parent: parent)
    larger.batch_size, larger.drop_last = batcher.batch_size * times, False
    return structure.with_parents(graph, lambda _: larger) if torchs else Collator(larger)


def counting_rows(graph: Pipe) -> Pipe | None:
    """A graph as long as there are rows in all batches; None if the graph does not say which stage makes them."""
    if type(graph) is Batcher:
        return Rows(graph.datapipe, graph.batch_size if graph.drop_last else 1)
    if type(graph) not in _KEEP_BATCHES and type(graph) is not Gathered:
        return None
    above = counting_rows(_above(graph))
    return None if above is None else _with_above(graph, above)


def keeps_rows(graph: Pipe) -> bool:
    """Whether it is certain that no stage behind the batch changes how many rows there are."""
    while type(graph) in (Prefetcher, PinMemory, FullSync, Gathered) or _collates_as_torch_does(graph):
        graph = _above(graph)
    return type(graph) is Batcher


@operator
class Rows(IterDataPipe[Any]):
    """A stand-in for a batch where only the number of its rows is asked for."""

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
