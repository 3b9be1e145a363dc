"""The pool of workers of one service, as the main process sees them, wherever they run.

A member is a worker or the dispatcher. A host (``MemberHost``) only starts members, carries frames, reports the end of
a member as a frame, and ends all members. Everything else is here, once for all hosts: the opening that a frame belongs
to, the members to replace, and the lock by which one thread at a time talks to the members.

No wait lasts for ever: the end of any member wakes the waiting thread, and so does a thread that leaves the opening or
closes the pool.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import ClassVar

from datapipes.errors import WorkersLeft, WorkerTimeout
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.position.forks import OwnerProcess
from reading_services.workers.restarts import Suspicions, error_of
from reading_services.workers.transport.protocol import (
    Consumer,
    EndReason,
    Items,
    OfOpening,
    Started,
    ToConsumer,
    ToProducer,
    WorkerEnd,
)
from reading_services.workers.worker import Order, PoolSpec, numbered

Number = int | None
"""A worker's number. None: the dispatcher."""


class MemberHost(ABC):
    """Host of the members of a pool: a worker for each number, and a dispatcher if a part is dispatched."""

    members: ClassVar[str]
    """The members as errors call them, such as "worker processes"."""
    to_start: ClassVar[float] = 0.0
    """Seconds that a member may take to start, in addition to the user's timeout."""

    @abstractmethod
    def start(self, numbers: Collection[int]) -> None:
        """Start the workers of these numbers, which do not run. Start the dispatcher first if it does not run."""

    @abstractmethod
    def send(self, number: int, frame: ToProducer) -> None:
        """Send a frame without waiting. If the worker has ended, drop the frame: its end arrives by ``wait``."""

    @abstractmethod
    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer]] | None:
        """Wait for frames. Return ``(member, frame)`` pairs: the last frame of each member is its ``WorkerEnd``.

        Return None after ``seconds`` seconds.
        """

    @abstractmethod
    def wake(self) -> None:
        """Make the waiting thread return at once. If no thread waits, make the next ``wait`` return at once."""

    @abstractmethod
    def was_woken(self) -> None:
        """Undo ``wake`` when no thread waits."""

    @abstractmethod
    def give_up_dispatcher(self) -> list[tuple[Number, ToConsumer]]:
        """Return the last frames of the dispatcher. End it if it still runs: a worker has lost its link with it."""

    @abstractmethod
    def stacks_of(self, number: int) -> str:
        """Return the stack traces of a worker, as far as they can be found out."""

    @abstractmethod
    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        """End all members. Send each worker that runs its frame first."""

    @abstractmethod
    def close(self) -> None:
        """Free what the host holds, after ``end``."""


class PolledHost(MemberHost):
    """Host that waits for descriptors. One of them wakes it."""

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
    """The pool's record of a worker."""

    consumer: Consumer = field(default_factory=Consumer)
    frames: deque[OfOpening] = field(default_factory=deque)
    """Frames that have come and were not asked for yet."""
    runs: bool = False
    started: float | None = None
    """The time at which it reported that it has started."""
    has_spoken: bool = False
    """Whether a frame of an opening has come."""


class Pool:
    """The workers of a service."""

    def __init__(self, plan: PoolSpec, host: MemberHost) -> None:
        self.count = plan.workers
        self.alone = plan.dispatched is None
        self.saves = False
        """Whether the caller saves positions, so that workers send large ones as well. They learn it with a credit."""
        self.suspicions: Suspicions = {}
        """The last death of each worker, kept for the next iterations (``restarts``)."""
        self._timeout = plan.timeout
        self._host = host
        self._whose = f"the {host.members}"
        self._workers = [_Member() for _ in range(plan.workers)]
        self._ends: dict[Number, WorkerEnd] = {}  # that have come and were not handed on yet
        self._ended: set[Number] = set()  # whose ends were handed on, and which have to be replaced
        self._opening = 0
        self._origin = OwnerProcess()
        self._lock = threading.RLock()  # the garbage collector may close a pool in the thread that holds the lock
        self._left = self._closed = False

    # -- starting and ending -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers before an epoch."""
        self._must_talk()
        with self._no_thread_waits():
            self._start(())

    def _start(self, numbers: Container[int]) -> None:
        """Start the workers that do not run, and replace those that have ended.

        A worker whose end was not handed on yet is replaced only if it is among ``numbers``: it may have elements that
        a caller still waits for. With a dispatcher all start together, because its links cannot be mended.
        Raise the error of a worker that could not start.
        """
        while came := self._host.wait(0.0):
            self._take_all(came)
        unable = next((end for end in self._ends.values() if end.reason is not EndReason.DIED), None)
        if unable is not None or (not self.alone and (self._ends or self._ended)):
            self._end()
        if unable is not None:
            raise error_of(unable)
        self._are_gone({number for number in self._ends if number in numbers} | self._ended)
        missing = [number for number, worker in enumerate(self._workers) if not worker.runs]
        if missing:
            self._host.start(missing)
        for number in missing:
            self._workers[number].runs = True

    def close(self) -> None:
        """End all members. Do nothing at a second call, and in a fork of this process."""
        if not self._origin.is_here or self._closed:
            return
        with self._no_thread_waits():
            if not self._closed:
                self._closed = True
                self._end()
                self._host.close()

    def _end(self) -> None:
        running = self._running()
        self._host.end([(number, worker.consumer.close()) for number, worker in running])
        self._ends.clear()
        self._ended.clear()
        self._are_gone(number for number, _ in running)

    def _are_gone(self, numbers: Iterable[Number]) -> None:
        for number in list(numbers):
            self._ends.pop(number, None)
            self._ended.discard(number)
            if number is not None:  # the next worker of this number goes on counting the openings of this one
                self._workers[number] = _Member(Consumer(self._workers[number].consumer.opening))

    def _running(self) -> list[tuple[int, _Member]]:
        return [(number, worker) for number, worker in enumerate(self._workers) if worker.runs]

    # -- talking -------------------------------------------------------------------------------------------------------

    def open(self, orders: Sequence[Order | None]) -> None:
        """Begin an opening on the workers that are given an order. The other workers continue."""
        with self._lock:
            self._must_talk()
            self._left = False
            with CtrlCWaits():  # or a frame would be sent twice
                self._host.was_woken()
                self._start([number for number, order in enumerate(orders) if order is not None])
                self._opening += 1
                for number, order in enumerate(numbered(orders, self._opening)):
                    if order is not None:
                        self._workers[number].frames.clear()
                        self._host.send(number, self._workers[number].consumer.open(order))

    def stop(self) -> None:
        """Stop the opening, also in another thread that waits for its elements."""
        if not self._origin.is_here or self._closed:
            return
        with self._no_thread_waits(), CtrlCWaits():
            for number, worker in self._running():
                worker.frames.clear()
                if (frame := worker.consumer.stop()) is not None:
                    self._host.send(number, frame)

    def _must_talk(self) -> None:
        """Raise if the pool has ended, and in a fork of its process."""
        self._origin.must_be_here(self._whose)
        if self._closed:
            raise WorkersLeft("the workers were ended, with their reading service")

    @contextmanager
    def _no_thread_waits(self) -> Iterator[None]:
        """Stop the wait of any thread, and allow no other wait until the next opening. The block holds the lock."""
        self.hurry()
        with self._lock:
            self._host.was_woken()
            yield

    def used_up(self, number: int, frame: Items) -> None:
        """Give a worker credit for a frame."""
        with self._lock:
            self._must_talk()
            if (credit := self._workers[number].consumer.used_up(frame, self.saves)) is not None:
                self._host.send(number, credit)

    def hurry(self) -> None:
        """Have ``next_frame`` raise at once, for a signal handler."""
        self._left = True
        self._host.wake()

    def next_frame(self, numbers: Iterable[int]) -> tuple[int, OfOpening] | WorkerEnd:
        """Return the next frame of one of these workers, or the end of any member of the pool."""
        with self._lock:
            self._must_talk()
            asked = [(number, self._workers[number]) for number in numbers]
            started = 0.0 if self._timeout is None else monotonic()
            while not self._left:
                for number, worker in asked:
                    if worker.frames:
                        return number, worker.frames.popleft()
                if self._ends:
                    return self._next_end()
                came = self._host.wait(None if self._timeout is None else self._patience(asked, started))
                if came is None:
                    raise self._too_slow(asked[0][0])
                self._take_all(came)
            raise WorkersLeft("this iteration was left, or its workers were ended, while an element was waited for")

    def ready_items(self, number: int, errors: dict[str, int]) -> Items | None:
        """Return the next frame of a worker if it has come, has elements and tells of no other errors than these."""
        with self._lock:
            frames = self._workers[number].frames
            first = frames[0] if frames else None
            if isinstance(first, Items) and first.errors in (None, errors):
                frames.popleft()
                return first
            return None

    def dispatcher_end(self) -> WorkerEnd:
        """Return the end of the dispatcher, which a worker has reported."""
        with self._lock:
            self._must_talk()
            if None not in self._ends:
                self._take_all(self._host.give_up_dispatcher())
            return self._next_end()

    def _next_end(self) -> WorkerEnd:
        """Hand on an end, that of the dispatcher first."""
        number = min(self._ends, key=lambda number: -1 if number is None else number)
        self._ended.add(number)
        of = self._workers if number is None else [self._workers[number]]  # a dispatcher speaks through all of them
        return replace(self._ends.pop(number), has_spoken=any(worker.has_spoken for worker in of))

    def _patience(self, asked: list[tuple[int, _Member]], since: float) -> float:
        """Return the rest of the timeout in seconds. The timeout begins when the workers have started."""
        begun = [since + self._host.to_start if worker.started is None else worker.started for _, worker in asked]
        return max(0.0, max(since, *begun) + (self._timeout or 0) - monotonic())

    def _take_all(self, came: Iterable[tuple[Number, ToConsumer]]) -> None:
        for number, frame in came:
            if isinstance(frame, WorkerEnd):
                # A worker that could not start has sent its end, and its host reports it again.
                if frame.number not in self._ended:
                    self._ends.setdefault(frame.number, frame)
            elif number is not None:
                self._take(self._workers[number], frame)

    def _take(self, worker: _Member, frame: ToConsumer) -> None:
        current = worker.consumer.receive(frame)
        if isinstance(frame, Started):
            worker.started = monotonic()
            return
        worker.has_spoken = True
        if current is not None:
            worker.frames.append(current)

    def _too_slow(self, number: int) -> WorkerTimeout:
        return WorkerTimeout(
            f"worker {number} has sent nothing for {self._timeout} seconds (timeout=...); it stands at\n"
            + self._host.stacks_of(number)
        )
