"""Non-blocking pipes: they carry frames that are longer than the pipe's own buffer, and never wait.

A pipe holds 64 KiB. Two processes that each wait until the other has read would wait for ever, so an end never waits by
itself. An ``Outbox`` keeps the bytes that the pipe has no room for, and an ``Inbox`` keeps an incomplete frame. The
owner calls them again when the descriptor is ready.
"""

from __future__ import annotations

import os
import select
import struct
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Any, Protocol

_LENGTH = struct.Struct("<Q")


class Descriptor(Protocol):
    """The object that an end writes to or reads from: a connection of a pipe, or a socket."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def close(self) -> None:
        """Close the descriptor."""


class Outbox:
    """The writing end of a pipe. Frames are sent in order, each after its length.

    >>> import multiprocessing
    >>> inbox, outbox = pipe(multiprocessing)
    >>> outbox.put(bytes(100_000)); outbox.flush()
    False
    >>> inbox.get(), outbox.flush(), len(inbox.get())
    (None, True, 100000)
    """

    def __init__(self, end: Descriptor) -> None:
        os.set_blocking(end.fileno(), False)
        self._end = end
        self._unsent: deque[memoryview] = deque()

    def __reduce__(self) -> tuple[type[Outbox], tuple[Descriptor]]:
        return Outbox, (self._end,)

    def fileno(self) -> int:
        """Return the descriptor. It becomes writable when there is room, and when the reader is gone."""
        return self._end.fileno()

    def put(self, message: bytes) -> None:
        """Append a frame to the unsent ones. ``flush`` writes it."""
        head = _LENGTH.pack(len(message))
        self._unsent.extend(map(memoryview, (head, message) if len(message) > select.PIPE_BUF else (head + message,)))

    def flush(self, wait: bool = False) -> bool:
        """Write as much as fits, or all with ``wait``. Return whether all is written. BrokenPipeError: no reader."""
        fd = self._end.fileno()
        while self._unsent:
            try:
                written = os.write(fd, self._unsent[0])
            except BlockingIOError:
                if not wait:
                    return False
                until_ready(fd, select.POLLOUT)
                continue
            if written < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][written:]
            else:
                self._unsent.popleft()
        return True

    def flush_or_drop(self) -> None:
        """Write as much as fits. Drop the rest if the reader is gone: the caller notices that in another way."""
        try:
            self.flush()
        except OSError:
            self._unsent.clear()

    @property
    def is_empty(self) -> bool:
        """Whether all frames are written."""
        return not self._unsent

    def close(self) -> None:
        """Close the end and drop the unsent frames."""
        self._unsent.clear()
        self._end.close()


class Inbox:
    """The reading end of a pipe."""

    def __init__(self, end: Descriptor) -> None:
        os.set_blocking(end.fileno(), False)
        self._end = end
        self._head = bytearray(_LENGTH.size)
        self._message: bytearray | None = None  # the frame under way, once its length is known
        self._come = 0  # bytes received of the frame, or of its length

    def __reduce__(self) -> tuple[type[Inbox], tuple[Descriptor]]:
        return Inbox, (self._end,)

    def fileno(self) -> int:
        """Return the descriptor. It becomes readable when bytes arrive, and when the writer is gone."""
        return self._end.fileno()

    def get(self, wait: bool = False) -> memoryview | None:
        """Return the next frame, or None if it is incomplete and ``wait`` is False. Raise EOFError at the end."""
        fd = self._end.fileno()
        while True:
            coming = self._head if self._message is None else self._message
            while self._come < len(coming):
                try:
                    read = os.readv(fd, [memoryview(coming)[self._come :]])
                except BlockingIOError:
                    if not wait:
                        return None
                    until_ready(fd, select.POLLIN)
                    continue
                if not read:
                    raise EOFError
                self._come += read
            self._come = 0
            if self._message is not None:
                self._message = None
                return memoryview(coming)
            self._message = bytearray(*_LENGTH.unpack(coming))

    def close(self) -> None:
        """Close the descriptor."""
        self._end.close()


class Poller:
    """A wait for several descriptors that meanwhile writes the unsent frames of outboxes.

    The descriptor of a socket may be both readable and that of an outbox.
    """

    def __init__(self, readable: Iterable[int], outboxes: Iterable[Outbox]) -> None:
        self._outboxes = list(outboxes)
        self._readable = set(readable)
        self._events = select.poll()
        for fd in self._readable:
            self._events.register(fd, select.POLLIN)

    def wait(self, seconds: float | None) -> list[int]:
        """Return the descriptors that are ready to be read, or broken. Return none after ``seconds``."""
        until = None if seconds is None else monotonic() + seconds
        while True:
            unsent = self._unsent()
            for fd in unsent:
                self._events.register(fd, select.POLLOUT | (select.POLLIN if fd in self._readable else 0))
            found = self._events.poll(None if until is None else max(0.0, 1000 * (until - monotonic())))
            for fd in unsent:
                if fd in self._readable:
                    self._events.modify(fd, select.POLLIN)
                else:
                    self._events.unregister(fd)
            for fd, _ in found:
                if fd in unsent:
                    unsent[fd].flush_or_drop()
            ready = [fd for fd, event in found if fd in self._readable and event != select.POLLOUT]
            if ready or not found:
                return ready

    def _unsent(self) -> dict[int, Outbox]:
        return {outbox.fileno(): outbox for outbox in self._outboxes if not outbox.is_empty}

    def forget(self, fd: int, outbox: Outbox | None = None) -> None:
        """Stop waiting for a descriptor, and stop writing for its outbox."""
        self._readable.remove(fd)
        self._events.unregister(fd)
        if outbox is not None:
            self._outboxes.remove(outbox)


def pipe(context: Any) -> tuple[Inbox, Outbox]:
    """Return both ends of a new pipe. Each may be passed to a process that ``context`` starts."""
    reading, writing = context.Pipe(duplex=False)
    return Inbox(reading), Outbox(writing)


def until_ready(fd: int, event: int) -> None:
    """Wait until a descriptor is ready, or broken."""
    ready = select.poll()
    ready.register(fd, event)
    ready.poll()
