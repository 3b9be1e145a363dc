"""ChunkWatch: it sends the elements of an unfinished chunk while the next element takes long.

The loop that makes elements is inside a user's function then, so another thread sends. It checks every 0.05 s while
chunks are made, and sleeps otherwise. An element costs nothing, and a chunk half a microsecond. The thread touches the
loop only while a chunk is open, and the loop goes on only after it has closed the chunk. A list may be read and cut
while ``list.extend`` in another thread waits for its next element.

A function that holds the GIL delays this thread, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

_TICK = 0.05
"""Seconds between two checks. The elements of a chunk that is open at two checks are sent."""
_PATIENCE = 2.0  # seconds for the thread to end


class ChunkWatch:
    """The chunk that is being made, and the thread that sends its elements early.

    Args:
        send: Takes elements from the start of a list, which may be empty, sends them and returns their number. Returns
            None if the rest of the chunk cannot be sent. Its exception is raised by ``close``.
    """

    def __init__(self, send: Callable[[list[Any]], int | None]) -> None:
        self._send = send
        self._lock = threading.Lock()  # held while elements are sent
        self._chunk: list[Any] | None = None
        self._opened = 0  # number of chunks so far
        self._sent = 0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._sleeps = True
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True: there is a chunk; False: leave

    def open(self, chunk: list[Any]) -> None:
        """Watch a list while the loop extends it."""
        self._opened += 1
        self._sent = 0
        self._chunk = chunk
        if self._sleeps:
            self._sleeps = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="chunk watch", daemon=True)
                self._thread.start()
            self._bell.put(True)

    def close(self) -> int:
        """Stop watching the list. Return how many of its elements were sent."""
        with self._lock:
            self._chunk = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._sent

    def end(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._bell.put(False)
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        seen = 0
        while self._wait(seen):
            if seen == self._opened:
                self._send_early(seen)
            seen = self._opened

    def _wait(self, seen: int) -> bool:
        """Wait for the next check, or for a chunk if there is none. Return False to end the thread."""
        if self._chunk is None and seen == self._opened:
            self._sleeps = True
            if self._chunk is None:  # a chunk that is opened now rings the bell once more, which does no harm
                return self._bell.get()
            self._sleeps = False
        try:
            return self._bell.get(timeout=_TICK)
        except Empty:
            return True

    def _send_early(self, number: int) -> None:
        with self._lock:
            if self._opened == number and self._chunk is not None:
                try:
                    sent = self._send(self._chunk)
                except BaseException as error:  # ``close`` raises it in the loop
                    self._error, sent = error, None
                self._sent += sent or 0
                if sent is None:
                    self._chunk = None
