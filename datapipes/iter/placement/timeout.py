"""timeout: an element that takes too long is an error, and stays the next element.

The source is opened in a session of this stage's own. A thread pulls one element at a time from it, on request and
never ahead. The stage stops waiting after the timeout, but the thread continues: its late element is the next one.
While an element is requested and not handed on, the source's own position is that of another element; the last snapshot
and the count since then replace it.

When the stage is closed, its thread ends and closes the session. A thread cannot be killed: one that is stuck in the
stages above is left as a daemon, which ends when it returns. A fork of the process has no such thread, and continuing
there is an error.
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
from datapipes.messages.daemon_threads import CallThread
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.messages.stacks import stack_of
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import needs, same_length
from datapipes.position.forks import OwnerProcess
from datapipes.position.inner_session import InnerSessionCell
from datapipes.position.opening import Opening
from datapipes.position.session import Session, segments

T_co = TypeVar("T_co", covariant=True)

_PATIENCE = 2.0  # seconds to wait for the thread's current element when the stage is closed
_END: Any = object()


@renamed(seconds="timeout")
@operator
class TimeLimiter(IterDataPipe[T_co]):
    """The same elements; one that takes too long is a ``PullTimeout`` with the stack of the thread.

    No element is lost: the next ``next()`` waits as long for the same one. If it may never come,
    ``.timeout(5).retry(3)`` opens the part above again at this place. A function may then still run in the abandoned
    thread while it is called again. The same holds in a worker, and below a user's generator.

    All stages above run in a thread, at most one element at a time. The handover takes some 20 microseconds for each
    element: below ``batch`` it costs least. Put it below a ``sharding_filter``: above one, each shard makes all
    elements.

    Args:
        timeout: Most seconds from the request of an element until it is there; above 0.

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
    _passes_through: ClassVar[bool] = True
    _exclusive_because = (
        "runs a thread for one child of a fork, demux or unzip while another part of the graph reads its sibling: put "
        "timeout() above the fork"
    )

    source_datapipe: IterDataPipe[T_co]

    def __init__(self, source_datapipe: IterDataPipe[T_co], timeout: float) -> None:
        self.source_datapipe = source_datapipe
        self._timeout = timeout  # there is a method of the name
        if not isinstance(timeout, int | float):
            raise BadArgumentType(f"timeout must be a number of seconds, got {timeout!r:.60}, in {stage(self)}")
        needs(0 < timeout <= threading.TIMEOUT_MAX, self, "timeout must be a number of seconds above 0")

    def _reads(self) -> tuple[()]:
        return ()

    def _open(self, at: Opening) -> Iterator[T_co]:
        cell = at.cell(lambda: _TimeoutCell(self._timeout))
        cell.begin(at, self.source_datapipe)
        return self._elements(at, cell)

    def _elements(self, at: Opening, cell: _TimeoutCell) -> Iterator[T_co]:
        try:
            yield from cell.elements(at, self.source_datapipe)
        except Exception:  # an interruption costs no element, and the session handles it
            cell.skip_failed_element()
            raise

    __len__ = same_length


class _TimeoutCell(InnerSessionCell):
    """Session of the source, and the thread that pulls from it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._origin = OwnerProcess()
        self._puller: _Puller | None = None

    def is_ahead(self) -> bool:
        return super().is_ahead() or (self._puller is not None and self._puller.asked > self._puller.taken)

    def _pulled(self, session: Session) -> Iterator[Any]:
        self._origin.must_be_here("the pulls")
        if self._puller is None:
            with CtrlCWaits():  # otherwise the thread could be lost
                self._puller = _Puller(session)
        puller = self._puller
        while True:
            element, error = puller.wait(self._seconds, self.label)
            # It counts as taken in the step that hands it on. No function is called in between, so no signal arrives.
            puller.brought = None
            puller.taken += 1
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback refers to this frame
            if element is _END:
                return
            yield element
            self._origin.must_be_here("the pulls")

    def _end(self, session: Session) -> None:
        with CtrlCWaits():
            puller, self._puller = self._puller, None
            if puller is not None and self._origin.is_here:
                puller.leave(self.label)
                return
        if puller is None or not puller.is_at_work():  # in a fork it stays True
            session.close()


class _Pulled(NamedTuple):
    """Element or exception."""

    element: Any
    error: BaseException | None = None


class _Puller:
    """Thread that pulls from a session on request, and closes the session when it is told to end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requests: SimpleQueue[int] = SimpleQueue()  # numbers of elements, from 1; 0: end
        self._arrived: SimpleQueue[None] = SimpleQueue()
        self.asked = 0  # number of the last element requested
        self.brought: _Pulled | None = None  # that element, from its arrival until it is taken
        self.taken = 0  # number of the last element taken
        self._is_late = False
        self._thread = CallThread("timeout")
        self._thread.begin(self._run)

    def is_at_work(self) -> bool:
        """Return whether the thread is pulling, so that the session moves."""
        return self.asked > self.taken and self.brought is None

    def wait(self, seconds: float, label: str) -> _Pulled:
        """Return the next element, ``_END``, or an exception in its place. Raise PullTimeout if it is late."""
        if self.asked == self.taken:
            self._is_late = False
        self.asked = self.taken + 1
        self._requests.put(self.asked)  # the thread skips a repeated request
        until = monotonic() + seconds
        while self.brought is None:
            try:
                self._arrived.get(timeout=max(until - monotonic(), 0))
            except Empty:
                if self.brought is None:
                    self._is_late = True
                    raise PullTimeout(
                        f"{label}: no element after {seconds:g} seconds; the stages above stand here:\n"
                        f"{stack_of(self._thread.thread)}"
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
                self.brought = _Pulled(next(elements, _END))
            except BaseException as error:  # the stage raises it
                self.brought = _Pulled(None, error)
            self._arrived.put(None)

    def _close(self) -> None:
        if self.brought is not None:
            StreamWrapper.close_streams(self.brought.element)
        self._session.close()

    def leave(self, label: str) -> None:
        """End the thread. If it is stuck, warn, and leave it behind."""
        self._requests.put(0)
        if not self._thread.end(self._close, 0 if self._is_late and self.is_at_work() else _PATIENCE):
            warn(f"{label}: a thread is stuck in the stages above and is left behind; it ends when it returns")
