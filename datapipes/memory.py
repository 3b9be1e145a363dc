"""Where the memory of new batches comes from.

By default torch allocates it. Somebody who is going to send batches away can give memory that they travel in, so that
they are made there and need not be copied: a worker does so for what it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import torch
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import collate, default_collate_fn_map

Allocate = Callable[[int], Any]
"""Takes a number of bytes; returns a writable buffer of that size, or None if it has none to give."""

_SMALL = 1 << 15  # bytes; what is smaller is not worth a buffer of its own

_allocate: ContextVar[Allocate | None] = ContextVar("allocate", default=None)


def batches_from(allocate: Allocate | None) -> None:
    """Have the batches that this thread makes from now on lie in memory from ``allocate``."""
    _allocate.set(allocate)


@contextmanager
def batches_may_be_from(allocate: Allocate) -> Iterator[None]:
    """Have batches lie in memory from ``allocate`` for a while, unless somebody has said already where they lie."""
    if _allocate.get() is not None:
        yield
        return
    before = _allocate.set(allocate)
    try:
        yield
    finally:
        _allocate.reset(before)


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor | None:
    """A tensor in such memory, not yet filled; None if torch may as well allocate it itself."""
    allocate = _allocate.get()
    size = prod(shape) * dtype.itemsize
    buffer = None if allocate is None or size < _SMALL else allocate(size)
    return None if buffer is None else torch.frombuffer(buffer, dtype=dtype).view(*shape)


def collated(batch: Any) -> Any:
    """``torch.utils.data.default_collate``, in such memory."""
    if _allocate.get() is None:
        return default_collate(batch)
    return collate(batch, collate_fn_map=_COLLATE)


def _stacked(batch: Sequence[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    first = batch[0]
    plain = all(type(row) is torch.Tensor and row.dtype == first.dtype and row.shape == first.shape for row in batch)
    if not plain or first.layout is not torch.strided or first.device.type != "cpu" or _needs_grad(batch):
        stacked: torch.Tensor = default_collate_fn_map[torch.Tensor](batch, collate_fn_map=collate_fn_map)
        return stacked
    return torch.stack(list(batch), out=empty((len(batch), *first.shape), first.dtype))


def _needs_grad(batch: Sequence[torch.Tensor]) -> bool:
    return any(row.requires_grad for row in batch)


_COLLATE = {**default_collate_fn_map, torch.Tensor: _stacked}
