"""A FIFO queue with bounds in memory that writes further elements to disk.

``SpillQueue`` replaces the deque of a fork's reader if bytes are bounded or a folder is given. Elements come out in
their order. While any element is on disk, new ones go there too. An element from disk is equal to the one that went in,
but another object. An element that cannot be packed or written stays in memory at its position; ``refusal`` is its
error until it is taken, so that no element is lost.

The files have no name (``O_TMPFILE``, or unlinked at once), so they end with the process that has them open, even if it
is killed. One of the two files is written and one is read. Once the latter is read to its end, it is emptied and they
swap roles. So they never hold more than twice the bytes that waited at some moment.
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
from datapipes.position.position_history import Lost

_LENGTH = 8  # bytes that hold a record's length


class BufferBounds:
    """Bounds on elements in memory, their count, and the folder for the rest, for one queue or several."""

    def __init__(self, most_elements: float, most_bytes: int | None, folder: str | None, owner: str) -> None:
        self.most_elements = most_elements
        self.most_bytes = float("inf") if most_bytes is None else most_bytes
        self.folder = folder
        self.owner = owner
        self.size_of: Callable[[Any], int] = (lambda element: 0) if most_bytes is None else size_of
        self.elements = 0
        self.bytes = 0
        self.lock = threading.Lock()
        self.refusals: dict[SpillQueue, Callable[[], Exception]] = {}  # by queue
        tell_of_forks(self)

    def forked(self) -> None:
        give_back(self.lock)

    def refusal(self) -> Callable[[], Exception] | None:
        """Return the error of an element that could not be written to disk and was not taken yet, or None."""
        with self.lock:
            return next(iter(self.refusals.values()), None)

    def fits(self, size: int) -> bool:
        """Return whether another element of this size may wait in memory."""
        return self.elements < self.most_elements and self.bytes + size <= self.most_bytes


class SpillQueue:
    """FIFO queue of elements; one thread may add elements while another one takes them.

    ``append`` adds an element in one step. ``settle`` decides where it waits, at the latest when the next one is taken.
    An interruption may arrive anywhere in it: each change is a step without a call, because signals arrive only after
    calls.
    """

    def __init__(self, room: BufferBounds) -> None:
        self.room = room
        self._arrived: deque[Any] = deque()
        self.append = self._arrived.append
        self._refused = 0  # the number of the element with the refusal
        self._memory: deque[tuple[Any, int]] = deque()
        self._first = self._end = 0  # the numbers of the elements that are not in `_memory`
        self._kept: dict[int, Any] = {}  # those of them that are not on disk
        self._files = [_RecordFile(room.folder), _RecordFile(room.folder)]  # the one to read, and the one to write

    @property
    def refusal(self) -> Callable[[], Exception] | None:
        """Error of the last element that could not be written to disk, until it is taken."""
        return self.room.refusals.get(self)

    def settle(self) -> None:
        """Move new elements to where they wait: into memory, or to disk."""
        room = self.room
        while self._arrived:
            with room.lock:
                if self._arrived:  # another thread may have been faster
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
        """Put back the element that was taken last."""
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
        """Drop all elements and close the files."""
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
    "The element stays in memory, and no further one is taken before it is read: read the children in step, or let "
    "more wait in memory (buffer_size, buffer_bytes)"
)


def _unpacked(record: bytes) -> Any:
    return cast("list[Any]", decode(record, what="an element that was spilled to disk"))[0]


class _RecordFile:
    """File without a name, with records that are written at its ``end`` and read from its ``start``.

    The caller moves these after writing or reading. Otherwise a record is overwritten or read again.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self.start = self.end = 0

    def written(self, record: bytes) -> int:
        """Write a record. Return the offset of its end."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # `close` closes it
        left, at = memoryview(len(record).to_bytes(_LENGTH, "little") + record), self.end
        while left:
            written = os.pwrite(self._file.fileno(), left, at)
            left, at = left[written:], at + written
        return at

    def first(self) -> tuple[bytes, int]:
        """Return the first record and the offset of its end."""
        return self._read(self.start)

    def empty_if_read(self) -> None:
        """Empty the file if all of it was read."""
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
