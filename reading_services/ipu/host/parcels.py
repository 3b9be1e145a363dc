"""Send one large object to a process that is being started, through a file that both map.

The memory of its arrays is copied once, into a file without a name that both processes map: in memory, or on disk
where memory is short. The other side's arrays lie in that file; nothing is left of it when they are gone.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

from reading_services.workers.transport.arena import aligned
from reading_services.workers.transport.packing import pickled, unpickled
from reading_services.workers.transport.process import SharedFd


class Parcel:
    """An object that was packed; it can be given to a process when that is started, and is opened there."""

    def __init__(self, obj: object, on_disk: bool = False) -> None:
        data, buffers = pickled(obj)
        parts = [memoryview(data), *buffers]
        self._sizes = [part.nbytes for part in parts]
        self._file = SharedFd(_on_disk() if on_disk else os.memfd_create("loader2-parcel", os.MFD_CLOEXEC))
        os.truncate(self._file.fd, sum(map(aligned, self._sizes)))
        with mmap.mmap(self._file.fd, 0) as memory:
            at = 0
            for part in parts:
                memory[at : at + part.nbytes] = part
                at += aligned(part.nbytes)

    def open(self) -> Any:
        """Unpack the object; done once, by the process that was given the parcel."""
        memory = memoryview(mmap.mmap(self._file.fd, 0, access=mmap.ACCESS_COPY))
        parts, at = [], 0
        for size in self._sizes:
            parts.append(memory[at : at + size])
            at += aligned(size)
        self.close()
        return unpickled(parts[0], parts[1:])

    def close(self) -> None:
        """Close the file; the process that was given the parcel has it by now."""
        os.close(self._file.fd)


def _on_disk() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
