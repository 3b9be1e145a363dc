"""Rebatching: rows regrouped as batches of other sizes, and whole batches joined.

A batch is a structure of tensors whose first dimension counts rows, and of lists of texts, one a row. No row is lost,
except in a last, incomplete batch that the caller does not want. No row comes twice, and all stay in order. A batch of
the right size passes unchanged. Others are copied once, into memory that can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import torch

from datapipes.errors import BadArgument
from datapipes.memory import batches as memory
from reading_services.ipu.names.custom_types import columns_of, of_columns, tensors_of


def rebatched(batches: Iterable[Any], size: int, keep_rest: bool) -> Iterator[Any]:
    """Yield all rows in batches of exactly ``size``. With ``keep_rest``, the last one may be smaller.

    >>> list(rebatched([torch.tensor([0, 1, 2]), torch.tensor([3]), torch.tensor([4, 5])], size=4, keep_rest=True))
    [tensor([0, 1, 2, 3]), tensor([4, 5])]
    """
    waiting = WaitingBatches()
    for batch in batches:
        waiting.add(batch)
        del batch  # the consumer must hold the only reference
        while waiting.rows >= size:
            yield waiting.taken(size)
    if waiting.rows and keep_rest:
        yield waiting.taken(waiting.rows)


class WaitingBatches:
    """Queue of batches whose rows wait for more."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.rows = 0

    def add(self, batch: Any) -> None:
        """Append the rows of a batch."""
        self.rows += rows_of(batch)
        self.batches.append(batch)

    def taken(self, rows: int) -> Any:
        """Remove this many rows from the front, and return them as one batch."""
        self.rows -= rows
        taken: list[Any] = []
        while rows:
            count = rows_of(self.batches[0])
            if count <= rows:
                taken.append(self.batches.pop(0))
            else:
                taken.append(_rows(self.batches[0], slice(rows)))
                self.batches[0] = _rows(self.batches[0], slice(rows, None))
            rows -= min(count, rows)
        return joined(taken)


def grouped(batches: Iterable[Any], count: int, keep_rest: bool) -> Iterator[Any]:
    """Join ``count`` batches at a time, and yield them. With ``keep_rest``, the last group may be smaller.

    >>> list(grouped([torch.tensor([0]), torch.tensor([1, 2]), torch.tensor([3])], count=2, keep_rest=False))
    [tensor([0, 1, 2])]
    """
    iterator = iter(batches)
    while (group := list(islice(iterator, count))) and (len(group) == count or keep_rest):
        whole = joined(group)
        group.clear()
        yield whole
        del whole


def joined(batches: list[Any]) -> Any:
    """Return one batch with the rows of several. Leaves that are not columns are those of the last batch."""
    if len(batches) == 1:
        return batches[0]
    columns = zip(*map(columns_of, batches), strict=True)
    return of_columns(batches[-1], [_concatenated(parts) for parts in columns])


def rows_of(batch: Any) -> int:
    """Return the number of rows of a batch: the first dimension of its tensors. Raise BadArgument if they differ."""
    counts = {_length(column) for column in columns_of(batch)}
    if len(counts) != 1 or None in counts:
        raise BadArgument(
            "rows can only be regrouped in batches of tensors that all have the same first dimension; "
            f"these have {[tuple(tensor.shape) for tensor in tensors_of(batch)]}"
        )
    (count,) = counts
    return count or 0


def _length(column: Any) -> int | None:
    if isinstance(column, torch.Tensor):
        return column.shape[0] if column.dim() else None
    return len(column)


def _rows(batch: Any, rows: slice) -> Any:
    return of_columns(batch, [column[rows] for column in columns_of(batch)])


def _concatenated(parts: tuple[Any, ...]) -> Any:
    first = parts[0]
    if not isinstance(first, torch.Tensor):
        return type(first)(chain.from_iterable(parts))
    same = all(type(part) is torch.Tensor and part.dtype == first.dtype and not part.requires_grad for part in parts)
    if not same or first.layout is not torch.strided or first.device.type != "cpu" or not first.dim():
        return torch.cat(parts)
    rows = sum(part.shape[0] for part in parts)
    return torch.cat(parts, out=memory.empty((rows, *first.shape[1:]), first.dtype))
