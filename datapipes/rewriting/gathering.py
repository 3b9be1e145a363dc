"""Gathering: a batch of rows is read at once, directly into the memory of the batch.

``rows.batch(n).collate()`` reads n elements one after another and then copies them. If the rows are those of tensors,
arrays or tables, or of a data set that returns several at once (torch's ``__getitems__``), batching and reading
commute: positions are batched first, and then the rows at these positions are gathered. A session rewrites ``collate``
with torch's own function in this way (``_rewritten_for_run``). The stream above has to name its rows (``_positions``):
a map-style pipe as a stream, or a part of it (``header``, ``skip``), shuffled or not, sharded or not. For tables, whose
rows no user's code makes, ``batch`` alone reads its rows at once as well.

The elements and their order are the same, with one visible difference. If ``__getitems__`` raises, the whole batch is
lost, as in torch's DataLoader, and ``header`` counts its rows. Rows that come as one tensor or array stay one.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.data import TensorDataset

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.memory import batches
from datapipes.position.seeds import Run

Gather = Callable[[Any], Any]
"""Takes positions: a list of numbers, or a tensor of them."""


class BatchAccess(NamedTuple):
    """Functions that make the rows at some positions in one call. None: rows can only be read one by one."""

    collated: Gather | None = None
    """Returns the batch of tensors."""
    listed: Gather | None = None
    """Returns the list of rows."""


class RowStream(NamedTuple):
    """A stream of rows: a stream of positions, and the stream in which they are positions."""

    positions: Pipe
    rows: Pipe
    at_once: BatchAccess = BatchAccess()

    def below(self, stage: Pipe) -> RowStream:
        """Return the same rows, at those of the positions that a stage hands on."""
        return self._replace(positions=structure.with_parents(stage, lambda _: self.positions))


def rows_of(pipe: Pipe) -> RowStream | None:
    """Return the rows of a collection that a stream reads, or None if it reads no rows of one."""
    found: RowStream | None = pipe._positions() if structure.is_native(pipe) else None
    return found


def is_held(run: Run, stage: Pipe) -> bool:
    """Return whether a saved position has rows in a stage or above it, so that they cannot be replaced by positions."""
    return False in [run.held.get(structure.place_of(each)) for each in structure.walk(stage)]


def at_once(collection: Any, indices: Sequence[Any]) -> BatchAccess:
    """Return the functions that read several elements of a collection, at positions in ``indices``, in one call."""
    if type(indices) is not range or (indices and min(indices[0], indices[-1]) < 0):
        return BatchAccess()
    own = vars(type(collection))  # a subclass of a wrapper may return other rows
    if "_collated" in own:
        found = BatchAccess(collection._collated, collection._rows)
    else:
        given_as = own.get("_identified_by")
        data = collection if given_as is None else vars(collection)[given_as]
        found = BatchAccess(batches_of(data), _listed_by(data))
    if indices == range(len(indices)):
        return found
    return BatchAccess(*[None if call is None else partial(_elsewhere, call, indices) for call in found])


def _elsewhere(call: Gather, indices: range, positions: Sequence[int]) -> Any:
    return call([indices[i] for i in _listed(positions)])


def _listed_by(data: Any) -> Gather | None:
    """Return the function that reads rows of a Hugging Face data set at once, if they come as they do one by one."""
    is_theirs = _is_of_hugging_face(data) and data.format["type"] in (None, "numpy", "torch")
    return data.__getitems__ if is_theirs else None


def _is_of_hugging_face(data: Any) -> bool:
    return type(data) is getattr(sys.modules.get("datasets"), "Dataset", None)


def batches_of(data: Any) -> Gather | None:
    """Return a function from positions to the batch that ``default_collate`` makes of the rows there.

    Return None if rows of this data can only be read one by one.

    >>> rows = torch.utils.data.TensorDataset(torch.arange(6).view(3, 2), torch.arange(3))
    >>> batches_of(rows)([2, 0])
    [tensor([[4, 5],
            [0, 1]]), tensor([2, 0])]
    """
    if type(data) is torch.Tensor:
        return partial(_selected, data) if _is_plain(data) else None
    if type(data) is TensorDataset:
        return partial(_selected_of_each, data.tensors) if all(map(_is_plain, data.tensors)) else None
    if _is_plain_array(data):
        return partial(_taken, data)
    if _is_of_hugging_face(data):
        return partial(_columns, data)
    several = getattr(data, "__getitems__", None)
    return partial(_fetched, several) if callable(several) else None


def _is_plain(data: torch.Tensor) -> bool:
    strided = type(data) is torch.Tensor and data.layout is torch.strided and data.device.type == "cpu"
    return strided and data.dim() > 0 and not data.requires_grad


def _is_plain_array(data: Any) -> bool:
    """Return whether the rows of a numpy array are arrays of a dtype and memory layout that torch supports."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(data) not in (numpy.ndarray, numpy.memmap) or data.ndim < 2:
        return False
    strides = all(stride >= 0 and stride % data.itemsize == 0 for stride in data.strides)
    return strides and data.dtype.kind in "biufc" and data.dtype.isnative and _dtype_of(data) is not None


def _dtype_of(data: Any) -> torch.dtype | None:
    try:
        return torch.as_tensor(data[:0].copy()).dtype
    except TypeError:  # such as the long numbers of some machines
        return None


def _listed(positions: Sequence[int] | torch.Tensor) -> list[int]:
    return positions.tolist() if isinstance(positions, torch.Tensor) else list(positions)


def _chosen(positions: Sequence[int] | torch.Tensor) -> torch.Tensor:
    if isinstance(positions, torch.Tensor):
        return positions
    return torch.frombuffer(array("q", positions), dtype=torch.int64)  # takes an eighth of the time of torch.tensor


def _selected(data: torch.Tensor, positions: Sequence[int]) -> torch.Tensor:
    return _rows(data, _chosen(positions))


def _selected_of_each(data: Sequence[torch.Tensor], positions: Sequence[int]) -> list[torch.Tensor]:
    chosen = _chosen(positions)
    return [_rows(each, chosen) for each in data]


def _rows(data: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return torch.index_select(data, 0, chosen, out=batches.empty((len(chosen), *data.shape[1:]), data.dtype))


def _taken(data: Any, positions: Sequence[int]) -> torch.Tensor:
    dtype, chosen = _dtype_of(data), _chosen(positions).numpy()
    data[chosen.max()]  # raises an error for a missing position: mode="clip" is fast but does not check
    rows = _new((len(positions), *data.shape[1:]), dtype)
    data.take(chosen, axis=0, out=rows.numpy(), mode="clip")
    return rows


def _fetched(several: Callable[[list[int]], Sequence[Any]], positions: Sequence[int]) -> Any:
    return _as_one(several(_listed(positions)))


def _columns(data: Any, positions: Sequence[int]) -> dict[str, Any]:
    # Its __getitems__ would split the columns of this batch into rows.
    return {name: _as_one(column) for name, column in data[_listed(positions)].items()}


def _as_one(rows: Any) -> Any:
    if type(rows) is not torch.Tensor and _is_plain_array(rows):
        rows = torch.as_tensor(rows)
    if type(rows) is torch.Tensor and _is_plain(rows) and len(rows):
        return _new(rows.shape, rows.dtype).copy_(rows)  # a copy: the data set may keep the memory of `rows`
    return batches.collated(list(rows))


def _new(shape: Sequence[int], dtype: torch.dtype | None) -> torch.Tensor:
    memory = None if dtype is None else batches.empty(shape, dtype)
    return torch.empty(tuple(shape), dtype=dtype) if memory is None else memory
