"""Allocation of new batches, from recycled or given memory.

Small batches are torch's to allocate. Memory for large ones is kept for the next when nobody refers to a batch any
more: the system clears each page that it gives, which takes several times as long as filling it. Somebody who is going
to send batches away can give memory that they travel in, so that they are made there and need not be copied: a worker
does so for what it makes.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from math import prod
from typing import Any

import torch
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from datapipes.memory.leases import lend

Allocate = Callable[[int], Any]
"""Takes a number of bytes; returns a writable buffer of that size, or None if it has none to give."""

_SMALL = 1 << 15  # bytes; what is smaller is not worth a buffer of its own
_KEPT = 4  # pieces of memory that wait for the next batch; seldom more than were in use at once
_LARGE = 1 << 20  # bytes; below, torch's allocator does as well

_allocate: ContextVar[Allocate | None] = ContextVar("allocate", default=None)


class _Recycled:
    """Pool of memory of batches that are gone, for those to come."""

    def __init__(self) -> None:
        self._waiting: deque[mmap.mmap] = deque(maxlen=_KEPT)  # the one that has waited longest goes

    def allocate(self, size: int) -> memoryview | None:
        if size < _LARGE:
            return None
        memory = self._found(size) or mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return lend(memory, 0, size, partial(self._waiting.append, memory))[1]

    def _found(self, size: int) -> mmap.mmap | None:
        for memory in list(self._waiting):
            if size <= len(memory) <= 2 * size:
                with suppress(ValueError):  # another thread has taken it in between
                    self._waiting.remove(memory)
                    return memory
        return None


_recycled = _Recycled()


def batches_from(allocate: Allocate | None) -> None:
    """Have the batches that this thread makes from now on lie in memory from ``allocate``."""
    _allocate.set(allocate)


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor | None:
    """An uninitialized tensor in given or recycled memory; None if torch may as well allocate it itself."""
    size = prod(shape) * dtype.itemsize
    buffer = None if size < _SMALL else (_allocate.get() or _recycled.allocate)(size)
    return None if buffer is None else torch.frombuffer(buffer, dtype=dtype).view(*shape)


def collated(batch: Any) -> Any:
    """``torch.utils.data.default_collate`` into given or recycled memory."""
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
