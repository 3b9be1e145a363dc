"""Parts of one shared file as independent streams, for readers in any thread.

A part that extends beyond the file's end is an error, not a short stream. A part's claimed size allocates nothing: the
size of each read is bounded. Formats that are read from their end need a file that can be sought: other files are
copied first, large ones to disk.
"""

from __future__ import annotations

import io
import tempfile
from errno import EINVAL
from os import pread
from threading import Lock
from typing import Any

from datapipes.elements.streams import StreamWrapper, can_seek
from datapipes.errors import CorruptData, ReadTooLate
from datapipes.io.archives.inflating import CHUNK
from datapipes.io.archives.limits import FREE, Metered, meter_of

MOST = 2**20
"""Most bytes of one read."""


class Shared:
    """File that several streams read at their own offsets; a file that cannot be sought is only read forward."""

    def __init__(self, file: Any, label: str, in_order: bool = False) -> None:
        self.label = label
        self.meter = meter_of(file)
        self.seeks = can_seek(file) and not in_order
        self._file = file  # kept, because a wrapper closes its file with the last reference
        self._read = file.read
        self._seek = file.seek if self.seeks else None
        self._start = file.tell() if self.seeks else 0
        self._at = 0  # the offset of a file that is only read forward
        self._lock = Lock()
        on_disk = self.seeks and type(file) is io.BufferedReader and type(file.raw) is io.FileIO
        self._fileno = file.raw.fileno if on_disk else None  # asked for each read: it raises once the file is closed
        self.reads_anywhere = on_disk or (self.seeks and type(file) is io.BytesIO)
        """Whether reading at an offset costs the same wherever the last read was."""

    def read_at(self, at: int, size: int, label: str = "") -> bytes:
        """Read up to ``MOST`` bytes at an offset. Return fewer than requested only at the file's end."""
        if size > MOST:
            size = MOST
        if self._fileno is not None:
            at += self._start
            try:
                data = pread(self._fileno(), size, at)
            except (OSError, OverflowError) as error:
                if isinstance(error, OverflowError) or error.errno == EINVAL:  # an offset that no file has
                    return b""
                raise
            while 0 < len(data) < size and (more := pread(self._fileno(), size - len(data), at + len(data))):
                data += more
            return data
        with self._lock:
            if self._seek is None:
                if not self._go_forward(at, label):
                    return b""
                data = self._next(size)
            else:
                try:
                    self._seek(self._start + at)
                except (OSError, OverflowError):  # an offset that no file has
                    return b""
                data = self._read(size)
            while 0 < len(data) < size and (more := self._next(size - len(data))):
                data += more
            self._at = at + len(data)
            return data

    def _next(self, size: int) -> bytes:
        data = self._read(size)
        return data if type(data) is bytes else bytes(data or b"")

    def _go_forward(self, at: int, label: str) -> bool:
        if at < self._at:
            raise ReadTooLate(
                f"{label or self.label}: byte {at} of {self.label} has been passed, and that stream cannot go back: "
                "read each member before the next one is requested, or open the archive as a file that can be sought"
            )
        while self._at < at:
            passed = len(self._next(min(MOST, at - self._at)))
            if not passed:
                return False
            self._at += passed
        return True


class Range(Metered):
    """Part of a shared file as a stream."""

    def __init__(
        self, shared: Shared, start: int, size: int, label: str, corrupt: type[CorruptData], done: int = 0
    ) -> None:
        self._shared = shared
        self._start = start
        self._size = size
        self._label = label
        self._corrupt = corrupt
        self._done = done
        self.meter = shared.meter

    def seekable(self) -> bool:
        return self._shared.seeks

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if not self._shared.seeks:
            raise io.UnsupportedOperation(f"{self._label}: the archive is a stream that cannot be sought")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._done, io.SEEK_END: self._size}[whence]
        self._done = max(0, base + offset)
        return self._done

    def tell(self) -> int:
        return self._done

    def read(self, size: int = -1) -> bytes:
        return self.readall() if size < 0 else self._some(size)

    def readinto(self, buffer: Any) -> int:
        data = self._some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        if self._size - self._done <= MOST:
            return self._some(MOST)
        return b"".join(iter(lambda: self._some(MOST), b""))

    def _some(self, most: int) -> bytes:
        wanted = min(most, self._size - self._done, MOST)
        if wanted <= 0:
            return b""
        data = self._shared.read_at(self._start + self._done, wanted, self._label)
        if len(data) < wanted:
            raise self._corrupt(
                f"{self._label}: it is cut short: {self._shared.label} ends at byte "
                f"{self._start + self._done + len(data)}, after {self._done + len(data)} of its {self._size} bytes"
            )
        self._done += wanted
        return data


def seekable(file: Any, label: str) -> tuple[Any, Shared]:
    """Return the file and a shared reader of it. Copy a file that cannot be sought, or only by decompressing again."""
    meter = meter_of(file)
    if meter is not None or not can_seek(file):
        # The copy lives as long as its last reader; the wrapper closes it then.
        copy = StreamWrapper(tempfile.SpooledTemporaryFile(max_size=FREE), name=label)  # noqa: SIM115 - see above
        while data := file.read(CHUNK):
            copy.write(data)
        copy.seek(0)
        file = copy
    file.seek(0)
    shared = Shared(file, label)
    shared.meter = meter
    return file, shared
