"""Allocation of new batches, from recycled or given memory.

torch allocates small batches. Memory of a large batch is kept for the next one when the last reference to the batch is
gone: the system clears each new page, which takes several times as long as filling it. A caller that sends batches away
can provide the memory in which they travel. They are then made in place and need no copy, as in a worker.
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
from datapipes.messages.warnings import warn

Allocate = Callable[[int], Any]
"""Takes a number of bytes. Returns a writable buffer of that size, or None if no memory is available."""

_SMALL = 1 << 15  # bytes; a smaller batch is not worth a buffer of its own
_KEPT = 4  # pieces of memory that are kept for the next batch; seldom more than were in use at once
_LARGE = 1 << 20  # bytes; torch's allocator is as good for smaller ones
_MANY = 16  # numbers in a list that is probably a sequence, not a row of columns
_HUGE = 1 << 22  # bytes; in smaller ones, the end that fills no huge page is too large a part

_allocate: ContextVar[Allocate | None] = ContextVar("allocate", default=None)


class _Recycled:
    """Memory of batches that are gone, for the next ones."""

    def __init__(self) -> None:
        self._waiting: deque[mmap.mmap] = deque(maxlen=_KEPT)  # the oldest one is dropped

    def allocate(self, size: int) -> memoryview | None:
        if size < _LARGE:
            return None
        memory = self._found(size) or _mapped(size)
        return lend(memory, 0, size, partial(self._waiting.append, memory))[1]

    def _found(self, size: int) -> mmap.mmap | None:
        for memory in list(self._waiting):
            if size <= len(memory) <= 2 * size:
                with suppress(ValueError):  # another thread has taken it in the meantime
                    self._waiting.remove(memory)
                    return memory
        return None


def _mapped(size: int) -> mmap.mmap:
    """Map new memory, in huge pages if the system has them.

    The elements of a batch are freed together. malloc then returns their pages to the system and requests new ones for
    the next batch. Freeing a piece as large as a batch once, before, makes malloc keep such sizes.
    """
    torch.empty(size, dtype=torch.uint8, device="cpu")
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE:
        with suppress(AttributeError, OSError):  # not Linux, or a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


_recycled = _Recycled()


def batches_from(allocate: Allocate | None) -> None:
    """Use memory from ``allocate`` for the batches that this thread makes from now on. None: recycled memory."""
    _allocate.set(allocate)


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor | None:
    """Return an uninitialized tensor in provided or recycled memory. Return None if torch should allocate it."""
    size = prod(shape) * dtype.itemsize
    buffer = None if size < _SMALL else (_allocate.get() or _recycled.allocate)(size)
    return None if buffer is None else torch.frombuffer(buffer, dtype=dtype).view(*shape)


def collated(batch: Any) -> Any:
    """Collate a batch into provided or recycled memory, as ``torch.utils.data.default_collate`` does."""
    try:
        return collate(batch, collate_fn_map=_COLLATE)
    except (TypeError, LookupError) as error:
        if isinstance(batch, list | tuple):
            raise
        raise TypeError(
            f"collate() was given an element of type {type(batch).__name__}, which is not a batch: "
            "put .batch(n) above .collate()"
        ) from error


def _stacked(batch: Sequence[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    first = batch[0]
    plain = type(first) is torch.Tensor and first.layout is torch.strided and not first.is_nested
    memory = empty((len(batch), *first.shape), first.dtype) if plain and first.device.type == "cpu" else None
    # The rows of a small batch are not inspected. In torch's workers they are: torch's own function would use a
    # file for each batch.
    asked = memory is not None or (plain and get_worker_info() is not None)
    if asked and set(map(type, batch)) == {torch.Tensor} and len(set(map(_dtype_of, batch))) == 1:
        with suppress(RuntimeError):  # rows of different sizes or devices, or rows that need gradients
            return torch.stack(list(batch), out=memory)
    return cast("torch.Tensor", default_collate_fn_map[torch.Tensor](batch, collate_fn_map=collate_fn_map))


def _stacked_arrays(batch: Sequence[Any], *, collate_fn_map: Any = None) -> torch.Tensor:
    """Stack arrays of the same layout into one tensor. torch's own function would make a tensor of each array."""
    first, numpy = batch[0], sys.modules["numpy"]
    plain = first.ndim and first.dtype.kind in "biufc" and set(map(type, batch)) <= {numpy.ndarray, numpy.memmap}
    if not plain or len(set(map(_layout_of, batch))) > 1:
        return cast("torch.Tensor", default_collate_fn_map[numpy.ndarray](batch, collate_fn_map=collate_fn_map))
    shape, dtype = (len(batch), *first.shape), torch.as_tensor(first).dtype  # raises torch's error for other dtypes
    memory = empty(shape, dtype)
    stacked = torch.empty(shape, dtype=dtype) if memory is None else memory
    numpy.concatenate(batch, out=stacked.numpy().reshape(shape[0] * shape[1], *shape[2:]))
    return stacked


def _transposed(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Collate lists as torch does: position by position. Warn once if this makes a tensor of each token's position."""
    first = batch[0]
    if len(first) >= _MANY and type(first[0]) in (int, float, bool) and not _warned:
        warn(
            f"collate() makes {len(first)} tensors of a batch of lists of {len(first)} numbers, one for each position "
            "in the lists: make tensors of the lists above batch(), by pack() for tokens or else by .map(torch.tensor)"
        )
        _warned.append(True)
    if type(first) is not list or set(map(len, batch)) != {len(first)}:
        return collate(batch, collate_fn_map={kind: fn for kind, fn in collate_fn_map.items() if kind is not list})
    return [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]


_warned: list[bool] = []  # that lists of many numbers were collated
_dtype_of = attrgetter("dtype")
_layout_of = attrgetter("dtype", "shape", "strides")
_COLLATE = {**default_collate_fn_map, torch.Tensor: _stacked, list: _transposed}
if "numpy" in sys.modules:  # torch has imported it if it is there
    _COLLATE[sys.modules["numpy"].ndarray] = _stacked_arrays
