"""Output of the instances, forwarded to the launcher's own: whole lines, each with its instance's prefix.

One thread reads all pipes and writes, so lines are never mixed. A slow reader of the launcher's output slows the
instances down. The thread waits for the pipes, and for ``finish`` after the last instance. It still writes the rest of
the pipes, and ends an unfinished last line.
"""

from __future__ import annotations

import os
import selectors
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue

_CHUNK = 1 << 16
_FULL_PIPE = 1 << 20  # the largest size of a pipe
_LONGEST = 1 << 24
"""A longer line is cut in two, so that output without line ends does not fill the memory."""


class Carrier:
    """Thread that forwards the output, and the launcher's own messages between its lines."""

    def __init__(self) -> None:
        self._pipes = selectors.DefaultSelector()
        self._begun: dict[int, bytes] = {}
        self._messages: SimpleQueue[str] = SimpleQueue()
        self._wakes, self._wake = os.pipe()
        self._pipes.register(self._wakes, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="poprun output", daemon=True)
        self._when_done = -1

    def pipe(self, prefix: str, sink: int) -> int:
        """Return a descriptor to write to. ``sink`` gets its whole lines with the prefix. Call it before ``start``."""
        reads, writes = os.pipe()
        os.set_blocking(reads, False)
        self._begun[reads] = b""
        self._pipes.register(reads, selectors.EVENT_READ, (prefix.encode(), sink))
        return writes

    def start(self, when_done: int) -> None:
        """Start the thread. It writes a byte to ``when_done`` at its end."""
        self._when_done = when_done
        self._thread.start()

    def say(self, message: str) -> None:
        """Write a message of the launcher's own to its standard error."""
        self._messages.put(message)
        os.write(self._wake, b"m")

    def finish(self) -> None:
        """Forward the output that is there, and end."""
        os.write(self._wake, b"e")

    def _run(self) -> None:
        try:
            self._carry_until_the_end()
        finally:
            self._pipes.close()
            os.close(self._wakes)
            os.close(self._wake)
            os.write(self._when_done, b"\0")

    def _carry_until_the_end(self) -> None:
        ended = False
        while not ended:
            for key, _ in self._pipes.select():
                if key.fd == self._wakes:
                    ended = b"e" in os.read(self._wakes, _CHUNK)
                else:
                    self._carry(key)
            self._tell()
        for key in list(self._pipes.get_map().values()):
            for _ in range(_FULL_PIPE // _CHUNK):
                if key.fd not in self._begun or not self._carry(key):
                    break
            if key.fd in self._begun:  # a process that left the instances' group still holds the other end
                self._close(key)

    def _carry(self, key: selectors.SelectorKey) -> bool:
        """Write the complete lines of a pipe. Return False if there is nothing to read now."""
        try:
            data = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._close(key)
            return False
        whole, ended, rest = (self._begun[key.fd] + data).rpartition(b"\n")
        if len(rest) > _LONGEST:
            whole, ended, rest = whole + ended + rest, b"\n", b""
        self._begun[key.fd] = rest
        if ended:
            self._write(key, whole)
        return True

    def _close(self, key: selectors.SelectorKey) -> None:
        if rest := self._begun.pop(key.fd, b""):
            self._write(key, rest)
        with suppress(KeyError):  # closed by _write, after its reader was gone
            self._pipes.unregister(key.fd)
            os.close(key.fd)

    def _write(self, key: selectors.SelectorKey, lines: bytes) -> None:
        prefix, sink = key.data
        try:
            _write_all(sink, prefix + lines.replace(b"\n", b"\n" + prefix) + b"\n")
        except OSError:  # the launcher's output has no reader any more: close the instance's pipe, too
            self._begun.pop(key.fd, None)
            self._close(key)

    def _tell(self) -> None:
        with suppress(Empty, OSError):
            while True:
                _write_all(2, (self._messages.get_nowait() + "\n").encode())


def _write_all(sink: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sink, rest) :]
