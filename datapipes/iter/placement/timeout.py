"""timeout: an element that takes too long is an error, and stays the next one.

The source is opened in a session of this stage's own, which a thread pulls from: one element each time that it is
asked to, and never ahead. The stage gives up waiting after a while, and the thread does not: the element that it brings
late is the next one. From when an element is asked for until it is handed on, the source's own position is that of
another element; the position that was looked at last, and how many elements were handed on since, take its place.

When the stage is closed its thread ends, and closes the session on its way. A thread cannot be killed: one that is
stuck in what is above is left behind, as a daemon, told to do the same when it comes back. In a fork of the process
there is no such thread, and going on is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, ClassVar, NamedTuple, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.description.renamed import renamed
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgumentType, PullTimeout
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.messages.stacks import stack_of
from datapipes.messages.warnings import warn
from datapipes.operators.checks import needs, same_length
from datapipes.position.forks import OwnerProcess
from datapipes.position.inner_session import InnerSession
from datapipes.position.opening import Opening
from datapipes.position.session import Session, segments

T_co = TypeVar("T_co", covariant=True)

_PATIENCE = 2.0  # seconds to wait for a thread that is at work when it is told to leave
_END: Any = object()


@renamed(seconds="timeout")
@operator
class TimeLimiter(IterDataPipe[T_co]):
    """The same elements; one that is not there after some seconds is a ``PullTimeout``, which shows what is at work.

    No element is lost: the next ``next()`` waits as long for the same one, which the thread that makes it brings when
    it has it. Where that may be never, ``.timeout(5).retry(3)`` gives it up, and opens what is above again at this
    place: a function that was called may then still be at work in the thread that is left, while it is called anew. So
    it is in a worker, and below a user's generator.

    All that is above runs in a thread, at most one element at a time. Handing over one takes some 20 microseconds:
    behind ``batch`` it costs least. Put it below a ``sharding_filter``: above one, each shard makes all elements.

    Args:
        timeout: How long an element may take, from when it is asked for; more than 0.

    >>> import threading
    >>> from datapipes.iter import IterableWrapper
    >>> ready = threading.Event()
    >>> elements = iter(IterableWrapper("ab").map(lambda x: ready.wait(60) and x).timeout(0.01))
    >>> try:
    ...     next(elements)
    ... except TimeoutError as error:
    ...     print(str(error).partition("; ")[0])
    .timeout(0.01): no element after 0.01 seconds
    >>> ready.set()
    >>> list(elements)
    ['a', 'b']
    """

    _fluent: ClassVar[str | None] = "timeout"
    _hands_on: ClassVar[bool] = True
    _alone = (
        "has a thread for one child of a fork, demux or unzip while another part of the graph reads its sibling: put "
        "timeout() above the fork"
    )

    source_datapipe: IterDataPipe[T_co]

    def __init__(self, source_datapipe: IterDataPipe[T_co], timeout: float) -> None:
        self.source_datapipe = source_datapipe
        self._timeout = timeout  # there is a method of the name
        if not isinstance(timeout, int | float):
            raise BadArgumentType(f"timeout is a number of seconds, got {timeout!r:.60}, in {stage(self)}")
        needs(0 < timeout <= threading.TIMEOUT_MAX, self, "timeout is a number of seconds above 0")

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        cell = at.cell(lambda: _Pulls(self._timeout))
        cell.begin(at, self.source_datapipe)
        return self._elements(at, cell)

    def _elements(self, at: Opening, cell: _Pulls) -> Iterator[T_co]:
        try:
            yield from cell.elements(at, self.source_datapipe)
        except Exception:  # an interruption costs no element, and the session knows that
            cell.go_on_behind()
            raise

    __len__ = same_length


class _Pulls(InnerSession):
    """The session of the source, and the thread that pulls from it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._origin = OwnerProcess()
        self._puller: _Puller | None = None

    def is_at_work(self) -> bool:
        return self._puller is not None and self._puller.is_at_work()

    def is_ahead(self) -> bool:
        return super().is_ahead() or (self._puller is not None and self._puller.asked > self._puller.taken)

    def _pulled(self, session: Session) -> Iterator[Any]:
        self._origin.must_be_here("the pulls")
        if self._puller is None:
            with CtrlCWaits():  # or the thread would be left behind
                self._puller = _Puller(session)
        puller = self._puller
        while True:
            element, error = puller.wait(self._seconds, self.label)
            # It counts as taken in the step that hands it on: nothing is called in between, so no signal comes there.
            puller.brought = None
            puller.taken += 1
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame
            if element is _END:
                return
            yield element
            self._origin.must_be_here("the pulls")

    def _end(self, session: Session) -> bool:
        is_at_work, puller = self.is_at_work(), self._puller
        with CtrlCWaits():
            self._puller = None
            if puller is not None and self._origin.is_here:
                return puller.leave(self.label)
        if not is_at_work:  # in a fork it stays so for ever
            session.close()
        return not is_at_work


class _Brought(NamedTuple):
    """An element, or an exception."""

    element: Any
    error: BaseException | None = None


class _Puller:
    """A thread that pulls from a session when it is asked to, and closes the session when it is told to leave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requests: SimpleQueue[int] = SimpleQueue()  # numbers of elements, from 1; 0: leave
        self._arrived: SimpleQueue[None] = SimpleQueue()
        self.asked = 0  # number of the element that was asked for last,
        self.brought: _Brought | None = None  # that element, from when it has come until it is taken,
        self.taken = 0  # and number of the last one that was taken
        self._is_late = False
        self._error: BaseException | None = None  # met in closing the session
        self._thread = threading.Thread(target=self._run, name="timeout", daemon=True)
        self._thread.start()

    def is_at_work(self) -> bool:
        """Return whether it is pulling, so that the session moves."""
        return self.asked > self.taken and self.brought is None

    def wait(self, seconds: float, label: str) -> _Brought:
        """Return the next element, ``_END``, or what was raised in its place. Raise PullTimeout if it is not there."""
        if self.asked == self.taken:
            self._is_late = False
        self.asked = self.taken + 1
        self._requests.put(self.asked)  # once more, if it was asked for before: the thread passes over that
        until = monotonic() + seconds
        while self.brought is None:
            try:
                self._arrived.get(timeout=max(until - monotonic(), 0))
            except Empty:
                if self.brought is None:
                    self._is_late = True
                    raise PullTimeout(
                        f"{label}: no element after {seconds:g} seconds; what is above stands here:\n"
                        f"{stack_of(self._thread)}"
                    ) from None
        return self.brought

    def _run(self) -> None:
        elements = chain.from_iterable(segments(self._session))
        done = 0
        while number := self._requests.get():
            if number == done:
                continue
            done = number
            try:
                self.brought = _Brought(next(elements, _END))
            except BaseException as error:  # handed to the stage, which raises it
                self.brought = _Brought(None, error)
            self._arrived.put(None)
        if self.brought is not None:
            StreamWrapper.close_streams(self.brought.element)
        del elements  # a generator in it is closed
        try:
            self._session.close()
        except BaseException as error:  # handed to whoever waits for the end of this thread
            self._error = error

    def leave(self, label: str) -> bool:
        """Have it leave; False if it is stuck, and is left behind."""
        self._requests.put(0)
        if self._thread is threading.current_thread():  # in which the collector may find an abandoned iterator
            return False
        self._thread.join(0 if self._is_late and self.is_at_work() else _PATIENCE)
        if self._thread.is_alive():
            warn(f"{label}: a thread is stuck in what is above and is left behind; it ends when it comes back")
            return False
        if self._error is not None:
            raise self._error
        return True
