"""Run an iterator ahead in a thread: the only prefetch loop.

The thread takes elements as long as it has credit, a token for each free slot of the buffer; it waits for credit and
the consumer waits for elements, both inside ``SimpleQueue.get``, so nobody polls. An exception of the source is handed
on in its place, and so is the end.

Where it is: the elements taken but not yet handed on are ahead of the consumer. If looking at the positions above is
cheap beside making an element, or the elements hold streams that cannot be saved, the thread does so after each one and
sends the positions along; saving then reads those of the last element handed on, and waits for nobody. Otherwise
elements are quick to make: saving waits for the one under way, and saves those in the buffer.

In a fork of the process there is no such thread, and the elements ahead are the parent's: the next one is an error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple

from datapipes.elements.streams import StreamWrapper, is_lost
from datapipes.errors import GraphError, StateError, UnsavableElement
from datapipes.position.cells import Cell, Table
from datapipes.position.forks import OwnerProcess, tell_of_forks

_PATIENCE = 2.0  # seconds to wait for a thread that is stuck in its source when it is told to stop
_CHEAP = 0.05  # the share of the thread's time that may go into looking at positions


class _Taken(NamedTuple):
    """An element, or an exception, and the positions after it if they were looked at."""

    element: Any
    error: BaseException | None
    above: Table | None


_AHEAD = "the elements ahead"
_END: Any = object()


class Ahead(Cell):
    """The elements that are ahead, and the thread that takes them."""

    carries = True

    def __init__(self, size: int) -> None:
        self._size = size
        self._buffer: deque[_Taken] = deque()
        self._arrived: SimpleQueue[None] = SimpleQueue()
        self._credit: SimpleQueue[bool] = SimpleQueue()
        self._guard = threading.Lock()  # held while the source moves
        self._thread: threading.Thread | None = None
        self._origin = OwnerProcess()
        tell_of_forks(self)
        self._above: Table | None = None  # the positions after the last element handed on

    def elements(self, source: Iterator[Any], mark: Callable[[], Table] | None) -> Iterator[Any]:
        """The elements of ``source``; ``mark`` looks at the positions above, if nobody else reads there."""
        self._origin.must_be_here(_AHEAD)
        self._arrived, self._credit = SimpleQueue(), SimpleQueue()
        if self._buffer and self._buffer[-1].element is _END:
            self._buffer.pop()  # the source is asked again
        for _ in range(len(self._buffer)):  # a name for the elements would stay, and with it the traceback of an error
            self._arrived.put(None)
        for _ in range(self._size - len(self._buffer)):
            self._credit.put(True)
        thread = threading.Thread(target=self._run, args=(source, mark), name="prefetch", daemon=True)
        self._thread = thread
        thread.start()
        try:
            while True:
                self._arrived.get()
                element, error, self._above = self._buffer.popleft()
                if error is not None:
                    try:
                        raise error
                    finally:
                        del error  # its traceback holds this frame
                if element is _END:
                    return
                self._credit.put(True)
                yield element
        finally:
            self._stop()

    def _run(self, source: Iterator[Any], mark: Callable[[], Table] | None) -> None:
        credit = self._credit
        making = looking = 0.0
        while credit.get():
            started = perf_counter()
            taken = _Taken(_END, None, None)
            with self._guard:
                try:
                    element = next(source, _END)
                    made = perf_counter()
                    look = looking <= _CHEAP * (making + made - started) or is_lost(element)
                    taken = _Taken(element, None, _positions(mark) if look else None)
                    del element
                except BaseException as error:  # handed to the consumer, who raises it
                    made = perf_counter()
                    taken = _Taken(None, error, _positions(mark))
                self._buffer.append(taken)
            at_end = taken.error is not None or taken.element is _END
            del taken  # the consumer has it
            making += made - started
            looking += perf_counter() - made
            self._arrived.put(None)
            if at_end:
                return

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            with suppress(Empty):  # at any moment the thread may take one
                while True:
                    self._credit.get_nowait()
            self._credit.put(False)
            if thread is not threading.current_thread():  # in which the collector may find an abandoned iterator
                thread.join(_PATIENCE)

    def forked(self) -> None:
        self._thread = None
        self._buffer = deque([_Taken(None, self._origin.refusal(_AHEAD), self._above)])
        self._arrived = SimpleQueue()
        self._arrived.put(None)

    def hold_still(self) -> AbstractContextManager[object]:
        if self._above is not None:
            return nullcontext()
        self._origin.must_be_here(_AHEAD)
        return nullcontext() if self._thread is None else self._guard

    def carried(self) -> Table | None:
        return self._above

    def in_step(self) -> bool:
        return False

    def save(self) -> bytes | None:
        if self._above is not None:
            return None
        ahead = [
            ["element", taken.element]
            if taken.error is None
            else ["lost", f"{type(taken.error).__name__}: {taken.error}"]
            for taken in self._buffer
            if taken.element is not _END
        ]
        return self.encode(ahead) if ahead else None

    def load(self, saved: Any) -> None:
        for entry in [] if saved is None else self.decode_list(saved):
            match entry:
                case ["element", element]:
                    self._buffer.append(_Taken(element, None, None))
                case ["lost", str() as text]:
                    error = GraphError(f"{self.label} met an error before its position was saved: {text:.500}")
                    self._buffer.append(_Taken(None, error, None))
                case _:
                    raise StateError(f"expected an element or an error, found {entry!r:.80}")

    def close(self) -> None:
        self._stop()
        for taken in self._buffer:
            StreamWrapper.close_streams(taken.element)
        self._buffer.clear()


def _positions(mark: Callable[[], Table] | None) -> Table | None:
    """The positions above, or None if nobody may look, or they cannot be saved: that is an error only when saving."""
    try:
        return None if mark is None else mark()
    except UnsavableElement:
        return None
