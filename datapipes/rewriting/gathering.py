"""Gathering: a batch of rows is read at once, straight into the memory that the batch lies in.

``rows.batch(n).collate()`` reads n elements one after the other, and then copies them side by side. Where the rows are
those of tensors, arrays or tables, or of a data set that can give several at once (torch's ``__getitems__``), batching
and reading commute: a batch of positions is made first, and what is at them is gathered. So ``collate`` with torch's
own function becomes in a session (``_in_run``), behind streams that say which rows they read (``_positions``): a
map-style pipe as a stream, or some of it (``header``, ``skip``), shuffled or not, sharded or not (by then
``datapipes.rewriting.pushdown`` has put reading below the shard). Of tables, whose rows no code of a user's makes,
``batch`` alone reads its rows at once as well.

The elements are the same, in the same order. One difference can be seen: where ``__getitems__`` raises, the whole batch
is lost, as it is in torch's DataLoader, and its rows are among those that ``header`` counts. What it gives as rows of
one tensor, or of one array, stays one.
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


class AtOnce(NamedTuple):
    """What can be made of the rows at some positions by one call; None where they can only be had one by one."""

    collated: Gather | None = None
    """The batch of tensors."""
    listed: Gather | None = None
    """The list of rows."""


class Rows(NamedTuple):
    """A stream of rows: a stream of positions, and the stream that they are the positions in."""

    positions: Pipe
    rows: Pipe
    at_once: AtOnce = AtOnce()

    def below(self, stage: Pipe) -> Rows:
        """The same rows, at the positions that a stage hands on of these."""
        return self._replace(positions=structure.with_parents(stage, lambda _: self.positions))


def rows_of(pipe: Pipe) -> Rows | None:
    """The rows of a collection that a stream reads; None where it is no such stream."""
    found: Rows | None = pipe._positions() if structure.is_native(pipe) else None
    return found


def is_held(run: Run, stage: Pipe) -> bool:
    """Whether a saved position has rows in a stage or in one above it, so that these cannot be positions."""
    return False in [run.held.get(structure.place_of(each)) for each in structure.walk(stage)]


def at_once(collection: Any, indices: Sequence[Any]) -> AtOnce:
    """What can be made by one call of the elements of a collection at some positions in ``indices``."""
    if type(indices) is not range or (indices and min(indices[0], indices[-1]) < 0):
        return AtOnce()
    own = vars(type(collection))  # what is derived from a wrapper may give other rows
    if "_collated" in own:
        found = AtOnce(collection._collated, collection._rows)
    else:
        given_as = own.get("_identified_by")
        data = collection if given_as is None else vars(collection)[given_as]
        found = AtOnce(batches_of(data), _listed_by(data))
    if indices == range(len(indices)):
        return found
    return AtOnce(*[None if call is None else partial(_elsewhere, call, indices) for call in found])


def _elsewhere(call: Gather, indices: range, positions: Sequence[int]) -> Any:
    return call([indices[i] for i in _listed(positions)])


def _listed_by(data: Any) -> Gather | None:
    """How rows of a data set of Hugging Face's are read at once, where they come as they do one by one."""
    is_theirs = _is_of_hugging_face(data) and data.format["type"] in (None, "numpy", "torch")
    return data.__getitems__ if is_theirs else None


def _is_of_hugging_face(data: Any) -> bool:
    return type(data) is getattr(sys.modules.get("datasets"), "Dataset", None)


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
    """Whether the rows of an array of numpy are arrays that torch has a type for, and that it takes as they lie."""
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
    return torch.frombuffer(array("q", positions), dtype=torch.int64)  # an eighth of what torch.tensor takes


def _selected(data: torch.Tensor, positions: Sequence[int]) -> torch.Tensor:
    return _rows(data, _chosen(positions))


def _selected_of_each(data: Sequence[torch.Tensor], positions: Sequence[int]) -> list[torch.Tensor]:
    chosen = _chosen(positions)
    return [_rows(each, chosen) for each in data]


def _rows(data: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return torch.index_select(data, 0, chosen, out=batches.empty((len(chosen), *data.shape[1:]), data.dtype))


def _taken(data: Any, positions: Sequence[int]) -> torch.Tensor:
    dtype, chosen = _dtype_of(data), _chosen(positions).numpy()
    data[chosen.max()]  # an error if it is not there: the quick way to take many does not look
    rows = _new((len(positions), *data.shape[1:]), dtype)
    data.take(chosen, axis=0, out=rows.numpy(), mode="clip")
    return rows


def _fetched(several: Callable[[list[int]], Sequence[Any]], positions: Sequence[int]) -> Any:
    return _as_one(several(_listed(positions)))


def _columns(data: Any, positions: Sequence[int]) -> dict[str, Any]:
    # Its __getitems__ takes the columns of this batch apart into rows.
    return {name: _as_one(column) for name, column in data[_listed(positions)].items()}


def _as_one(rows: Any) -> Any:
    if type(rows) is not torch.Tensor and _is_plain_array(rows):
        rows = torch.as_tensor(rows)
    if type(rows) is torch.Tensor and _is_plain(rows) and len(rows):
        return _new(rows.shape, rows.dtype).copy_(rows)  # which may be a part of what the data set keeps
    return batches.collated(list(rows))


def _new(shape: Sequence[int], dtype: torch.dtype | None) -> torch.Tensor:
    memory = None if dtype is None else batches.empty(shape, dtype)
    return torch.empty(tuple(shape), dtype=dtype) if memory is None else memory
