"""Host of worker processes on this machine: started, watched, and ended.

While one worker is waited for, the frames of all workers are read from their pipes, and frames to them are written as
their pipes have room. So no worker waits to write while this process waits for another one. Ending escalates: a
farewell, then SIGTERM, then SIGKILL.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import cloudpickle

from datapipes.messages.interrupts import CtrlCWaits
from datapipes.messages.warnings import warn
from reading_services.interface.service import WorkerInfo
from reading_services.workers.call_record import CallRecord, file_for_record
from reading_services.workers.pool import Number, PolledHost
from reading_services.workers.process.main import DispatcherJob, WorkerJob, dispatch, work
from reading_services.workers.process.members import (
    STARTS_WORKERS,
    UNGUARDED,
    StartedMember,
    begin,
    end,
    file_for_stacks,
    how_it_ended,
    kill,
    stacks_at_crash,
    stacks_of,
    why_not_started,
)
from reading_services.workers.transport import process
from reading_services.workers.transport.pipes import Poller
from reading_services.workers.transport.protocol import EndReason, ToConsumer, ToProducer, WorkerEnd
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
        self._members: dict[Number, StartedMember] = {}
        self._poller = Poller((), ())
        self._watched: dict[int, StartedMember] = {}  # by descriptor: of the link, and of the process
        self._said_it_is_full = False

    def _to_send(self, job: Any) -> Any:
        """Return the job as the members get it: unpacked if they inherit it."""
        return job if self._context.get_start_method() == "fork" else process.SharedBytes(cloudpickle.dumps(job))

    def start(self, numbers: Collection[int]) -> None:
        for number in numbers:
            if (before := self._members.pop(number, None)) is not None:
                before.link.close()
                end([before])
        try:
            dealt = self._start_dispatcher()
            for number in numbers:
                self._start_worker(number, dealt[number])
            self._watch()
        except OSError as error:
            if (why := why_not_started(error, self._plan.workers)) is None:
                raise
            raise OSError(error.errno, why) from error

    def _start_dispatcher(self) -> list[process.Pair | None]:
        if self._dispatched is None:
            return [None] * self._plan.workers
        dealt = [process.Pair(self._context, self._arena_bytes) for _ in range(self._plan.workers)]
        producers = [pair.producer for pair in dealt]
        job = partial(DispatcherJob, graph=self._dispatched, links=producers)
        self._start(None, "the dispatcher", dispatch, job, process.Pair(self._context, 0))
        for pair in dealt:
            pair.producer_started()
        return list(dealt)

    def _start_worker(self, number: int, dealt: process.Pair | None) -> None:
        info = WorkerInfo(self._plan.workers, number)
        job = partial(WorkerJob, graph=self._sent, info=info, dispatch=None if dealt is None else dealt.consumer)
        self._start(number, f"worker {number}", work, job, process.Pair(self._context, self._arena_bytes))
        if dealt is not None:
            dealt.consumer_started()

    def _start(self, number: Number, name: str, main: Any, job: Any, link: process.Pair) -> None:
        stacks, record = file_for_stacks(), file_for_record()
        files = {"stacks": process.SharedFd(stacks), "record": process.SharedFd(record)}
        whole = job(link=link.producer, window=self._plan.window, parent=os.getpid(), **files)
        begun = begin(self._context, main, whole, name.removeprefix("the "))
        link.producer_started()
        link.consumer_is_here()
        self._members[number] = StartedMember(name, begun, stacks, number, CallRecord(record), link.consumer)
        os.close(record)

    def _watch(self) -> None:
        running = [member for member in self.processes if not member.is_over]
        self._watched = {member.process.sentinel: member for member in running}
        self._watched |= {member.link.elements.fileno(): member for member in running}
        self._poller = Poller([self.woken, *self._watched], [member.link.control for member in running])

    @property
    def processes(self) -> list[StartedMember]:
        """All members, the dispatcher first."""
        return sorted(self._members.values(), key=lambda member: -1 if member.number is None else member.number)

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, number: int, frame: ToProducer) -> None:
        with suppress(OSError):  # ``wait`` notices the end
            self._members[number].link.send(frame)

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer]] | None:
        if not (found := self._poller.wait(seconds)):
            return None
        return [pair for fd in found if fd in self._watched for pair in self._taken(self._watched[fd], fd)]

    def _taken(self, member: StartedMember, fd: int) -> list[tuple[Number, ToConsumer]]:
        """Return a complete frame that has come, or all frames of a member that has ended."""
        if fd == member.process.sentinel:
            return self._last_of(member)
        try:
            frame = member.link.receive()
        except (EOFError, OSError):  # the latter if the member died in the middle of a frame
            return self._last_of(member)
        if member.link.overflows and not self._said_it_is_full:
            self._said_it_is_full = True
            warn(
                "the memory shared with the workers is full of elements that are still in use, so further ones go "
                "through a pipe, which is slower; give the reading service more arena_bytes, or keep fewer batches"
            )
        return [] if frame is None else [(member.number, frame)]

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _last_of(self, member: StartedMember) -> list[tuple[Number, ToConsumer]]:
        """Return the rest of a member's frames, and its end. Kill it if only its link has ended."""
        how, reason = how_it_ended(member.process), EndReason.DIED
        if member.process.exitcode is None:
            member.process.kill()
        if member.process.exitcode == STARTS_WORKERS:
            how, reason = UNGUARDED, EndReason.UNGUARDED
        if crash := stacks_at_crash(member):
            how += f", where it stood at\n{crash}\n"
        member.is_over = True
        self._watch()
        last = WorkerEnd(member.number, str(member), how, reason, at_work=member.record.read())
        return [(member.number, frame) for frame in (*member.link.rest(), last)]

    def give_up_dispatcher(self) -> list[tuple[Number, ToConsumer]]:
        return self._last_of(self._members[None])

    def stacks_of(self, number: int) -> str:
        return stacks_of(self._members[number])

    # -- ending --------------------------------------------------------------------------------------------------------

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        members, all_of_them = self._members, self.processes
        self._members, self._poller, self._watched = {}, Poller((), ()), {}
        with CtrlCWaits(hurry=lambda: kill(all_of_them)):
            if (dispatcher := members.get(None)) is not None:
                dispatcher.process.terminate()  # workers may be waiting for it
                dispatcher.link.close()
            for number, farewell in farewells:
                with suppress(OSError):
                    members[number].link.send(farewell)
                members[number].link.close()  # a worker that is writing stops there
            end(all_of_them)

    def close(self) -> None:
        super().close()
        for sent in (self._sent, self._dispatched):
            if isinstance(sent, process.SharedBytes):
                sent.close()
