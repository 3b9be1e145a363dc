"""Run an iterator ahead in a thread: the only prefetch loop.

The thread takes elements as long as it has credit: one token for each free slot of the buffer. It waits for credit and
the consumer waits for elements, both inside ``SimpleQueue.get``, without polling. An exception of the source is handed
on in its place, and so is the end.

The position: the buffer holds elements that were taken but not yet handed on. If a snapshot of the stages above is
cheap compared to making an element, or if elements hold streams that cannot be saved, the thread takes a snapshot
after each element. Saving then reads the snapshot of the last element handed on, without waiting. Otherwise elements
are made quickly: saving waits for the element under way and saves the buffer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple

from datapipes.elements.streams import StreamWrapper, is_lost
from datapipes.messages.daemon_threads import CallThread
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.position.cells import Cell, Table
from datapipes.position.forks import OwnerProcess, tell_of_forks
from datapipes.position.position_history import PositionHistory, loaded_waiting, saved_waiting


class _Prefetched(NamedTuple):
    """An element or an exception, and the number of elements with it."""

    element: Any
    error: BaseException | None
    number: int
    finish: Callable[[], Any] | None = None
    """Returns the element to hand on, if ``begin`` was called with it."""


_AHEAD = "the elements ahead"
_END: Any = object()


class PrefetchCell(Cell):
    """The elements that are ahead, and the thread that takes them.

    One thread takes all elements of a session, also after errors, and closes the stages above if this stage is their
    only reader: an object that a user's class opens there, such as a connection to sqlite, may belong to the thread
    that opened it. A fork of the process does not have the thread. The elements ahead belong to the parent, so the next
    one is an error in the fork.
    """

    carries = True
    above: ExitStack

    def __init__(self, size: int) -> None:
        self._size = size
        self._buffer: deque[_Prefetched] = deque()
        self._arrived: SimpleQueue[None] = SimpleQueue()
        self._credit: SimpleQueue[bool] = SimpleQueue()
        self._guard = threading.Lock()  # held while the source moves
        self._thread: CallThread | None = None
        self._origin = OwnerProcess()
        tell_of_forks(self)
        self._trail: PositionHistory[Table] = PositionHistory()
        self.above = ExitStack()
        self._handed_on = 0

    def elements(
        self,
        source: Iterator[Any],
        mark: Callable[[], Table] | None,
        begin: Callable[[Any], Callable[[], Any]] | None = None,
        interrupted: Callable[[BaseException], None] | None = None,
    ) -> Iterator[Any]:
        """Return the elements of ``source``, taken ahead.

        Args:
            source: The elements.
            mark: A function that takes a snapshot of the stages above. ``None``: another stage reads there, too.
            begin: A function that the thread calls with each element. Its result is called when the element is handed
                on, and returns the element to hand on. The buffer is saved as the source gave it. ``None``: elements
                are handed on unchanged.
            interrupted: A function that is called in the thread with each exception of the source. ``None``: none.
        """
        self._origin.must_be_here(_AHEAD)
        self._arrived, self._credit = SimpleQueue(), SimpleQueue()
        if self._buffer and self._buffer[-1].element is _END:
            self._buffer.pop()  # the source is asked again
        for _ in range(len(self._buffer)):  # not over the elements: a variable would keep the traceback of an error
            self._arrived.put(None)
        for _ in range(self._size - len(self._buffer)):
            self._credit.put(True)
        taken = self._handed_on + len(self._buffer)
        try:
            with CtrlCWaits():
                if self._thread is None:
                    self._thread = CallThread("prefetch")
                self._thread.begin(partial(self._run, source, mark, taken, begin, interrupted))
            while True:
                self._arrived.get()
                element, error, number, finish = self._buffer[0]
                if error is not None:
                    del self._buffer[0]
                    self._handed_on = number
                    try:
                        raise error
                    finally:
                        del error  # its traceback holds this frame
                if element is _END:
                    return
                if begin is not None:
                    try:
                        element = (finish or begin(element))()  # a loaded element has no `finish` yet
                    except Exception:
                        del self._buffer[0]
                        self._handed_on = number
                        raise
                self._credit.put(True)
                # It is handed on right after it is removed. Nothing is called in between, so no signal can come there.
                del self._buffer[0]
                self._handed_on = number
                yield element
        finally:
            self._stop()

    def _run(
        self,
        source: Iterator[Any],
        mark: Callable[[], Table] | None,
        number: int,
        begin: Callable[[Any], Callable[[], Any]] | None,
        interrupted: Callable[[BaseException], None] | None,
    ) -> None:
        credit = self._credit
        while credit.get():
            number += 1
            started = perf_counter()
            with self._guard:
                try:
                    taken = _Prefetched(next(source, _END), None, number)
                    if begin is not None and taken.element is not _END:
                        taken = taken._replace(finish=begin(taken.element))
                except BaseException as error:  # handed to the consumer, which raises it
                    if interrupted is not None:
                        interrupted(error)
                    taken = _Prefetched(None, error, number)
                try:
                    if taken.element is not _END:
                        must = taken.error is not None or is_lost(taken.element)
                        self._trail.made(perf_counter() - started, number, self._handed_on, mark, must)
                except BaseException as error:  # an interruption: the trail keeps an Exception until a state is saved
                    taken = _Prefetched(None, error, number)
                self._buffer.append(taken)
            at_end = taken.error is not None or taken.element is _END
            del taken  # the consumer has it
            self._arrived.put(None)
            if at_end:
                return

    def _stop(self) -> None:
        if self._thread is not None:
            with CtrlCWaits():  # an interruption here would leave the thread running
                with suppress(Empty):  # the thread may take a token at any time
                    while True:
                        self._credit.get_nowait()
                self._credit.put(False)
            self._thread.wait()

    def settle(self) -> None:
        if self._thread is not None:
            self._thread.settle()

    def forked(self) -> None:
        self._thread = None
        self._buffer = deque([_Prefetched(None, self._origin.refusal(_AHEAD), self._handed_on)])
        self._arrived = SimpleQueue()
        self._arrived.put(None)

    def freeze_above(self) -> AbstractContextManager[object]:
        if self.carried() is not None:
            return nullcontext()
        self._origin.must_be_here(_AHEAD)
        return nullcontext() if self._thread is None else self._guard

    def carried(self) -> Table | None:
        return self._trail.just_after(self._handed_on)

    def in_step(self) -> bool:
        return False

    def save(self) -> bytes | None:
        if self.carried() is not None:
            return None
        waiting = [x for x in self._buffer if x.element is not _END]
        return saved_waiting(self, (["element", x.element] if x.error is None else x.error for x in waiting))

    def load(self, saved: Any) -> None:
        for number, (kind, it) in enumerate(loaded_waiting(self, saved, "element"), 1):
            self._buffer.append(_Prefetched(it, None, number) if kind == "element" else _Prefetched(None, it, number))

    def close(self) -> None:
        with CtrlCWaits():  # an interruption here would leave the thread running
            self._stop()
            thread, self._thread = self._thread, None
            if thread is None:
                self.above.close()
            else:
                thread.end(self.above.close)
        for taken in self._buffer:
            StreamWrapper.close_streams(taken.element)
        self._buffer.clear()
