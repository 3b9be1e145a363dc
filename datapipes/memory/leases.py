"""Leases on memory, returned by themselves when nobody refers to it any more.

What lies in such memory (an array, a tensor) refers to the lease as its owner, so the memory is never given to somebody
else while it can be seen, and no message has to be sent for its return.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from typing import Any


class _Lease:
    """Owner of the bytes, as an object whose end can be noticed."""

    returned: Callable[[], object]

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # then modules have lost their names, and nobody takes the memory again
            self.returned()


_types: dict[int, type[ctypes.Array[ctypes.c_ubyte]]] = {}


def lend(memory: mmap.mmap, offset: int, size: int, returned: Callable[[], object]) -> tuple[Any, memoryview]:
    """The lease on a part of a memory, and its bytes, which keep it alive; ``returned`` is called at its end.

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
    """A type for each size; few, because a graph makes few kinds of batch."""
    found = _types.get(size)
    if found is None:
        if len(_types) >= 1024:
            _types.clear()
        found = _types[size] = type("Lease", (_Lease, ctypes.c_ubyte * size), {})
    return found
