"""Shared memory of two processes, and the leases on it.

One process writes and one reads. The writer takes a *slot*, fills it and tells the reader where it is; the reader's
arrays lie in it. When the last of them is gone the slot's *flag* is set, a byte in the same memory, and the writer may
take the room again: no message is sent for it, and nothing is written over while somebody can see it. A reader that
keeps everything keeps the slots; the writer then finds no room and sends its elements another way.

What the writer makes can be made in a slot from the start: it *reserves* one. Such a slot is handed over as it is if
nobody on this side refers to it any more; whoever still does keeps it, and the reader gets a copy.

The memory has a file descriptor and no name, so nothing can be left behind, however the processes end. Neither side
closes it: it goes with the last array that lies in it.
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
"""At most so many slots are taken at a time. Their flags come first, a byte each."""
ALIGNED = 64
_FREE = 1


def create(size: int) -> int:
    """The descriptor of a new arena with room for ``size`` bytes. Memory is used as it is written to."""
    fd = os.memfd_create("loader2-arena", os.MFD_CLOEXEC)
    os.truncate(fd, _FLAGS + aligned(size))
    return fd


class NoRoom:
    """The writer of a link without shared memory: all goes through the pipe."""

    lock: AbstractContextManager[object] = nullcontext()

    def put(self, buffers: Iterable[memoryview]) -> None:
        """There is no room."""

    def reserve(self, size: int) -> None:
        """There is no room."""

    def reserved_at(self, part: memoryview) -> None:
        """Nothing is reserved."""

    def hand_over(self, offset: int) -> None:
        """Nothing is reserved."""


class Writer:
    """The side that takes slots and fills them."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, 0)
        self._view = memoryview(self._memory)
        self._start = ctypes.addressof(ctypes.c_ubyte.from_buffer(self._memory))
        self._free = [(_FLAGS, len(self._memory) - _FLAGS)]  # (offset, size) of what is free, by offset
        self._taken: dict[int, tuple[int, int]] = {}  # flag: (offset, size)
        self._flags = list(range(_FLAGS))
        self._reserved: dict[int, tuple[int, int, weakref.ref[Any]]] = {}  # offset: (flag, size, who refers to it)
        self.lock = threading.RLock()  # one thread may reserve a slot while another sends one
        tell_of_forks(self)

    def forked(self) -> None:
        self.lock = threading.RLock()  # a thread that is not there may have had it

    def put(self, buffers: Iterable[memoryview]) -> tuple[int, int, int] | None:
        """Copy buffers into one slot, each aligned; (flag, offset, size), or None if there is no room."""
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
        """A slot to be filled in place; None if there is no room."""
        slot = self._take(aligned(size))
        if slot is None:
            return None
        flag, offset = slot
        owner, view = _lease(self._memory, flag, offset, size)
        self._reserved[offset] = flag, size, weakref.ref(owner)
        return view

    def reserved_at(self, part: memoryview) -> int | None:
        """The offset of the reserved slot that a buffer is all of; None if it is none."""
        offset = ctypes.addressof(ctypes.c_ubyte.from_buffer(part)) - self._start if not part.readonly else -1
        found = self._reserved.get(offset)
        return offset if found is not None and found[1] == part.nbytes else None

    def hand_over(self, offset: int) -> tuple[int, int, int] | memoryview:
        """(flag, offset, size) of a reserved slot that nobody here refers to any more; else its bytes, to be copied.

        The caller holds ``lock`` since before it let go of the slot: another thread would take it back as free.
        """
        flag, size, owner = self._reserved[offset]
        if (lease := owner()) is not None:
            return memoryview(lease).cast("B")  # which keeps it until it is copied
        del self._reserved[offset]
        self._memory[flag] = 0  # it was set when the last reference went
        return flag, offset, size

    def _take(self, size: int) -> tuple[int, int] | None:
        """Room at the lowest offset there is, so that no more memory is touched than is in use at a time."""
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
        """Take back the slots that nobody refers to any more, and join what lies side by side."""
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
    """The bytes of a slot, for who reads them; it is free again when nobody refers to them any more."""
    return _lease(memory, flag, offset, size)[1]


def _lease(memory: mmap.mmap, flag: int, offset: int, size: int) -> tuple[Any, memoryview]:
    return lend(memory, offset, size, partial(_give_back, memory, flag, OwnerProcess()))


def _give_back(memory: mmap.mmap, flag: int, origin: OwnerProcess) -> None:
    if origin.is_here:  # what a fork has inherited is still in use where it was lent
        memory[flag] = _FREE


def aligned(size: int) -> int:
    """The room that so many bytes take in a slot."""
    return -(-size // ALIGNED) * ALIGNED
