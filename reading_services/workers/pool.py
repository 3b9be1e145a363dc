"""The pool of workers of one service, as home sees them, wherever they run: started together, and ended by one owner.

A host (``MemberHost``) only starts workers, carries frames, waits for a frame or for the end of a member, and ends all
members. Everything else is here, once: the opening that a frame belongs to, the members to replace, and the thread that
may speak for this process.

Nothing here waits without an end. Whoever waits for a message is woken by the end of any member of the pool, and when
another thread leaves the opening or ends the pool.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import ClassVar

from datapipes.errors import WorkerDied, WorkersLeft, WorkerTimeout
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.position.forks import OwnerProcess
from reading_services.workers.restarts import BEFORE_ITS_FIRST, Suspicions, WorkerEnd, died
from reading_services.workers.transport.protocol import (
    START,
    Consumer,
    Failed,
    Items,
    OfOpening,
    Started,
    ToConsumer,
    ToProducer,
)
from reading_services.workers.worker import Order, PoolSpec, numbered

Number = int | None
"""A worker's number; None: the dispatcher."""


class MemberHost(ABC):
    """Where the members of a pool run: a worker for each number, and a dispatcher if a part is dispatched."""

    members: ClassVar[str]
    """What they are, in a word or two;"""
    to_start: ClassVar[float] = 0.0
    """seconds that one may take to start, beside the user's timeout."""

    @abstractmethod
    def start(self, numbers: Collection[int]) -> None:
        """Start these workers, and before them the dispatcher if there has to be one and none runs."""

    @abstractmethod
    def send(self, number: int, frame: ToProducer) -> None:
        """Send a message without waiting; BrokenPipeError or ConnectionResetError if nobody is there to get it."""

    @abstractmethod
    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer | None]] | None:
        """Messages that have come, and None in place of one for who has ended; None if the time is over."""

    @abstractmethod
    def wake(self) -> None:
        """Have whoever waits return at once, or who waits next."""

    @abstractmethod
    def was_woken(self) -> None:
        """Forget ``wake``: nobody waits."""

    @abstractmethod
    def ended(self) -> set[Number]:
        """Members that were started and have ended without being told to."""

    @abstractmethod
    def failure_at_start(self, number: int) -> BaseException | None:
        """The error that kept a worker which has ended from starting, if that is why and it was not waited for."""

    @abstractmethod
    def end_of(self, number: Number) -> WorkerEnd | WorkerDied:
        """How a member has ended, who is given up if it has not; an error if another one would end as well."""

    @abstractmethod
    def stacks_of(self, number: int) -> str:
        """Where a worker stands, as far as it can be found out."""

    @abstractmethod
    def forget(self, numbers: Collection[int]) -> None:
        """Let go of workers that have ended."""

    @abstractmethod
    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        """End all members: each worker that runs has a message to be sent to it first."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the place, when all members have ended."""


class PolledHost(MemberHost):
    """A place whose members are waited for by descriptors: ``woken`` is one of these."""

    def __init__(self) -> None:
        self.woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = threading.RLock()  # another thread may wake what this one closes

    def wake(self) -> None:
        with self._closing:
            if self.woken >= 0:
                os.eventfd_write(self.woken, 1)

    def was_woken(self) -> None:
        with self._closing, suppress(BlockingIOError):  # another thread has done so
            if self.woken >= 0:
                os.eventfd_read(self.woken)

    def close(self) -> None:
        with self._closing:
            os.close(self.woken)
            self.woken = -1


@dataclass
class _Member:
    """Home's record of a worker."""

    consumer: Consumer = field(default_factory=Consumer)
    frames: deque[OfOpening] = field(default_factory=deque)
    """Messages that have come and were not asked for yet."""
    runs: bool = False
    started: float | None = None
    """When its message came that it has started;"""
    has_spoken: bool = False
    """and whether anything has come since."""
    failure: Failed | None = None
    """Its message that it could not start, until somebody is told: whatever opening that is, and however long it takes
    to end."""
    is_mourned: bool = False
    """Whether its end was told: whoever goes on wants another one in its place."""


class Pool:
    """The workers of a service."""

    def __init__(self, plan: PoolSpec, place: MemberHost) -> None:
        self.count = plan.workers
        self.alone = plan.dispatched is None
        self.saves = False
        """Whether somebody saves positions, so that workers tell large ones as well; they learn it as they go on."""
        self.suspicions: Suspicions = {}
        """What the last death of each worker was at, kept for the next iterations (``restarts``)."""
        self._timeout = plan.timeout
        self._place = place
        self._whose = f"the {place.members}"
        self._workers = [_Member() for _ in range(plan.workers)]
        self._gone: set[Number] = set()  # whose end has come, and was not told yet: a place need not tell it again
        self._opening = 0
        self._origin = OwnerProcess()
        self._lock = threading.RLock()  # the collector may end a pool in the thread that waits for it
        self._left = self._closed = False

    # -- starting and ending -------------------------------------------------------------------------------------------

    def start(self, numbers: Container[int] = ()) -> None:
        """Start the workers that were never started, those whose end was told, and among ``numbers`` all that ended.

        With a dispatcher all start together, because its links cannot be mended.
        """
        ended = self._place.ended()
        ended |= {number for number, worker in self._running() if worker.is_mourned or worker.failure is not None}
        if ended:
            self._let_go({number for number in ended if number is not None}, numbers)
        missing = [number for number, worker in enumerate(self._workers) if not worker.runs]
        if missing:
            self._place.start(missing)
        for number in missing:
            self._workers[number].runs = True

    def _let_go(self, ended: set[int], wanted: Container[int]) -> None:
        """Let go of workers that have ended, if their end was told or they are wanted; raise why one did not start."""
        failure = next(filter(None, map(self._failure_at_start, ended)), None)
        if failure is not None or not self.alone:
            self._end()
        else:
            due = [number for number in ended if number in wanted or self._workers[number].is_mourned]
            self._place.forget(due)
            self._are_gone(due)
        if failure is not None:
            raise failure

    def close(self) -> None:
        """End all members; calling it again does nothing, and so does calling it in a fork of this process."""
        if not self._origin.is_here or self._closed:
            return
        with self._nobody_waits():
            if not self._closed:
                self._closed = True
                self._end()
                self._place.close()

    def _end(self) -> None:
        running = self._running()
        self._place.end([(number, worker.consumer.close()) for number, worker in running])
        self._gone.clear()
        self._are_gone(number for number, _ in running)

    def _are_gone(self, numbers: Iterable[int]) -> None:
        for number in numbers:  # what one of them has sent is of an earlier opening for who takes its place
            self._gone.discard(number)
            self._workers[number] = _Member(Consumer(self._workers[number].consumer.opening))

    def _running(self) -> list[tuple[int, _Member]]:
        return [(number, worker) for number, worker in enumerate(self._workers) if worker.runs]

    # -- talking -------------------------------------------------------------------------------------------------------

    def open(self, orders: Sequence[Order | None]) -> None:
        """Begin an opening on the workers that are given an order; the others go on with what they have."""
        with self._lock:
            self._must_talk()
            self._left = False
            with CtrlCWaits():  # or a frame would be sent again that was sent already
                self.start([number for number, order in enumerate(orders) if order is not None])
                self._opening += 1
                for number, order in enumerate(numbered(orders, self._opening)):
                    if order is not None:
                        self._workers[number].frames.clear()
                        self._tell(number, self._workers[number].consumer.open(order))

    def stop(self) -> None:
        """Stop the opening: nobody wants the rest; whoever waits for it in another thread is told as well."""
        if not self._origin.is_here or self._closed:
            return
        with self._nobody_waits(), CtrlCWaits():
            for number, worker in self._running():
                worker.frames.clear()
                if (frame := worker.consumer.stop()) is not None:
                    with suppress(OSError):
                        self._place.send(number, frame)

    def _must_talk(self) -> None:
        """Raise where nobody may speak for the pool: in a fork of its process, and when it has ended."""
        self._origin.must_be_here(self._whose)
        if self._closed:
            raise WorkersLeft("the workers were ended, with their reading service")

    @contextmanager
    def _nobody_waits(self) -> Iterator[None]:
        """A block in which no thread waits for an element, nor will until the next opening."""
        self._left = True
        self._place.wake()
        with self._lock:
            self._place.was_woken()
            yield

    def _tell(self, number: int, frame: ToProducer) -> None:
        try:
            self._place.send(number, frame)
        except (BrokenPipeError, ConnectionResetError):
            raise self._death_of(number) from None

    def used_up(self, number: int, frame: Items) -> None:
        """Give a worker credit for a message."""
        with self._lock, CtrlCWaits():
            self._must_talk()
            if (credit := self._workers[number].consumer.used_up(frame, self.saves)) is not None:
                self._tell(number, credit)

    def next_frame(self, numbers: Iterable[int]) -> tuple[int, OfOpening]:
        """The next message of one of these workers, whichever comes first."""
        with self._lock:
            self._must_talk()
            asked = [(number, self._workers[number]) for number in numbers]
            started = 0.0 if self._timeout is None else monotonic()
            while not self._left:
                for number, worker in asked:
                    if worker.frames:
                        return number, worker.frames.popleft()
                    if worker.failure is not None:
                        raise self._death_of(number)
                patience = None if self._timeout is None else self._patience(asked, started)
                came = self._place.wait(0.0 if self._gone else patience)  # or what has come before somebody went
                if came is None and not self._gone:
                    raise self._too_slow(asked[0][0])
                for sender, frame in came or ():
                    if sender is None or frame is None:
                        self._gone.add(sender)
                    else:
                        self._take(self._workers[sender], frame)
                if self._gone and not self._left and not any(worker.frames for _, worker in asked):
                    raise self._death_of(min(self._gone, key=_dispatcher_first))
            raise WorkersLeft("this iteration was left, or its workers were ended, while an element was waited for")

    def _patience(self, asked: list[tuple[int, _Member]], since: float) -> float:
        """Seconds that are left of the timeout; for a worker that is starting it begins when that has imported."""
        begun = [since + self._place.to_start if worker.started is None else worker.started for _, worker in asked]
        return max(0.0, max(since, *begun) + (self._timeout or 0) - monotonic())

    def _take(self, worker: _Member, frame: ToConsumer) -> None:
        current = worker.consumer.receive(frame)
        if isinstance(frame, Started):
            worker.started = monotonic()
            return
        if isinstance(current, Failed) and current.opening == START:
            worker.failure = current
            return
        worker.has_spoken = True
        if current is not None:
            worker.frames.append(current)

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def dispatcher_died(self) -> WorkerDied:
        """The error for the dispatcher, of which a worker has said that it is gone."""
        with self._lock:
            self._must_talk()
            death = self._death_of(None)
            assert isinstance(death, WorkerDied)
            return death

    def _death_of(self, number: Number) -> BaseException:
        """The error for a member of the pool that has gone."""
        self._gone.discard(number)
        if number is not None:
            self._workers[number].is_mourned = True
            if (failure := self._failure_at_start(number)) is not None:
                return failure
        ended = self._place.end_of(number)
        if isinstance(ended, WorkerDied):
            return ended
        of = self._workers if number is None else [self._workers[number]]  # a dispatcher speaks through all of them
        if not any(worker.has_spoken for worker in of):
            return died(ended, BEFORE_ITS_FIRST)
        return died(
            ended,
            "in the middle of its work; next() on the same iterator starts another one, which goes on without a loss, "
            "and a new loop over the loader begins the next epoch; with restart=n the service does so by itself",
        )

    def _failure_at_start(self, number: int) -> BaseException | None:
        """The error that kept a worker from starting, if that is why it ends and nobody was told."""
        worker = self._workers[number]
        if worker.failure is None:
            return self._place.failure_at_start(number)
        error: BaseException = worker.failure.error.error()
        worker.failure = None
        return error

    def _too_slow(self, number: int) -> WorkerTimeout:
        return WorkerTimeout(
            f"worker {number} has sent nothing for {self._timeout} seconds (timeout=...); it stands at\n"
            + self._place.stacks_of(number)
        )


def _dispatcher_first(number: Number) -> int:
    return -1 if number is None else number
