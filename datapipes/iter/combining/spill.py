"""A FIFO queue with bounds in memory that spills to disk what exceeds them.

``SpillQueue`` stands in for the deque of a fork's reader when bytes are bounded or a folder is given. Elements come out
in the order in which they went in. While any is on disk, new ones go there too; those on disk are packed, so what comes
back is equal to what went in, but another object. What cannot be packed, or written, stays in memory in its place, and
``refusal`` is its error until it has been taken, so that nothing is lost by it.

The files have no name (``O_TMPFILE``, or unlinked as soon as they are made), so they are gone with whoever has them
open, even if that process is killed. There are two, one to write and one to read: once the one that is read is used up
it is emptied, and they change places. So they never hold more than twice what waited at some moment.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, cast

from datapipes.elements import UnsavableElement, decode, encode
from datapipes.elements.sizes import size_of
from datapipes.position.forks import give_back, tell_of_forks

_LENGTH = 8  # bytes that say how long a record is


class Room:
    """Bounds on elements in memory, their count, and the folder for the rest, of one queue or shared by several."""

    def __init__(self, most_elements: float, most_bytes: int | None, folder: str | None, owner: str) -> None:
        self.most_elements = most_elements
        self.most_bytes = float("inf") if most_bytes is None else most_bytes
        self.folder = folder
        self.owner = owner
        self.size_of: Callable[[Any], int] = (lambda element: 0) if most_bytes is None else size_of
        self.elements = 0
        self.bytes = 0
        self.lock = threading.Lock()
        self.refusals: dict[SpillQueue, Callable[[], Exception]] = {}  # of the queues that have one
        tell_of_forks(self)

    def forked(self) -> None:
        give_back(self.lock)

    def refusal(self) -> Callable[[], Exception] | None:
        """The error of an element that could not be put on disk, and that has not been taken."""
        with self.lock:
            return next(iter(self.refusals.values()), None)

    def fits(self, size: int) -> bool:
        """Whether another element of this size may wait in memory."""
        return self.elements < self.most_elements and self.bytes + size <= self.most_bytes


class SpillQueue:
    """Elements, first in, first out; one thread may put them in while another takes them out."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._refused = 0  # the number of the element that the refusal is about
        self._memory: deque[tuple[Any, int]] = deque()
        self._first = self._end = 0  # the numbers of the elements behind those in memory
        self._kept: dict[int, Any] = {}  # those of them that are not on disk
        self._files = [_Records(room.folder), _Records(room.folder)]  # to be read, and to be written

    @property
    def refusal(self) -> Callable[[], Exception] | None:
        """The error of the last element that could not be put on disk, until that has been taken."""
        return self.room.refusals.get(self)

    def append(self, element: Any, kept: bool = False) -> None:
        """Put an element in; ``kept``: it is none that could be on disk."""
        room = self.room
        with room.lock:
            size = 0 if kept else room.size_of(element)
            if room.folder is None or (self._first == self._end and room.fits(size)):
                self._memory.append((element, size))
                room.elements += 1
                room.bytes += size
                return
            refusal = None if kept else self._write(element)
            if refusal is not None:
                room.refusals[self], self._refused = refusal, self._end
            if kept or refusal is not None:
                self._kept[self._end] = element
            self._end += 1

    def _write(self, element: Any) -> Callable[[], Exception] | None:
        """Write an element to disk; if that is not possible, the error to raise."""
        owner = self.room.owner
        try:
            self._files[1].append(encode([element], what=f"the elements that {owner} spills to disk"))
        except UnsavableElement as error:
            return partial(UnsavableElement, f"{error}. {_KEPT}")
        except OSError as error:
            text = f"{error.strerror}, while {owner} spilled an element to disk. {_KEPT}"
            return partial(OSError, error.errno, text, error.filename or self.room.folder)
        return None

    def popleft(self) -> Any:
        """Take the oldest element out."""
        with self.room.lock:
            if self._memory:
                element, size = self._memory.popleft()
                self.room.elements -= 1
                self.room.bytes -= size
                return element
            if self._first == self._end:
                raise IndexError("nothing waits")
            if self._first in self._kept:
                element = self._kept.pop(self._first)
                if self._first == self._refused:
                    self.room.refusals.pop(self, None)
            else:
                if not self._files[0]:
                    self._files.reverse()
                element = _unpacked(self._files[0].popleft())
            self._first += 1
            return element

    def __iter__(self) -> Iterator[Any]:
        with self.room.lock:
            elements = [element for element, _ in self._memory]
            written = (record for file in self._files for record in file)
            elements += [
                self._kept[i] if i in self._kept else _unpacked(next(written)) for i in range(self._first, self._end)
            ]
        return iter(elements)

    def __len__(self) -> int:
        return len(self._memory) + self._end - self._first

    def clear(self) -> None:
        """Let go of everything."""
        with self.room.lock:
            self.room.elements -= len(self._memory)
            self.room.bytes -= sum(size for _, size in self._memory)
            self._memory.clear()
            self._kept.clear()
            self._first = self._end
            self.room.refusals.pop(self, None)
            for file in self._files:
                file.close()


_KEPT = (
    "The element stays in memory, and no more are taken before it is read: read the children in step, or let more "
    "wait in memory (buffer_size, buffer_bytes)"
)


def _unpacked(record: bytes) -> Any:
    return cast("list[Any]", decode(record, what="an element that was spilled to disk"))[0]


class _Records:
    """A file without a name, of records that are written at its end and read from its start."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._start = self._end = 0

    def append(self, record: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # `close` closes it
        left, at = memoryview(len(record).to_bytes(_LENGTH, "little") + record), self._end
        while left:
            written = os.pwrite(self._file.fileno(), left, at)
            left, at = left[written:], at + written
        self._end = at  # a record that was not written to its end is written over

    def popleft(self) -> bytes:
        record, self._start = self._read(self._start)
        if self._file is not None and self._start == self._end:
            self._file.truncate(0)
            self._start = self._end = 0
        return record

    def __iter__(self) -> Iterator[bytes]:
        at = self._start
        while at < self._end:
            record, at = self._read(at)
            yield record

    def _read(self, at: int) -> tuple[bytes, int]:
        start = at + _LENGTH
        end = start + int.from_bytes(self._bytes(at, start), "little")
        return self._bytes(start, end), end

    def _bytes(self, at: int, end: int) -> bytes:
        parts = []
        while at < end:
            part = b"" if self._file is None else os.pread(self._file.fileno(), end - at, at)
            if not part:
                raise OSError(f"a file of spilled elements in {self._folder} ends at byte {at}, before {end}")
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def __len__(self) -> int:
        return self._end - self._start

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._start, self._end = None, 0, 0
