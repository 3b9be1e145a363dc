"""The listening thread of a pool on a cluster: it accepts members, and sends and receives heartbeats.

It reports events to the thread that waits for frames, and shares no other state with it.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from reading_services.cluster.engine import ProcessEnd
from reading_services.workers.pool import Number
from reading_services.workers.transport.listener import BEATS, Listener, beat
from reading_services.workers.transport.process import PipeConsumerEnd

_SOON: Final = 20.0  # seconds until a warning for a member that has not connected
_GIVEN_UP: Final = 300.0  # seconds until its start counts as failed


@dataclass(eq=False)
class MemberStart:
    """One start of a member."""

    number: Number
    name: str
    process: Any = None
    """The engine's handle of the process."""
    link: PipeConsumerEnd | None = None
    unsent: list[Any] | None = field(default_factory=list)
    """Frames that wait until the member has its task; None from then on."""
    where: str = ""
    """The machine of the member, once it has connected."""
    has_ended: bool = False
    """Whether its end was reported to the pool."""
    gone: ProcessEnd | None = None
    """The engine's report of its end."""
    is_over: threading.Event = field(default_factory=threading.Event)
    """Set when the engine has reported its end."""

    def __str__(self) -> str:
        return f"{self.name} ({f'on {self.where}' if self.where else 'not started'})"


class Joined(NamedTuple):
    """Event: a member has connected."""

    line: socket.socket
    said: dict[str, Any]
    """The first message of the member: its name, versions and address."""


class Silent(NamedTuple):
    """Event: a member has sent no heartbeat for too long."""


class Late(NamedTuple):
    """Event: a member has not connected yet."""

    seconds: float
    is_given_up: bool


News: TypeAlias = Joined | ProcessEnd | Silent | Late


class MemberListener:
    """Thread that accepts members, and the queue of its events."""

    def __init__(self, meeting: Listener, silence: float) -> None:
        self.address = meeting.address
        self.news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Descriptor that is readable when there is an event."""
        self._meeting = meeting
        self._silence = silence
        self._expected: dict[str, tuple[MemberStart, float, set[str]]] = {}
        """The members that have a connection to open, since when, and which: their greetings may end in any order."""
        self._happened: deque[tuple[MemberStart, News]] = deque()
        self._new_lines: deque[tuple[socket.socket, MemberStart]] = deque()
        self._stir = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()  # an engine may report an end while this is closed
        self._closed = False
        self._thread = threading.Thread(target=self._keep, name="loader2 listener", daemon=True)
        self._thread.start()

    def expect(self, member: MemberStart) -> str:
        """Return a new name, under which the member will be accepted."""
        name = secrets.token_hex(8)
        self._expected[name] = member, monotonic(), {"life", "messages"}
        return name

    def forget(self) -> None:
        """Accept no member any more."""
        self._expected = {}

    def ended(self, member: MemberStart) -> Callable[[ProcessEnd], None]:
        """Return the function that the engine calls when a member has ended."""

        def ended(gone: ProcessEnd) -> None:
            member.gone = gone
            member.is_over.set()
            self._tell(member, gone)

        return ended

    def hear(self) -> list[tuple[MemberStart, News]]:
        """Return the events since the last call."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.news)
        return [self._happened.popleft() for _ in range(len(self._happened))]

    def close(self) -> None:
        """Stop the thread, and accept no connection any more."""
        self._closed = True
        os.eventfd_write(self._stir, 1)
        self._thread.join()
        with self._lock:
            for _, what in self.hear():
                if isinstance(what, Joined):
                    what.line.close()
            os.close(self.news)
            os.close(self._stir)
            self.news = self._stir = -1

    def _tell(self, member: MemberStart, what: News) -> None:
        with self._lock:
            if self.news >= 0:
                self._happened.append((member, what))
                os.eventfd_write(self.news, 1)

    def _let_in(self, said: dict[str, Any], caller: socket.socket) -> None:
        member, _, missing = self._expected[said["member"]]  # a KeyError refuses a member whose start counts as failed
        is_of_life = said["line"] == "life"
        with self._lock:
            missing.remove(said["line"])
            if not missing:
                self._expected.pop(said["member"], None)
            if self.news < 0:
                caller.close()
            elif is_of_life:
                self._new_lines.append((caller, member))
                os.eventfd_write(self._stir, 1)
            else:
                self._happened.append((member, Joined(caller, said)))
                os.eventfd_write(self.news, 1)

    def _keep(self) -> None:
        lines: dict[socket.socket, tuple[MemberStart, float]] = {}
        with selectors.DefaultSelector() as selector:
            for listening in self._meeting.sockets:
                selector.register(listening, selectors.EVENT_READ)
            selector.register(self._stir, selectors.EVENT_READ)
            due = monotonic()
            while not self._closed:
                selector.select(max(0.0, due - monotonic()))
                looked = monotonic()  # if this process was stopped, read everything that arrived meanwhile
                for key, _ in selector.select(0):
                    if key.fd == self._stir:
                        os.eventfd_read(self._stir)
                        while self._new_lines:
                            line, member = self._new_lines.popleft()
                            lines[line] = member, looked
                            selector.register(line, selectors.EVENT_READ)
                        continue
                    ready = key.fileobj
                    assert isinstance(ready, socket.socket)
                    if ready not in lines:
                        with suppress(OSError):
                            caller, _ = ready.accept()
                            self._meeting.greet_beside(caller, self._let_in)
                    elif _hears(ready):
                        lines[ready] = lines[ready][0], monotonic()
                    else:  # the other connection reports its end
                        selector.unregister(ready)
                        del lines[ready]
                        ready.close()
                if looked >= due:
                    due = looked + self._silence / BEATS
                    for line, (member, heard) in list(lines.items()):
                        beat(line)
                        if looked - heard > self._silence:
                            self._tell(member, Silent())
                            selector.unregister(line)
                            del lines[line]
                            line.close()
                    self._speak_of_late(looked)
        for line in lines:
            line.close()
        self._meeting.close()

    def _speak_of_late(self, now: float) -> None:
        """Report members that have not connected: once for a warning, and once when their start has failed."""
        period = self._silence / BEATS
        for name, (member, since, missing) in list(self._expected.items()):
            waited = now - since
            if "messages" not in missing:
                continue
            if waited >= _GIVEN_UP:
                self._expected.pop(name, None)
                self._tell(member, Late(waited, True))
            elif _SOON <= waited < _SOON + period:
                self._tell(member, Late(waited, False))


def _hears(line: socket.socket) -> bool:
    try:
        return bool(line.recv(4096, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False
