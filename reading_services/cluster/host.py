"""Worker processes of a pool on the machines of a cluster.

An engine starts them, and each connects to the main process. A connected member is read over its connection. Its end is
known by the end of the connection, the engine's report, or its silence, whichever is first. Each start of a member has
a name of its own. So a process that was given up is not accepted when it connects later.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, ClassVar, Final

import cloudpickle

from datapipes.messages.warnings import warn
from reading_services.cluster.engine import Engine, ProcessEnd
from reading_services.cluster.listener import Joined, Late, MemberListener, MemberStart, News, Silent
from reading_services.cluster.member import MemberTask, consumer_end, versions
from reading_services.cluster.modules import digests
from reading_services.workers.call_record import SIZE
from reading_services.workers.pool import Number, PolledHost
from reading_services.workers.transport.listener import Address, Listener
from reading_services.workers.transport.pipes import Poller
from reading_services.workers.transport.process import PipeConsumerEnd
from reading_services.workers.transport.protocol import EndReason, ToConsumer, ToProducer, WorkerEnd
from reading_services.workers.worker import PoolSpec

_TO_BE_TOLD: Final = 2.0  # seconds to wait for the engine's report after a connection has ended
_TO_LEAVE: Final = 2.0  # seconds for members to exit after a farewell


class ClusterHost(PolledHost):
    """Host of members on a cluster, where an engine starts them."""

    members: ClassVar[str] = "workers of the cluster"
    to_start: ClassVar[float] = 300.0

    def __init__(self, plan: PoolSpec, engine: Engine, arena_bytes: int, silence: float) -> None:
        super().__init__()
        self._plan = plan
        self._engine = engine
        self._arena_bytes = arena_bytes
        self._graph = cloudpickle.dumps(plan.worker_job)
        self._modules = digests((plan.graph, plan.init_fn, plan.reset_fn, plan.dispatched))
        self._dispatched = None if plan.dispatcher_job is None else cloudpickle.dumps(plan.dispatcher_job)
        self._host, self._machine = engine.here()
        self._silence = silence
        self._members: dict[Number, MemberStart] = {}
        self._dealing: Address | None = None  # the dispatcher's address, once it has connected
        self._poller = Poller((), ())
        self._watched: dict[int, MemberStart] = {}
        self._listener: MemberListener | None = None

    # -- starting ------------------------------------------------------------------------------------------------------

    def start(self, numbers: Collection[int]) -> None:
        if self._listener is None:
            self._listener = MemberListener(Listener(self._host, self._machine), self._silence)
        self._leave([self._members.pop(number) for number in numbers if number in self._members], 0.0)
        if self._dispatched is not None and None not in self._members:
            self._start_member(None, "the dispatcher")
        for number in numbers:
            self._start_member(number, f"worker {number}")
        self._watch()

    def _start_member(self, number: Number, name: str) -> None:
        assert self._listener is not None
        self._members[number] = member = MemberStart(number, name)
        spec = {
            "member": self._listener.expect(member),
            "name": name,
            "main_process": self._listener.address,
            "deals": number is None,
            "silence": self._silence,
            "record": SIZE,
        }
        member.process = self._engine.start(name, spec, self._listener.ended(member))

    def _watch(self) -> None:
        members = [member for member in self._members.values() if not member.has_ended]
        linked = [(member, member.link) for member in members if member.link is not None]
        self._watched = {link.elements.fileno(): member for member, link in linked}
        news = [] if self._listener is None else [self._listener.news]
        self._poller = Poller([self.woken, *news, *self._watched], [link.control for _, link in linked])

    def _come(self, member: MemberStart, line: socket.socket, said: dict[str, Any]) -> list[tuple[Number, ToConsumer]]:
        """Accept a member that has connected, and send its task. Return its end if it has other versions."""
        member.where = said["where"]
        if said["has"] != versions():
            line.close()
            return self._last_of(member, _differing(said["where"], said["has"]), EndReason.REFUSED)
        try:
            member.link = consumer_end(line, self._arena_bytes)
        except OSError:  # it has ended already, and the engine reports it
            line.close()
            return []
        if member.number is None:
            self._dealing = said["listens"]
        if None not in self._members or self._dealing is not None:
            for each in self._members.values():  # the dispatcher is the first
                if each.link is not None and each.unsent is not None:
                    self._give_task(each, each.link)
        self._watch()
        return []

    def _give_task(self, member: MemberStart, link: PipeConsumerEnd) -> None:
        graph = self._graph if member.number is not None else self._dispatched
        dealing = self._dealing if member.number is not None else None
        assert graph is not None
        task = MemberTask(
            member.number or 0, self._plan.workers, graph, self._plan.window, self._modules, self._arena_bytes, dealing
        )
        with suppress(OSError):  # the engine reports its end
            for message in (task, *(member.unsent or ())):
                link.send(message)
        member.unsent = None

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, number: int, frame: ToProducer) -> None:
        member = self._members[number]
        if member.unsent is not None:
            member.unsent.append(frame)
        elif member.link is not None:
            with suppress(OSError):  # ``wait`` notices the end
                member.link.send(frame)

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer]] | None:
        found = self._poller.wait(seconds)
        if not found:
            return None
        came = [pair for fd in found if fd in self._watched for pair in self._taken(self._watched[fd])]
        if self._listener is not None and self._listener.news in found:
            came += [pair for member, what in self._listener.hear() for pair in self._hear(member, what)]
        return came

    def _taken(self, member: MemberStart) -> list[tuple[Number, ToConsumer]]:
        """Return a complete frame that has come, or all frames of a member whose connection has ended."""
        try:
            frame = None if member.link is None else member.link.receive()
        except (EOFError, OSError):
            return self._last_of(member)
        return [] if frame is None else [(member.number, frame)]

    def _hear(self, member: MemberStart, what: News) -> list[tuple[Number, ToConsumer]]:
        """Return the last frames of a member if this event is its end."""
        is_ours = self._members.get(member.number) is member and not member.has_ended
        match what:
            case ProcessEnd() if is_ours and member.link is None:  # otherwise its frames are read to their end
                return self._last_of(member)
            case Silent() if is_ours:
                return self._last_of(member, f"sent no heartbeat for {self._silence:g} seconds")
            case Late(seconds) if is_ours and not what.is_given_up:
                warn(f"{member.name} has not started in {seconds:.0f} seconds: {self._engine.lacking()}")
            case Late(seconds) if is_ours:
                lacking = f"{member.name} did not start in {seconds:.0f} seconds: {self._engine.lacking()}"
                return self._last_of(member, lacking, EndReason.LATE)
            case Joined(line, said) if is_ours:
                return self._come(member, line, said)
            case Joined(line):
                line.close()
        return []

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _last_of(
        self, member: MemberStart, how: str = "", reason: EndReason = EndReason.DIED
    ) -> list[tuple[Number, ToConsumer]]:
        """Return the rest of a member's frames, and its end. Kill a member that has not ended by itself.

        Args:
            how: The reason to kill it. Empty: its connection has ended, and the engine's report says how it ended.
        """
        member.has_ended = True
        self._watch()
        if how:
            self._engine.kill(member.process)
        if reason is EndReason.DIED and not member.is_over.wait(_TO_BE_TOLD):  # the report has its record
            self._engine.kill(member.process)
        rest = [] if member.link is None else member.link.rest()
        gone = member.gone or ProcessEnd("has closed its connection")
        last = WorkerEnd(member.number, str(member), how or gone.how, reason, at_work=gone.at_work)
        return [(member.number, frame) for frame in (*rest, last)]

    def give_up_dispatcher(self) -> list[tuple[Number, ToConsumer]]:
        return self._last_of(self._members[None])

    def stacks_of(self, number: int) -> str:
        member = self._members[number]
        return self._engine.stacks(member.process) if member.where else f"its start: {self._engine.lacking()}"

    # -- ending --------------------------------------------------------------------------------------------------------

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        for number, farewell in farewells:
            self.send(number, farewell)
        members, self._members, self._dealing = list(self._members.values()), {}, None
        self._poller, self._watched = Poller((), ()), {}
        if self._listener is not None:
            self._listener.forget()
        self._leave(members, _TO_LEAVE)

    def _leave(self, members: list[MemberStart], seconds: float) -> None:
        for member in members:
            if member.link is not None:
                member.link.close()
        until = monotonic() + seconds
        for member in members:
            member.is_over.wait(max(0.0, until - monotonic()) if member.where else 0.0)
            self._engine.kill(member.process)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._engine.close()
        super().close()


def _differing(where: str, there: dict[str, str]) -> str:
    here = versions()
    others = [f"{name} {there.get(name)} instead of {here[name]}" for name in here if there.get(name) != here[name]]
    return f"{where} has {', '.join(others)}; install the same there"
