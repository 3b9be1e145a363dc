"""Gathering: a batch of rows is read at once, straight into the memory that the batch lies in.

``rows.batch(n).collate()`` reads n elements one after the other, and then copies them side by side. Where the rows are
those of tensors, or of a data set that can give several at once (torch's ``__getitems__``), batching and reading
commute: a batch of positions is made first, and what is at them is gathered. A session rewrites its private copy of the
graph so, in front of a ``collate`` with torch's own function, for streams whose positions are known: a map-style pipe
as a stream, shuffled or not, sharded or not (by then ``datapipes.rewriting.pushdown`` has put reading below the shard).

The elements are the same, in the same order. One difference can be seen: where ``__getitems__`` raises, the whole batch
is lost, as it is in torch's DataLoader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.data import TensorDataset, default_collate

from datapipes.converting.from_map import MapToIterConverter
from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.elements.chunk import DataChunk
from datapipes.iter.elements.mapping import Collator
from datapipes.iter.grouping.batch import Batcher
from datapipes.iter.grouping.shuffle import Shuffler
from datapipes.iter.placement.shard import ShardingFilter
from datapipes.map.shuffle import Shuffler as MapShuffler
from datapipes.map.wrapper import SequenceWrapper
from datapipes.memory import batches
from datapipes.rewriting.positions import Positions, ReadAt, ShuffledPositions

Gather = Callable[[Sequence[int]], Any]


def gathering(end: Pipe) -> Pipe:
    """The same graph, with batches gathered where they can be.

    >>> from datapipes.map import SequenceWrapper
    >>> rows = SequenceWrapper(torch.arange(6).view(3, 2)).to_iter_datapipe()
    >>> list(rows.batch(2).collate())
    [tensor([[0, 1], [2, 3]]), tensor([[4, 5]])]
    """
    return structure.rewrite(end, _rule)


def _rule(stage: Pipe) -> Pipe:
    if not (type(stage) is Collator and stage.fn is default_collate and stage.on_error == "raise"):
        return stage
    batcher = stage.datapipe
    if not (type(batcher) is Batcher and batcher.wrapper_class in (DataChunk, list)):
        return stage
    found = _positions_and_rows(batcher.datapipe)
    gather = None if found is None else _gather(found[1])
    if found is None or gather is None:
        return stage
    new = structure.with_parents(stage, lambda _: structure.with_parents(batcher, lambda _: found[0]))
    new.fn = gather
    return new


def _positions_and_rows(pipe: Pipe) -> tuple[Pipe, Pipe] | None:
    """A stream of positions, and the stream of which they are the positions."""
    if type(pipe) is ReadAt:
        return pipe.datapipe, pipe.read
    if type(pipe) is MapToIterConverter:
        return Positions(pipe), pipe
    if type(pipe) is MapShuffler:
        order = object.__new__(ShuffledPositions)
        structure.fill(order, pipe, lambda parent: parent)
        rows = structure.with_parents(pipe, lambda parent: parent)
        return order, rows.set_shuffle(False)
    if type(pipe) is ShardingFilter:  # nobody has sharded it, or pushdown would have taken it away
        found = _positions_and_rows(pipe.source_datapipe)
        return None if found is None else (structure.with_parents(pipe, lambda _: found[0]), found[1])
    if type(pipe) is Shuffler and pipe._enabled and type(pipe.datapipe) is MapToIterConverter:
        return structure.with_parents(pipe, Positions), pipe.datapipe
    return None


def _gather(rows: Pipe) -> Gather | None:
    """A function from positions to the batch of what is there; None if rows can only be had one by one."""
    if not isinstance(rows, MapToIterConverter | MapShuffler) or type(rows.indices) is not range:
        return None
    source: Any = rows.datapipe
    together = batches_of(source.sequence if type(source) is SequenceWrapper else source)
    indices: range = rows.indices
    if together is None or (indices and min(indices[0], indices[-1]) < 0):
        return None
    if indices == range(len(indices)):
        return together
    return lambda positions: together([indices[i] for i in positions])


def batches_of(data: Any) -> Gather | None:
    """A function from positions to what ``default_collate`` makes of the rows there, read at once.

    None if rows of this data can only be had one by one.

    >>> rows = torch.utils.data.TensorDataset(torch.arange(6).view(3, 2), torch.arange(3))
    >>> batches_of(rows)([2, 0])
    [tensor([[4, 5],
            [0, 1]]), tensor([2, 0])]
    """
    if type(data) is torch.Tensor:
        return partial(_selected, data) if _is_plain(data) else None
    if type(data) is TensorDataset:
        return partial(_selected_of_each, data.tensors) if all(map(_is_plain, data.tensors)) else None
    several = getattr(data, "__getitems__", None)
    return partial(_fetched, several) if callable(several) else None


def _is_plain(data: torch.Tensor) -> bool:
    strided = type(data) is torch.Tensor and data.layout is torch.strided and data.device.type == "cpu"
    return strided and data.dim() > 0 and not data.requires_grad


def _selected(data: torch.Tensor, positions: Sequence[int]) -> torch.Tensor:
    return _rows(data, torch.tensor(positions))


def _selected_of_each(data: Sequence[torch.Tensor], positions: Sequence[int]) -> list[torch.Tensor]:
    chosen = torch.tensor(positions)
    return [_rows(each, chosen) for each in data]


def _rows(data: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return torch.index_select(data, 0, chosen, out=batches.empty((len(chosen), *data.shape[1:]), data.dtype))


def _fetched(several: Callable[[list[int]], Sequence[Any]], positions: Sequence[int]) -> Any:
    return batches.collated(list(several(list(positions))))
