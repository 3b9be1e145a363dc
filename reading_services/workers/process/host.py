"""Worker processes, as a place where a pool has its members: started, watched, and ended.

What any worker has sent is taken out of its pipe while another is waited for, and what a worker is told is written as
its pipe has room, so that no worker waits to write while others, or this process, wait for it. Ending escalates: the
workers are told to leave, then sent SIGTERM, then SIGKILL.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import cloudpickle

from datapipes.errors import WorkerDied
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.messages.warnings import warn
from reading_services.interface.service import WorkerInfo
from reading_services.workers.call_record import CallRecord, file_for_record
from reading_services.workers.pool import Number, PolledHost
from reading_services.workers.process.main import DispatcherJob, WorkerJob, dispatch, work
from reading_services.workers.process.members import (
    COULD_NOT_START,
    STARTS_WORKERS,
    UNGUARDED,
    PoolProcess,
    RecordedProcess,
    StartedWorker,
    begin,
    end,
    file_for_stacks,
    how_it_ended,
    kill,
    stacks_at_crash,
    stacks_of,
    why_not_started,
)
from reading_services.workers.restarts import WorkerEnd
from reading_services.workers.transport import process
from reading_services.workers.transport.pipes import Poller
from reading_services.workers.transport.protocol import ToConsumer, ToProducer
from reading_services.workers.worker import PoolSpec


class ProcessHost(PolledHost):
    """Processes of this machine."""

    members: ClassVar[str] = "worker processes"
    to_start: ClassVar[float] = 60.0

    def __init__(self, plan: PoolSpec, context: Any, arena_bytes: int) -> None:
        super().__init__()
        self._plan = plan
        self._context = context
        self._arena_bytes = arena_bytes
        self._sent = self._to_send(plan.worker_job)
        self._dispatched = None if plan.dispatcher_job is None else self._to_send(plan.dispatcher_job)
        self._workers: dict[int, StartedWorker] = {}
        self._dispatcher: RecordedProcess | None = None
        self._poller = Poller((), ())
        self._watched: dict[int, PoolProcess] = {}  # who a descriptor belongs to: a link, or what tells of a death
        self._said_it_is_full = False

    def _to_send(self, job: Any) -> Any:
        """What members are given: as it is where they inherit it."""
        return job if self._context.get_start_method() == "fork" else process.SharedBytes(cloudpickle.dumps(job))

    def start(self, numbers: Collection[int]) -> None:
        try:
            links = self._start_dispatcher()
            for number in numbers:
                self._workers[number] = self._started(number, links[number])
            self._watch()
        except OSError as error:
            if (why := why_not_started(error, self._plan.workers)) is None:
                raise
            raise OSError(error.errno, why) from error

    def _start_dispatcher(self) -> list[process.Pair | None]:
        if self._dispatched is None:
            return [None] * self._plan.workers
        links = [process.Pair(self._context, self._arena_bytes) for _ in range(self._plan.workers)]
        stacks, shared = file_for_stacks(), file_for_record()
        job = DispatcherJob(
            [link.producer for link in links],
            self._dispatched,
            self._plan.window,
            process.SharedFd(stacks),
            process.SharedFd(shared),
            os.getpid(),
        )
        begun = begin(self._context, dispatch, job, "dispatcher")
        self._dispatcher = RecordedProcess("the dispatcher", begun, stacks, CallRecord(shared))
        os.close(shared)
        for link in links:
            link.producer_started()
        return list(links)

    def _started(self, number: int, dealt: process.Pair | None) -> StartedWorker:
        link = process.Pair(self._context, self._arena_bytes)
        stacks, shared = file_for_stacks(), file_for_record()
        job = WorkerJob(
            link.producer,
            WorkerInfo(self._plan.workers, number),
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
        record = CallRecord(shared)
        os.close(shared)
        return StartedWorker(f"worker {number}", begun, stacks, record, number, link.consumer)

    def _watch(self) -> None:
        self._watched = {member.process.sentinel: member for member in self.processes}
        self._watched |= {worker.link.elements.fileno(): worker for worker in self._workers.values()}
        outboxes = [worker.link.control for worker in self._workers.values()]
        self._poller = Poller([self.woken, *self._watched], outboxes)

    @property
    def processes(self) -> list[PoolProcess]:
        """All that run, the dispatcher first."""
        workers = [self._workers[number] for number in sorted(self._workers)]
        return [*([] if self._dispatcher is None else [self._dispatcher]), *workers]

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, number: int, frame: ToProducer) -> None:
        self._workers[number].link.send(frame)

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer | None]] | None:
        found = self._poller.wait(seconds)
        if not found:
            return None
        with CtrlCWaits():  # or the rest of a frame would be taken for the next one
            came = [self._taken(self._watched[fd], fd) for fd in found if fd != self.woken]
        return [each for each in came if each is not None]

    def _taken(self, member: PoolProcess, fd: int) -> tuple[Number, ToConsumer | None] | None:
        """The message that has come over a link, if it has come to its end; or who has ended."""
        if not isinstance(member, StartedWorker):
            if member.process.exitcode != COULD_NOT_START:
                return None, None
            self._poller.forget(fd)  # a worker tells why
            return None
        if fd != member.link.elements.fileno():
            return member.number, None
        try:
            frame = member.link.receive()
        except (EOFError, OSError):  # the latter where it died in the middle of a message
            return member.number, None
        if member.link.overflows and not self._said_it_is_full:
            self._said_it_is_full = True
            warn(
                "the memory shared with the workers is full of elements that are still in use, so further ones go "
                "through a pipe, which is slower; give the reading service more arena_bytes, or keep fewer batches"
            )
        return None if frame is None else (member.number, frame)

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def ended(self) -> set[Number]:
        return {
            member.number if isinstance(member, StartedWorker) else None
            for member in self.processes
            if member.has_ended
        }

    def failure_at_start(self, number: int) -> BaseException | None:
        return self._workers[number].link.failure_at_start()

    def end_of(self, number: Number) -> WorkerEnd | WorkerDied:
        member = self._dispatcher if number is None else self._workers[number]
        if member is None:
            raise RuntimeError("no part of this graph is dispatched")
        how = how_it_ended(member.process)
        if member.process.exitcode == COULD_NOT_START:
            return WorkerDied(f"{member} could not start, as was told before")
        if member.process.exitcode == STARTS_WORKERS:
            return WorkerDied(UNGUARDED)
        if member.process.exitcode is None:  # its link is broken: nobody can talk to it any more
            member.process.kill()
        if crash := stacks_at_crash(member):
            how += f", where it stood at\n{crash}\n"
        return WorkerEnd(number, str(member), how, member.record.read())

    def stacks_of(self, number: int) -> str:
        return stacks_of(self._workers[number])

    # -- ending --------------------------------------------------------------------------------------------------------

    def forget(self, numbers: Collection[int]) -> None:
        for worker in [self._workers.pop(number) for number in numbers]:
            worker.link.close()
            end([worker])

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        members, workers = self.processes, self._workers
        dispatcher, self._dispatcher = self._dispatcher, None
        self._workers, self._poller, self._watched = {}, Poller((), ()), {}
        with CtrlCWaits(hurry=lambda: kill(members)):
            if dispatcher is not None:
                dispatcher.process.terminate()  # workers may be waiting for it
            for number, farewell in farewells:
                with suppress(OSError):
                    workers[number].link.send(farewell)
                workers[number].link.close()  # a worker that is writing stops there
            end(members)

    def close(self) -> None:
        super().close()
        for sent in (self._sent, self._dispatched):
            if isinstance(sent, process.SharedBytes):
                sent.close()
