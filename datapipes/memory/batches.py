"""Allocation of new batches, from recycled or given memory.

Small batches are torch's to allocate. Memory for large ones is kept for the next when nobody refers to a batch any
more: the system clears each page that it gives, which takes several times as long as filling it. Somebody who is going
to send batches away can give memory that they travel in, so that they are made there and need not be copied: a worker
does so for what it makes.
"""

from __future__ import annotations

import mmap
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any, cast

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from datapipes.memory.leases import lend

Allocate = Callable[[int], Any]
"""Takes a number of bytes; returns a writable buffer of that size, or None if it has none to give."""

_SMALL = 1 << 15  # bytes; what is smaller is not worth a buffer of its own
_KEPT = 4  # pieces of memory that wait for the next batch; seldom more than were in use at once
_LARGE = 1 << 20  # bytes; below, torch's allocator does as well
_HUGE = 1 << 22  # bytes; below, the last part that fills no huge page is too large a part

_allocate: ContextVar[Allocate | None] = ContextVar("allocate", default=None)


class _Recycled:
    """Pool of memory of batches that are gone, for those to come."""

    def __init__(self) -> None:
        self._waiting: deque[mmap.mmap] = deque(maxlen=_KEPT)  # the one that has waited longest goes

    def allocate(self, size: int) -> memoryview | None:
        if size < _LARGE:
            return None
        memory = self._found(size) or _mapped(size)
        return lend(memory, 0, size, partial(self._waiting.append, memory))[1]

    def _found(self, size: int) -> mmap.mmap | None:
        for memory in list(self._waiting):
            if size <= len(memory) <= 2 * size:
                with suppress(ValueError):  # another thread has taken it in between
                    self._waiting.remove(memory)
                    return memory
        return None


def _mapped(size: int) -> mmap.mmap:
    """New memory, in huge pages where the system has some: a page costs several times as long as filling it.

    The elements of a batch are freed together, and malloc gives their pages back to the system, to get them anew for
    the next batch, unless a piece as large as a batch was freed before: then it knows that such sizes come and go.
    """
    torch.empty(size, dtype=torch.uint8, device="cpu")
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE:
        with suppress(AttributeError, OSError):  # no Linux, or one that was built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


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
    try:
        return collate(batch, collate_fn_map=_COLLATE)
    except (TypeError, LookupError) as error:
        if isinstance(batch, list | tuple):
            raise
        raise TypeError(
            f"collate() was given an element of type {type(batch).__name__}, which is no batch: "
            "put .batch(n) in front of .collate()"
        ) from error


def _stacked(batch: Sequence[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    first = batch[0]
    plain = type(first) is torch.Tensor and first.layout is torch.strided and not first.is_nested
    memory = empty((len(batch), *first.shape), first.dtype) if plain and first.device.type == "cpu" else None
    # Nothing is asked of the rows of a small batch; but in torch's workers its own function would take a file for each.
    asked = memory is not None or (plain and get_worker_info() is not None)
    if asked and set(map(type, batch)) == {torch.Tensor} and len(set(map(_dtype_of, batch))) == 1:
        with suppress(RuntimeError):  # rows of several sizes or devices, or that need gradients
            return torch.stack(list(batch), out=memory)
    return cast("torch.Tensor", default_collate_fn_map[torch.Tensor](batch, collate_fn_map=collate_fn_map))


def _stacked_arrays(batch: Sequence[Any], *, collate_fn_map: Any = None) -> torch.Tensor:
    """The tensor of arrays that lie in memory alike: torch's own function makes a tensor of each."""
    first, numpy = batch[0], sys.modules["numpy"]
    plain = first.ndim and first.dtype.kind in "biufc" and set(map(type, batch)) <= {numpy.ndarray, numpy.memmap}
    if not plain or len(set(map(_layout_of, batch))) > 1:
        return cast("torch.Tensor", default_collate_fn_map[numpy.ndarray](batch, collate_fn_map=collate_fn_map))
    shape, dtype = (len(batch), *first.shape), torch.as_tensor(first).dtype  # or torch's error
    memory = empty(shape, dtype)
    stacked = torch.empty(shape, dtype=dtype) if memory is None else memory
    numpy.concatenate(batch, out=stacked.numpy().reshape(shape[0] * shape[1], *shape[2:]))
    return stacked


_dtype_of = attrgetter("dtype")
_layout_of = attrgetter("dtype", "shape", "strides")
_COLLATE = {**default_collate_fn_map, torch.Tensor: _stacked}
if "numpy" in sys.modules:  # torch has imported it if it is there
    _COLLATE[sys.modules["numpy"].ndarray] = _stacked_arrays
