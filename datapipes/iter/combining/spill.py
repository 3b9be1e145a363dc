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
from datapipes.position.trail import Lost

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
    """Elements, first in, first out; one thread may put them in while another takes them out.

    ``append`` puts an element in, in one step. Where it waits is decided by ``settle``, at the latest when the next one
    is taken out. An interruption may come anywhere in that: each change is made in a step without a call, behind which
    alone a signal can come.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        self._arrived: deque[Any] = deque()
        self.append = self._arrived.append
        self._refused = 0  # the number of the element that the refusal is about
        self._memory: deque[tuple[Any, int]] = deque()
        self._first = self._end = 0  # the numbers of the elements behind those in memory
        self._kept: dict[int, Any] = {}  # those of them that are not on disk
        self._files = [_Records(room.folder), _Records(room.folder)]  # to be read, and to be written

    @property
    def refusal(self) -> Callable[[], Exception] | None:
        """The error of the last element that could not be put on disk, until that has been taken."""
        return self.room.refusals.get(self)

    def settle(self) -> None:
        """Put what has come to where it waits: into memory, or on disk."""
        room = self.room
        while self._arrived:
            with room.lock:
                if self._arrived:  # another thread may have been quicker
                    self._settle(self._arrived[0])

    def _settle(self, element: Any) -> None:
        room, kept = self.room, type(element) is Lost
        refusal: Callable[[], Exception] | None = None
        size = 0 if kept else room.size_of(element)
        if room.folder is None or (self._first == self._end and room.fits(size)):
            self._memory += ((element, size),)
            room.elements += 1
            room.bytes += size
            del self._arrived[0]
            return
        file = self._files[1]
        end = file.end
        if not kept:
            try:
                end = file.written(encode([element], what=f"the elements that {room.owner} spills to disk"))
            except UnsavableElement as error:
                refusal = partial(UnsavableElement, f"{error}. {_KEPT}")
            except OSError as error:
                text = f"{error.strerror}, while {room.owner} spilled an element to disk. {_KEPT}"
                refusal = partial(OSError, error.errno, text, error.filename or room.folder)
        if refusal is not None:
            room.refusals[self], self._refused = refusal, self._end
        if kept or refusal is not None:
            self._kept[self._end] = element
        file.end = end
        self._end += 1
        del self._arrived[0]

    def popleft(self) -> Any:
        """Take the oldest element out."""
        self.settle()
        room, first = self.room, self._first
        file, start = self._files[0], 0
        with room.lock:
            file.empty_if_read()
            is_in_memory, is_kept = len(self._memory) > 0, first in self._kept
            if is_in_memory:
                element, size = self._memory[0]
            elif first == self._end:
                raise IndexError("nothing waits")
            elif is_kept:
                element = self._kept[first]
            else:
                if not file:
                    self._files.reverse()
                    file = self._files[0]
                record, start = file.first()
                element = _unpacked(record)
        if is_in_memory:
            del self._memory[0]
            room.elements -= 1
            room.bytes -= size
            return element
        if is_kept:
            del self._kept[first]
            if first == self._refused and self in room.refusals:
                del room.refusals[self]
        else:
            file.start = start
        self._first += 1
        return element

    def appendleft(self, element: Any) -> None:
        """Put the element back that was taken out last."""
        with self.room.lock:
            self._memory.appendleft((element, 0))
            self.room.elements += 1

    def __iter__(self) -> Iterator[Any]:
        with self.room.lock:
            elements = [element for element, _ in self._memory]
            written = (record for file in self._files for record in file)
            elements += [
                self._kept[i] if i in self._kept else _unpacked(next(written)) for i in range(self._first, self._end)
            ]
            elements += self._arrived
        return iter(elements)

    def __len__(self) -> int:
        return len(self._memory) + self._end - self._first + len(self._arrived)

    def clear(self) -> None:
        """Let go of everything."""
        with self.room.lock:
            self.room.elements -= len(self._memory)
            self.room.bytes -= sum(size for _, size in self._memory)
            self._memory.clear()
            self._arrived.clear()
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
    """A file without a name, of records that are written at its ``end`` and read from its ``start``.

    Whoever writes or reads one moves these; until then a record is written over, or read again.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self.start = self.end = 0

    def written(self, record: bytes) -> int:
        """Write a record; return where it ends."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # `close` closes it
        left, at = memoryview(len(record).to_bytes(_LENGTH, "little") + record), self.end
        while left:
            written = os.pwrite(self._file.fileno(), left, at)
            left, at = left[written:], at + written
        return at

    def first(self) -> tuple[bytes, int]:
        """Read the first record; return where it ends, too."""
        return self._read(self.start)

    def empty_if_read(self) -> None:
        """Begin the file anew if all of it was read."""
        if self._file is not None and self.start == self.end and self.start:
            self._file.truncate(0)
            self.start = self.end = 0

    def __iter__(self) -> Iterator[bytes]:
        at = self.start
        while at < self.end:
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
        return self.end - self.start

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self.start, self.end = None, 0, 0
