"""Where the members of a pool come in: one thread lets in who calls, and gives and hears signs of life.

It tells the thread that waits for messages what has happened, and touches nothing else.
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

from reading_services.cluster.engine import Gone
from reading_services.workers.pool import Number
from reading_services.workers.transport.meeting import BEATS, Meeting, beat
from reading_services.workers.transport.process import ConsumerEnd

_SOON: Final = 20.0  # seconds after which a member that has not come is spoken of
_GIVEN_UP: Final = 300.0  # and given up


@dataclass(eq=False)
class Member:
    """One start of a member."""

    number: Number
    name: str
    process: Any = None
    """What stands for it at the engine."""
    link: ConsumerEnd | None = None
    unsent: list[Any] | None = field(default_factory=list)
    """Messages that wait until it has been given its task; None from then on."""
    where: str = ""
    """The machine that it has come from, if it has."""
    has_ended: bool = False
    how: str = ""
    """How it was ended here, if it was; ``gone`` has what the engine tells."""
    failure: BaseException | None = None
    gone: Gone | None = None
    is_over: threading.Event = field(default_factory=threading.Event)
    """Set when the engine has told of its end."""

    def __str__(self) -> str:
        return f"{self.name} ({f'on {self.where}' if self.where else 'not started'})"


class Came(NamedTuple):
    """A member has called."""

    line: socket.socket
    said: dict[str, Any]
    """What it has said of itself."""


class Silent(NamedTuple):
    """A member has given no sign of life for too long."""


class Late(NamedTuple):
    """A member has not come, and is waited for."""

    seconds: float
    is_given_up: bool


News: TypeAlias = Came | Gone | Silent | Late


class Door:
    """The thread, and what it has to tell."""

    def __init__(self, meeting: Meeting, silence: float) -> None:
        self.address = meeting.address
        self.news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Becomes readable when there is something to hear."""
        self._meeting = meeting
        self._silence = silence
        self._expected: dict[str, tuple[Member, float]] = {}
        self._happened: deque[tuple[Member, News]] = deque()
        self._new_lines: deque[tuple[socket.socket, Member]] = deque()
        self._stir = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()  # an engine may tell of an end while this is closed
        self._closed = False
        self._thread = threading.Thread(target=self._keep, name="loader2 door", daemon=True)
        self._thread.start()

    def expect(self, member: Member) -> str:
        """The name by which a member will be let in."""
        name = secrets.token_hex(8)
        self._expected[name] = member, monotonic()
        return name

    def forget(self) -> None:
        """Expect nobody any more."""
        self._expected = {}

    def ended(self, member: Member) -> Callable[[Gone], None]:
        """What the engine is to call when a member has ended."""

        def ended(gone: Gone) -> None:
            member.gone = gone
            member.is_over.set()
            self._tell(member, gone)

        return ended

    def hear(self) -> list[tuple[Member, News]]:
        """What has happened since."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.news)
        return [self._happened.popleft() for _ in range(len(self._happened))]

    def close(self) -> None:
        """Let nobody in any more."""
        self._closed = True
        os.eventfd_write(self._stir, 1)
        self._thread.join()
        with self._lock:
            for _, what in self.hear():
                if isinstance(what, Came):
                    what.line.close()
            os.close(self.news)
            os.close(self._stir)
            self.news = self._stir = -1

    def _tell(self, member: Member, what: News) -> None:
        with self._lock:
            if self.news >= 0:
                self._happened.append((member, what))
                os.eventfd_write(self.news, 1)

    def _let_in(self, said: dict[str, Any], caller: socket.socket) -> None:
        member, _ = self._expected[said["member"]]  # or it was given up
        is_of_life = said["line"] == "life"
        if not is_of_life:
            self._expected.pop(said["member"], None)
        with self._lock:
            if self.news < 0:
                caller.close()
            elif is_of_life:
                self._new_lines.append((caller, member))
                os.eventfd_write(self._stir, 1)
            else:
                self._happened.append((member, Came(caller, said)))
                os.eventfd_write(self.news, 1)

    def _keep(self) -> None:
        lines: dict[socket.socket, tuple[Member, float]] = {}
        with selectors.DefaultSelector() as selector:
            for door in self._meeting.doors:
                selector.register(door, selectors.EVENT_READ)
            selector.register(self._stir, selectors.EVENT_READ)
            due = monotonic()
            while not self._closed:
                selector.select(max(0.0, due - monotonic()))
                looked = monotonic()  # who was stopped here goes on with all that has come meanwhile
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
                    else:  # that it has gone is known by its other connection
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
        """Tell of those who have not come: once when it is early to worry, and once when they are given up."""
        period = self._silence / BEATS
        for name, (member, since) in list(self._expected.items()):
            waited = now - since
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
