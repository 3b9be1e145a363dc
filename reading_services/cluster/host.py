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

from datapipes.errors import WorkerDied, WorkerError, WorkerTimeout
from datapipes.messages.warnings import warn
from reading_services.cluster.engine import Engine, ProcessEnd
from reading_services.cluster.listener import Joined, Late, MemberListener, MemberStart, Silent
from reading_services.cluster.member import MemberTask, consumer_end, versions
from reading_services.cluster.modules import digests
from reading_services.workers.call_record import SIZE
from reading_services.workers.pool import Number, PolledHost
from reading_services.workers.restarts import WorkerEnd
from reading_services.workers.transport.listener import Address, Listener
from reading_services.workers.transport.pipes import Poller
from reading_services.workers.transport.protocol import ToConsumer, ToProducer
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
        self._workers: dict[int, MemberStart] = {}
        self._dispatcher: MemberStart | None = None
        self._dealing: Address | None = None  # the dispatcher's address, once it has connected
        self._poller = Poller((), ())
        self._watched: dict[int, MemberStart] = {}
        self._door: MemberListener | None = None

    # -- starting ------------------------------------------------------------------------------------------------------

    def start(self, numbers: Collection[int]) -> None:
        if self._door is None:
            self._door = MemberListener(Listener(self._host, self._machine), self._silence)
        if self._dispatched is not None and self._dispatcher is None:
            self._dispatcher = self._started(None, "the dispatcher")
        for number in numbers:
            self._workers[number] = self._started(number, f"worker {number}")
        self._watch()

    def _started(self, number: Number, name: str) -> MemberStart:
        assert self._door is not None
        member = MemberStart(number, name)
        spec = {
            "member": self._door.expect(member),
            "name": name,
            "home": self._door.address,
            "deals": number is None,
            "silence": self._silence,
            "record": SIZE,
        }
        member.process = self._engine.start(name, spec, self._door.ended(member))
        return member

    def _members(self) -> list[MemberStart]:
        return [*([] if self._dispatcher is None else [self._dispatcher]), *self._workers.values()]

    def _watch(self) -> None:
        linked = [
            (member, member.link) for member in self._members() if member.link is not None and not member.has_ended
        ]
        self._watched = {link.elements.fileno(): member for member, link in linked}
        news = [] if self._door is None else [self._door.news]
        self._poller = Poller([self.woken, *news, *self._watched], [link.control for _, link in linked])

    def _come(self, member: MemberStart, line: socket.socket, said: dict[str, Any]) -> None:
        """Accept a member that has connected, and send its task."""
        member.where = said["where"]
        if said["has"] != versions():
            member.failure, member.has_ended = WorkerError(_differing(said["where"], said["has"])), True
            line.close()
            self._engine.kill(member.process)
            return
        try:
            member.link = consumer_end(line, self._arena_bytes)
        except OSError:  # it has ended already, and the engine reports it
            line.close()
            return
        if member.number is None:
            self._dealing = said["listens"]
            self._give_task(member)
        for worker in self._workers.values() if self._dispatcher is None or self._dealing is not None else ():
            if worker.link is not None and worker.unsent is not None:
                self._give_task(worker)
        self._watch()

    def _give_task(self, member: MemberStart) -> None:
        graph = self._graph if member.number is not None else self._dispatched
        if member.link is None or graph is None:
            return
        dealing = self._dealing if member.number is not None else None
        task = MemberTask(
            member.number or 0, self._plan.workers, graph, self._plan.window, self._modules, self._arena_bytes, dealing
        )
        with suppress(OSError):  # the engine reports its end
            for message in (task, *(member.unsent or ())):
                member.link.send(message)
        member.unsent = None

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, number: int, frame: ToProducer) -> None:
        member = self._workers[number]
        if member.unsent is not None:
            member.unsent.append(frame)
        elif member.link is not None:
            member.link.send(frame)

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer | None]] | None:
        found = self._poller.wait(seconds)
        if not found:
            return None
        watched = self._watched  # members that have ended are not in it
        came = [self._taken(watched[fd]) for fd in found if fd in watched]
        if self._door is not None and self._door.news in found:
            came += self._hear_news()
        return [each for each in came if each is not None]

    def _taken(self, member: MemberStart) -> tuple[Number, ToConsumer | None] | None:
        """Return a worker's complete frame, or None for its end. Return None if neither has arrived."""
        try:
            frame = None if member.link is None else member.link.receive()
        except (EOFError, OSError):
            member.is_over.wait(_TO_BE_TOLD if member.number is None else 0.0)
            ended = self._ended(member)
            return None if member.gone is not None and member.gone.could_not_start else ended  # a worker reports why
        return None if frame is None or member.number is None else (member.number, frame)

    def _ended(self, member: MemberStart, how: str = "") -> tuple[Number, None]:
        member.has_ended, member.how = True, member.how or how
        self._watch()
        return member.number, None

    def _hear_news(self) -> list[tuple[Number, None]]:
        assert self._door is not None
        ended = []
        for member, what in self._door.hear():
            is_ours = member in self._members() and not member.has_ended
            match what:
                case ProcessEnd() if is_ours and member.link is None:  # otherwise its frames are read to their end
                    ended.append(self._ended(member))
                case Silent() if is_ours:
                    self._engine.kill(member.process)
                    ended.append(self._ended(member, f"sent no heartbeat for {self._silence:g} seconds"))
                case Late(seconds) if is_ours and not what.is_given_up:
                    warn(f"{member.name} has not started in {seconds:.0f} seconds: {self._engine.lacking()}")
                case Late(seconds) if is_ours:
                    lacking = f"{member.name} did not start in {seconds:.0f} seconds: {self._engine.lacking()}"
                    member.failure = WorkerTimeout(lacking)  # another one would not start either
                    self._engine.kill(member.process)
                    ended.append(self._ended(member))
                case Joined(line, said) if is_ours:
                    self._come(member, line, said)
                    ended += [(member.number, None)] if member.has_ended else []
                case Joined(line):
                    line.close()
        return ended

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def ended(self) -> set[Number]:
        return {member.number for member in self._members() if member.has_ended or member.is_over.is_set()}

    def failure_at_start(self, number: int) -> BaseException | None:
        member = self._workers[number]
        if member.link is not None and member.failure is None:
            member.failure = member.link.failure_at_start()
        failure, member.failure = member.failure, None  # raised once; a replacement may follow
        return failure

    def end_of(self, number: Number) -> WorkerEnd | WorkerDied:
        member = self._dispatcher if number is None else self._workers[number]
        if member is None:
            raise RuntimeError("no part of this graph is dispatched")
        if member.failure is not None:
            return WorkerDied(f"{member} was not accepted: {member.failure}")
        member.is_over.wait(_TO_BE_TOLD)
        if member.gone is None:  # its connection is broken, or it is silent: it cannot be reached any more
            self._engine.kill(member.process)
        told = member.gone or ProcessEnd("has closed its connection")
        return WorkerEnd(number, str(member), member.how or told.how, told.at_work)

    def stacks_of(self, number: int) -> str:
        member = self._workers[number]
        return self._engine.stacks(member.process) if member.where else f"its start: {self._engine.lacking()}"

    # -- ending --------------------------------------------------------------------------------------------------------

    def forget(self, numbers: Collection[int]) -> None:
        self._leave([self._workers.pop(number) for number in numbers], 0.0)
        self._watch()

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        members = self._members()
        for number, farewell in farewells:
            with suppress(OSError):
                self.send(number, farewell)
        self._workers, self._dispatcher, self._dealing = {}, None, None
        self._poller, self._watched = Poller((), ()), {}
        if self._door is not None:
            self._door.forget()
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
        if self._door is not None:
            self._door.close()
        self._engine.close()
        super().close()


def _differing(where: str, there: dict[str, str]) -> str:
    here = versions()
    others = [f"{name} {there.get(name)} instead of {here[name]}" for name in here if there.get(name) != here[name]]
    return f"{where} has {', '.join(others)}; install the same there"
