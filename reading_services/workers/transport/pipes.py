"""Non-blocking pipes: messages longer than a pipe holds, written and read as far as it goes, without a wait.

Two processes that both wait until the other one has read what they write would wait for ever, and a pipe holds 64 KiB.
So an end never waits by itself. What the pipe has no room for stays with the ``Outbox``, what is not yet complete stays
with the ``Inbox``, and whoever has them goes on when the descriptor is ready.
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


class End(Protocol):
    """What an end writes to or reads from: that of a pipe, or a socket."""

    def fileno(self) -> int:
        """Its file descriptor."""

    def close(self) -> None:
        """Close it."""


class Outbox:
    """The writing end of a pipe: messages in order, each after its length.

    >>> import multiprocessing
    >>> inbox, outbox = pipe(multiprocessing)
    >>> outbox.put(bytes(100_000)); outbox.flush()
    False
    >>> inbox.get(), outbox.flush(), len(inbox.get())
    (None, True, 100000)
    """

    def __init__(self, end: End) -> None:
        os.set_blocking(end.fileno(), False)
        self._end = end
        self._unsent: deque[memoryview] = deque()

    def __reduce__(self) -> tuple[type[Outbox], tuple[End]]:
        return Outbox, (self._end,)

    def fileno(self) -> int:
        """File descriptor that becomes writable when there is room again, or when nobody will read any more."""
        return self._end.fileno()

    def put(self, message: bytes) -> None:
        """Add a message behind those that were not written yet; ``flush`` writes it."""
        head = _LENGTH.pack(len(message))
        self._unsent.extend(map(memoryview, (head, message) if len(message) > select.PIPE_BUF else (head + message,)))

    def flush(self, wait: bool = False) -> bool:
        """Write what there is room for, or all; whether all was written. BrokenPipeError if nobody reads any more."""
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
        """Write what there is room for; the rest is dropped if nobody reads any more, which is told elsewhere."""
        try:
            self.flush()
        except OSError:
            self._unsent.clear()

    @property
    def is_empty(self) -> bool:
        """Whether all has been written."""
        return not self._unsent

    def close(self) -> None:
        """Close the end, and drop what was not written."""
        self._unsent.clear()
        self._end.close()


class Inbox:
    """The reading end of a pipe."""

    def __init__(self, end: End) -> None:
        os.set_blocking(end.fileno(), False)
        self._end = end
        self._head = bytearray(_LENGTH.size)
        self._message: bytearray | None = None  # the one that is coming, once its length is known
        self._come = 0  # bytes of it, or of its length

    def __reduce__(self) -> tuple[type[Inbox], tuple[End]]:
        return Inbox, (self._end,)

    def fileno(self) -> int:
        """File descriptor that becomes readable when something has come, or when nothing will."""
        return self._end.fileno()

    def get(self, wait: bool = False) -> memoryview | None:
        """The next message; None if it has not come to its end and nobody wants to wait. EOFError if it never will."""
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
        """Close the end."""
        self._end.close()


class Poller:
    """Waits for several descriptors at once, and writes meanwhile what pipes had no room for.

    The descriptor of a socket may be among both: read from, and written to.
    """

    def __init__(self, readable: Iterable[int], outboxes: Iterable[Outbox]) -> None:
        self._outboxes = list(outboxes)
        self._readable = set(readable)
        self._events = select.poll()
        for fd in self._readable:
            self._events.register(fd, select.POLLIN)

    def wait(self, seconds: float | None) -> list[int]:
        """The descriptors that are ready to be read, or broken; none if the time is over."""
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

    def flush(self) -> None:
        """Write all that is left, to all of them at once."""
        while unsent := self._unsent():
            room = select.poll()
            for fd in unsent:
                room.register(fd, select.POLLOUT)
            for fd, _ in room.poll():
                unsent[fd].flush_or_drop()

    def _unsent(self) -> dict[int, Outbox]:
        return {outbox.fileno(): outbox for outbox in self._outboxes if not outbox.is_empty}

    def forget(self, fd: int, outbox: Outbox | None = None) -> None:
        """Wait for one of them no more."""
        self._readable.remove(fd)
        self._events.unregister(fd)
        if outbox is not None:
            self._outboxes.remove(outbox)


def pipe(context: Any) -> tuple[Inbox, Outbox]:
    """Both ends of a new pipe; each may be given to a process that ``context`` starts."""
    reading, writing = context.Pipe(duplex=False)
    return Inbox(reading), Outbox(writing)


def until_ready(fd: int, event: int) -> None:
    """Wait until a descriptor is ready, or broken."""
    ready = select.poll()
    ready.register(fd, event)
    ready.poll()
