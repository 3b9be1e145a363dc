"""Batches of other sizes: rows regrouped, and whole batches put together.

A batch is a structure of tensors whose first dimension counts rows. No row is lost, but for a last, incomplete batch
that is not wanted; no row comes twice, and all stay in order. A batch that has the right size already is handed on as
it is; others are copied once, into memory that they can travel in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch

from datapipes import memory
from datapipes.errors import BadArgument
from reading_services.ipu.custom_types import rebuilt, tensors_of


def rebatched(batches: Iterable[Any], size: int, keep_rest: bool) -> Iterator[Any]:
    """The rows of all batches in batches of exactly ``size``; ``keep_rest``: the last one may be smaller.

    >>> list(rebatched([torch.tensor([0, 1, 2]), torch.tensor([3]), torch.tensor([4, 5])], size=4, keep_rest=True))
    [tensor([0, 1, 2, 3]), tensor([4, 5])]
    """
    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += rows_of(batch)
        del batch  # whoever is given it is the only one to have it
        while rows >= size:
            rows -= size
            yield _first(waiting, size)
    if rows and keep_rest:
        yield _first(waiting, rows)


def grouped(batches: Iterable[Any], count: int, keep_rest: bool) -> Iterator[Any]:
    """So many batches at a time, put together; ``keep_rest``: the last group may be smaller.

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
    """One batch of the rows of several; what is no tensor is that of the last one."""
    if len(batches) == 1:
        return batches[0]
    columns = zip(*map(tensors_of, batches), strict=True)
    return rebuilt(batches[-1], [_concatenated(parts) for parts in columns])


def rows_of(batch: Any) -> int:
    """The number of rows of a batch: the first dimension, in which all of its tensors must agree."""
    counts = {tensor.shape[0] if tensor.dim() else None for tensor in tensors_of(batch)}
    if len(counts) != 1 or None in counts:
        raise BadArgument(
            "rows can only be regrouped in batches of tensors that all have the same first dimension; these have "
            f"{[tuple(tensor.shape) for tensor in tensors_of(batch)]}"
        )
    (count,) = counts
    return count or 0


def _first(waiting: list[Any], rows: int) -> Any:
    """Take so many rows off the front of what waits."""
    taken: list[Any] = []
    while rows:
        count = rows_of(waiting[0])
        if count <= rows:
            taken.append(waiting.pop(0))
        else:
            taken.append(_rows(waiting[0], slice(rows)))
            waiting[0] = _rows(waiting[0], slice(rows, None))
        rows -= min(count, rows)
    return joined(taken)


def _rows(batch: Any, rows: slice) -> Any:
    return rebuilt(batch, [tensor[rows] for tensor in tensors_of(batch)])


def _concatenated(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    first = parts[0]
    same = all(type(part) is torch.Tensor and part.dtype == first.dtype and not part.requires_grad for part in parts)
    if not same or first.layout is not torch.strided or first.device.type != "cpu" or not first.dim():
        return torch.cat(parts)
    rows = sum(part.shape[0] for part in parts)
    return torch.cat(parts, out=memory.empty((rows, *first.shape[1:]), first.dtype))
