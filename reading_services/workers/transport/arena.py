"""Shared memory of two processes, and the leases on its slots.

One process writes and one reads. The writer takes a slot, fills it and sends the reader its offset. The reader's arrays
lie in the slot. When the last of them is deleted, the reader sets the slot's flag, a byte in the same memory, and the
writer may reuse the slot. No frame is sent for this, and no slot is overwritten while it is in use. If the reader keeps
all slots, the writer finds no room and sends its elements through the pipe.

The writer can also reserve a slot and make elements in it. A reserved slot is sent without a copy if the writer's
process has no reference to it any more; otherwise the reader gets a copy. The memory has a file descriptor and no name,
so it is freed however the processes end. Neither side closes it: it is freed with the last array that lies in it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from bisect import insort
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from datapipes.memory.leases import lend
from datapipes.position.forks import OwnerProcess, tell_of_forks

_FLAGS = 4096
"""The most slots that are taken at a time. Their flags, one byte each, are at the start of the memory."""
ALIGNED = 64
_FREE = 1


def create(size: int) -> int:
    """Return the descriptor of a new arena of ``size`` bytes. The system allocates a page when it is first written."""
    fd = os.memfd_create("loader2-arena", os.MFD_CLOEXEC)
    os.truncate(fd, _FLAGS + aligned(size))
    return fd


class NoRoom:
    """The writer of a link without shared memory: all data goes through the pipe."""

    lock: AbstractContextManager[object] = nullcontext()

    def put(self, buffers: Iterable[memoryview]) -> None:
        """Return None: there is no room."""

    def reserve(self, size: int) -> None:
        """Return None: there is no room."""

    def reserved_at(self, part: memoryview) -> None:
        """Return None: nothing is reserved."""

    def copy_kept_values(self, offset: int) -> None:
        """Return None: nothing is reserved."""


class Writer:
    """The writing side of an arena: it takes slots and fills them."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, 0)
        self._view = memoryview(self._memory)
        self._start = ctypes.addressof(ctypes.c_ubyte.from_buffer(self._memory))
        self._free = [(_FLAGS, len(self._memory) - _FLAGS)]  # free ranges (offset, size), by offset
        self._taken: dict[int, tuple[int, int]] = {}  # flag: (offset, size)
        self._flags = list(range(_FLAGS))
        self._reserved: dict[int, tuple[int, int, weakref.ref[Any]]] = {}  # offset: (flag, size, owner of the lease)
        self.lock = threading.RLock()  # one thread may reserve a slot while another sends one
        tell_of_forks(self)

    def forked(self) -> None:
        self.lock = threading.RLock()  # a thread that the fork did not copy may hold the old one

    def put(self, buffers: Iterable[memoryview]) -> tuple[int, int, int] | None:
        """Copy buffers into one slot, each aligned. Return (flag, offset, size), or None if there is no room."""
        parts = list(buffers)
        size = sum(aligned(part.nbytes) for part in parts)
        slot = self._take(size)
        if slot is None:
            return None
        flag, offset = slot
        at = offset
        for part in parts:
            self._view[at : at + part.nbytes] = part
            at += aligned(part.nbytes)
        return flag, offset, size

    def reserve(self, size: int) -> memoryview | None:
        """Return a slot to be filled in place, or None if there is no room."""
        slot = self._take(aligned(size))
        if slot is None:
            return None
        flag, offset = slot
        owner, view = _lease(self._memory, flag, offset, size)
        self._reserved[offset] = flag, size, weakref.ref(owner)
        return view

    def reserved_at(self, part: memoryview) -> int | None:
        """Return the offset of the reserved slot that a buffer fills, or None if the buffer is no reserved slot."""
        offset = ctypes.addressof(ctypes.c_ubyte.from_buffer(part)) - self._start if not part.readonly else -1
        found = self._reserved.get(offset)
        return offset if found is not None and found[1] == part.nbytes else None

    def copy_kept_values(self, offset: int) -> tuple[int, int, int] | memoryview:
        """Return (flag, offset, size) of a reserved slot without references here, or else its bytes, to be copied.

        The caller takes ``lock`` before it drops its own references. Otherwise another thread could reclaim the slot.
        """
        flag, size, owner = self._reserved[offset]
        if (lease := owner()) is not None:
            return memoryview(lease).cast("B")  # it keeps the slot until the copy is made
        del self._reserved[offset]
        self._memory[flag] = 0  # it was set when the last reference was dropped
        return flag, offset, size

    def _take(self, size: int) -> tuple[int, int] | None:
        """Take the room at the lowest offset, so that the process touches no more memory than is in use at a time."""
        with self.lock:
            return self._take_first(size)

    def _take_first(self, size: int) -> tuple[int, int] | None:
        self._reclaim()
        for i, (offset, room) in enumerate(self._free):
            if room >= size and self._flags:
                if room == size:
                    del self._free[i]
                else:
                    self._free[i] = (offset + size, room - size)
                flag = self._flags.pop()
                self._memory[flag] = 0
                self._taken[flag] = (offset, size)
                return flag, offset
        return None

    def _reclaim(self) -> None:
        """Reclaim the slots without references, and join adjacent free ranges."""
        flags = self._memory[:_FLAGS]
        back = [flag for flag in self._taken if flags[flag] == _FREE]
        if not back:
            return
        for flag in back:
            offset, size = self._taken.pop(flag)
            self._reserved.pop(offset, None)
            insort(self._free, (offset, size))
            self._flags.append(flag)
        joined: list[tuple[int, int]] = []
        for offset, size in self._free:
            if joined and sum(joined[-1]) == offset:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((offset, size))
        self._free = joined


def leased(memory: mmap.mmap, flag: int, offset: int, size: int) -> memoryview:
    """Return the bytes of a slot. The slot is free again when the last reference to them is dropped."""
    return _lease(memory, flag, offset, size)[1]


def _lease(memory: mmap.mmap, flag: int, offset: int, size: int) -> tuple[Any, memoryview]:
    return lend(memory, offset, size, partial(_give_back, memory, flag, OwnerProcess()))


def _give_back(memory: mmap.mmap, flag: int, origin: OwnerProcess) -> None:
    if origin.is_here:  # a forked process has a copy of the lease, and the slot is still in use in its parent
        memory[flag] = _FREE


def aligned(size: int) -> int:
    """Return the number of bytes that ``size`` bytes take in a slot."""
    return -(-size // ALIGNED) * ALIGNED
