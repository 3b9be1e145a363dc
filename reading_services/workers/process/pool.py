"""The pool of worker processes of one service, as home sees them: started together, watched, and ended by one owner.

Nothing here waits without an end. Whoever waits for a message is woken by the death of any process of the pool, and
when another thread leaves the opening or ends the pool. What any worker has sent is taken out of its pipe while waiting
for another, and what a worker is told is written as its pipe has room, so that no worker waits to write while others,
or this process, wait for it. Ending escalates: the workers are told to leave, then sent SIGTERM, then SIGKILL.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import cloudpickle

from datapipes.errors import WorkerDied, WorkersLeft, WorkerTimeout
from datapipes.messages.warnings import warn
from datapipes.position.forks import OwnerProcess
from reading_services.interface.service import WorkerInfo
from reading_services.workers.at_work import Record, file_for_record
from reading_services.workers.interrupts import CtrlCWaits
from reading_services.workers.process.main import DispatcherJob, WorkerJob, dispatch, work
from reading_services.workers.process.members import (
    STARTS_WORKERS,
    UNGUARDED,
    Worker,
    WorkerProcess,
    begin,
    end,
    file_for_stacks,
    how_it_ended,
    kill,
    stacks_at_crash,
    stacks_of,
)
from reading_services.workers.restarts import Ended, died
from reading_services.workers.transport import process
from reading_services.workers.transport.pipes import Poller
from reading_services.workers.transport.protocol import START, Failed, ToConsumer
from reading_services.workers.worker import Order, PoolPlan, numbered

_TO_START = 60.0  # seconds that a new worker may take before its first elements, beside the user's timeout


class WorkerPool:
    """The pool of all processes of a service."""

    def __init__(self, plan: PoolPlan, context: Any, arena_bytes: int) -> None:
        self._plan = plan
        self._context = context
        self._arena_bytes = arena_bytes
        self.count = plan.workers
        self._sent = self._to_send((plan.graph, plan.init_fn, plan.reset_fn))
        self._dispatched = None if plan.dispatched is None else self._to_send((plan.dispatched, plan.reset_fn))
        self._workers: list[Worker | None] = [None] * plan.workers
        self._dispatcher: WorkerProcess | None = None
        self._opening = 0
        self._poller = Poller((), ())
        self._watched: dict[int, WorkerProcess] = {}  # who a descriptor belongs to: a link, or what tells of a death
        self._origin = OwnerProcess()
        self._lock = threading.RLock()  # the collector may end a pool in the thread that waits for it
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._left = self._closed = False
        self._said_it_is_full = False

    def __repr__(self) -> str:
        return f"{self.count} worker processes"

    def _to_send(self, job: Any) -> Any:
        return job if self._context.get_start_method() == "fork" else cloudpickle.dumps(job)

    # -- starting ------------------------------------------------------------------------------------------------------

    def start(self, numbers: Container[int] = ()) -> None:
        """Start the workers that were never started, those whose end was told, and among ``numbers`` all that ended.

        With a dispatcher all start together, because its links cannot be mended.
        """
        ended = [member for member in self._members() if member.is_mourned or member.has_ended]
        workers = [member for member in ended if isinstance(member, Worker)]
        failure = next(filter(None, map(self._failure_at_start, workers)), None)
        if ended and (failure is not None or self._dispatcher is not None):
            self._end()
        else:
            self._forget([worker for worker in workers if worker.is_mourned or worker.number in numbers])
        if failure is not None:
            raise failure
        if None not in self._workers:
            return
        links = self._start_dispatcher()
        for number, worker in enumerate(self._workers):
            if worker is None:
                self._workers[number] = self._started(number, links[number])
        self._watch()

    def _start_dispatcher(self) -> list[process.Pair | None]:
        if self._dispatched is None:
            return [None] * self.count
        links = [process.Pair(self._context, self._arena_bytes) for _ in range(self.count)]
        stacks = file_for_stacks()
        job = DispatcherJob(
            [link.producer for link in links],
            self._dispatched,
            self._plan.window,
            process.SharedFd(stacks),
            os.getpid(),
        )
        self._dispatcher = WorkerProcess("the dispatcher", begin(self._context, dispatch, job, "dispatcher"), stacks)
        for link in links:
            link.producer_started()
        return list(links)

    def _started(self, number: int, dealt: process.Pair | None) -> Worker:
        link = process.Pair(self._context, self._arena_bytes)
        stacks, shared = file_for_stacks(), file_for_record()
        job = WorkerJob(
            link.producer,
            WorkerInfo(self.count, number),
            self._sent,
            self._plan.window,
            process.SharedFd(stacks),
            process.SharedFd(shared),
            os.getpid(),
            None if dealt is None else dealt.consumer,
        )
        begun = begin(self._context, work, job, f"worker {number}")
        link.producer_started()
        link.consumer_is_here()
        if dealt is not None:
            dealt.consumer_started()
        record = Record(shared)
        os.close(shared)
        return Worker(f"worker {number}", begun, stacks, number, link.consumer, record)

    def _watch(self) -> None:
        workers = self._running()
        self._watched = {member.process.sentinel: member for member in self._members()}
        self._watched |= {worker.link.elements.fileno(): worker for worker in workers}
        self._poller = Poller([self._wake, *self._watched], [worker.link.control for worker in workers])

    # -- talking -------------------------------------------------------------------------------------------------------

    def open(self, orders: Sequence[Order | None]) -> None:
        """Begin an opening on the workers that are given an order; the others go on with what they have."""
        with self._talking():
            self._left = False
            with CtrlCWaits():
                self.start([number for number, order in enumerate(orders) if order is not None])
            self._opening += 1
            for worker, order in zip(self._running(), numbered(orders, self._opening), strict=True):
                if order is not None:
                    worker.frames.clear()
                    self._tell(worker, worker.consumer.open(order))

    def stop(self) -> None:
        """Stop the opening: nobody wants the rest; whoever waits for it in another thread is told as well."""
        if not self._origin.is_here or self._closed:
            return
        with self._alone():
            for worker in self._running():
                worker.frames.clear()
                frame = worker.consumer.stop()
                if frame is not None:
                    with suppress(OSError):
                        worker.link.send(frame)

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """A block in which this thread speaks for this process; an error where nobody may."""
        self._origin.must_be_here("the workers")
        with self._lock:
            if self._closed:
                raise WorkersLeft("the workers were ended, with their reading service")
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in which no thread waits for an element, nor will until the next opening."""
        self._left = True
        os.eventfd_write(self._wake, 1)
        with self._lock:
            with suppress(BlockingIOError):  # another thread has done so
                os.eventfd_read(self._wake)
            yield

    def _running(self) -> list[Worker]:
        return [worker for worker in self._workers if worker is not None]

    def _members(self) -> list[WorkerProcess]:
        return [*([] if self._dispatcher is None else [self._dispatcher]), *self._running()]

    def _tell(self, worker: Worker, frame: Any) -> None:
        try:
            worker.link.send(frame)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died(worker) from None

    def used_up(self, number: int, frame: Any) -> None:
        """Give a worker credit for a message."""
        with self._talking():
            worker = self._workers[number]
            if worker is not None and (credit := worker.consumer.used_up(frame)) is not None:
                self._tell(worker, credit)

    def next_frame(self, numbers: Iterable[int]) -> tuple[int, ToConsumer]:
        """The next message of one of these workers, whichever comes first."""
        with self._talking():
            asked = [worker for worker in self._running() if worker.number in set(numbers)]
            started = monotonic()
            while not self._left:
                for worker in asked:
                    if worker.frames:
                        return worker.number, worker.frames.popleft()
                found = self._poller.wait(self._patience(asked, started))
                if not found:
                    raise self._too_slow(asked[0])
                ended = [self._take(fd) for fd in found if fd != self._wake and not self._left]
                if self._left or any(worker.frames for worker in asked):
                    continue
                if (dead := next(filter(None, ended), None)) is not None:
                    raise self._died(dead)
            raise WorkersLeft("this iteration was left, or its workers were ended, while an element was waited for")

    def _patience(self, asked: list[Worker], since: float) -> float | None:
        """Timeout in seconds; a worker that is only starting has to import first."""
        if self._plan.timeout is None:
            return None
        seconds = self._plan.timeout + (0 if all(worker.has_spoken for worker in asked) else _TO_START)
        return max(0.0, since + seconds - monotonic())

    def _take(self, fd: int) -> WorkerProcess | None:
        """Take the message that has come over a link; the member whose end this is, if it is one."""
        member = self._watched[fd]
        if not isinstance(member, Worker) or fd != member.link.elements.fileno():
            return member
        try:
            frame = member.link.receive()
        except (EOFError, OSError):  # the latter where it died in the middle of a message
            return member
        member.has_spoken = True
        if frame is not None and (current := member.consumer.receive(frame)) is not None:
            member.frames.append(current)
        if member.link.overflows and not self._said_it_is_full:
            self._said_it_is_full = True
            warn(
                "the memory shared with the workers is full of elements that are still in use, so further ones go "
                "through a pipe, which is slower; give the reading service more arena_bytes, or keep fewer batches"
            )
        return None

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _failure_at_start(self, worker: Worker) -> BaseException | None:
        """The error that kept a worker from starting, if that is why it has gone."""
        with suppress(EOFError, OSError):
            while (frame := worker.link.receive()) is not None:
                worker.frames.append(frame)
        for frame in worker.frames:
            if isinstance(frame, Failed) and frame.opening == START:
                error: BaseException = frame.error.error()
                return error
        return None

    def _died(self, member: WorkerProcess) -> BaseException:
        """The error for a member of the pool that has gone."""
        if isinstance(member, Worker) and (failure := self._failure_at_start(member)) is not None:
            return failure
        return self._death_of(member)

    def _death_of(self, member: WorkerProcess) -> WorkerDied:
        member.is_mourned = True
        how = how_it_ended(member.process)
        if member.process.exitcode == STARTS_WORKERS:
            return WorkerDied(UNGUARDED)
        if member.process.exitcode is None:  # its link is broken: nobody can talk to it any more
            member.process.kill()
        if crash := stacks_at_crash(member):
            how += f", where it stood at\n{crash}\n"
        ended = Ended(None, str(member), how)
        if isinstance(member, Worker):
            ended = Ended(member.number, str(member), how, member.record.read())
        if isinstance(member, Worker) and not member.has_spoken:
            return died(ended, "before its first element; what it had to say is on stderr")
        return died(
            ended,
            "in the middle of its work; next() on the same iterator starts another one, which goes on without a loss, "
            "and a new loop over the loader begins the next epoch; with restart=n the service does so by itself",
        )

    def dispatcher_died(self) -> WorkerDied:
        """The error for the dispatcher, of which a worker has said that it is gone."""
        with self._talking():
            if self._dispatcher is None:
                raise RuntimeError("no part of this graph is dispatched")
            return self._death_of(self._dispatcher)

    @property
    def alone(self) -> bool:
        """Whether a worker can be replaced without the others."""
        return self._dispatched is None

    def _too_slow(self, worker: Worker) -> WorkerTimeout:
        return WorkerTimeout(
            f"{worker} has sent nothing for {self._plan.timeout} seconds (timeout=...); it stands at\n"
            + stacks_of(worker)
        )

    # -- ending --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all processes; calling it again does nothing, and so does calling it in a fork of this process."""
        if not self._origin.is_here or self._closed:
            return
        with self._alone():
            if not self._closed:
                self._closed = True
                self._end()
                os.close(self._wake)

    def _end(self) -> None:
        workers, self._workers = self._running(), [None] * self.count
        dispatcher, self._dispatcher = self._dispatcher, None
        self._poller, self._watched = Poller((), ()), {}
        members: list[WorkerProcess] = [*workers, *([] if dispatcher is None else [dispatcher])]
        with CtrlCWaits(hurry=lambda: kill(members)):
            if dispatcher is not None:
                dispatcher.process.terminate()  # workers may be waiting for it
            for worker in workers:
                with suppress(OSError):
                    worker.link.send(worker.consumer.close())
                worker.link.close()  # a worker that is writing stops there
            end(members)

    def _forget(self, workers: list[Worker]) -> None:
        for worker in workers:
            self._workers[worker.number] = None
            worker.link.close()
            end([worker])
