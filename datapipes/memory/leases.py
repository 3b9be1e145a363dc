"""Leases on memory, returned when the last reference to the memory is gone.

An array or tensor in such memory refers to the lease as its owner. So the memory is not given away while it can be
seen, and no message is needed for its return.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from typing import Any


class _Lease:
    """Owner of the bytes. Its end returns them."""

    returned: Callable[[], object]

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # when the interpreter exits, module globals are gone and the memory is not needed again
            self.returned()


_types: dict[int, type[ctypes.Array[ctypes.c_ubyte]]] = {}


def lend(memory: mmap.mmap, offset: int, size: int, returned: Callable[[], object]) -> tuple[Any, memoryview]:
    """Return a lease on a part of the memory, and its bytes, which keep it alive. Call ``returned`` when it ends.

    >>> _, view = lend(mmap.mmap(-1, 4096), 0, 100, lambda: print("it is back"))
    >>> len(view)
    100
    >>> del view, _
    it is back
    """
    lease = _type_of(size).from_buffer(memory, offset)
    lease.returned = returned  # type: ignore[attr-defined]  # a _Lease as well
    return lease, memoryview(lease).cast("B")


def _type_of(size: int) -> type[ctypes.Array[ctypes.c_ubyte]]:
    """Return the lease type for a size. There are few, because a graph makes few kinds of batch."""
    found = _types.get(size)
    if found is None:
        if len(_types) >= 1024:
            _types.clear()
        found = _types[size] = type("Lease", (_Lease, ctypes.c_ubyte * size), {})
    return found
