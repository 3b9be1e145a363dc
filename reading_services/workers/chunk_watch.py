"""ChunkWatch: sends what is there of a chunk while its next element takes long.

The loop that makes elements stands in a user's function then, so another thread sends. It looks every 0.05 s while
chunks are made, and sleeps otherwise: an element costs nothing, a chunk half a microsecond. It touches the loop only
while a chunk is open, and the loop goes on only when the chunk is closed again. A list may be read and cut while
``list.extend`` in another thread waits for its next element.

A function that holds the GIL holds up this thread, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

_TICK = 0.05
"""Seconds between two looks: a chunk that is open at two of them is sent as far as it is there."""
_PATIENCE = 2.0  # seconds for the thread to end


class ChunkWatch:
    """The chunk that is being made, and the thread that sends of it.

    Args:
        send: A function that takes elements from the start of a list, sends them and returns their number. The list may
            be empty. None: nothing more of it can be sent. An exception is raised in the loop when it closes the chunk.
    """

    def __init__(self, send: Callable[[list[Any]], int | None]) -> None:
        self._send = send
        self._lock = threading.Lock()  # held while something is sent
        self._chunk: list[Any] | None = None
        self._opened = 0  # number of chunks so far
        self._sent = 0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._sleeps = True
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True: there is a chunk; False: leave

    def open(self, chunk: list[Any]) -> None:
        """Watch a list that is being extended."""
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
        """Leave the list to the loop; return how many elements were sent of it."""
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
        """Wait for the next look, or for a chunk if there was none for a while; False: leave."""
        if self._chunk is None and seen == self._opened:
            self._sleeps = True
            if self._chunk is None:  # if one was opened meanwhile, the bell may ring once more than is needed
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
                except BaseException as error:  # raised by the loop when it closes the chunk
                    self._error, sent = error, None
                self._sent += sent or 0
                if sent is None:
                    self._chunk = None
