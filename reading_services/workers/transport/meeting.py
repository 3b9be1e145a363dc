"""Connections of processes that share a key, on one machine or on two.

One listens, the others call, and each proves to the other that it knows the key (``network.proof``). Whoever cannot do
that is hung up on, and has been told nothing. What is said afterwards is as open to the network as anything else that
goes between the machines of a cluster.

Callers on the same machine are given a connection over which file descriptors can be passed, so that memory can be
shared.
"""

from __future__ import annotations

import secrets
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypedDict

from reading_services.network.address import listening
from reading_services.network.proof import greet, introduce
from reading_services.workers.transport.pipes import Inbox, Outbox

SECONDS: Final = 10.0
"""The most that proving and introducing oneself may take."""
BEATS: Final = 5
"""Signs of life in the time after which silence is too long."""


class Address(TypedDict):
    """Where to call, and the key."""

    host: str
    port: int
    name: str
    """of the socket for callers on the same machine,"""
    machine: str
    """which this tells from others."""
    key: str


class Meeting:
    """The side that listens.

    Args:
        host: The address of this machine that callers reach it at.
        machine: What tells this machine from others.
    """

    def __init__(self, host: str, machine: str) -> None:
        name, self._key = f"loader2-{secrets.token_hex(16)}", secrets.token_hex(32)
        self._far = listening(host, backlog=1024)
        self._near = socket.socket(socket.AF_UNIX)
        try:
            self._near.bind(f"\0{name}")  # a name that is in no folder, and goes with the socket
            self._near.listen(1024)
        except OSError:
            self.close()
            raise
        port = self._far.getsockname()[1]
        self.address = Address(host=host, port=port, name=name, machine=machine, key=self._key)

    @property
    def doors(self) -> list[socket.socket]:
        """The sockets that become readable when somebody calls."""
        return [self._far, self._near]

    def next_caller(self, until: int | None = None) -> socket.socket | None:
        """The next that calls, who has proved nothing yet; None once a descriptor, ``until``, is readable."""
        doors = {door.fileno(): door for door in self.doors}
        ready, _, _ = select.select([*doors, *([] if until is None else [until])], [], [])
        if ready[0] == until:
            return None
        caller, _ = doors[ready[0]].accept()
        return caller

    def greet(self, caller: socket.socket) -> dict[str, Any]:
        """Prove and have it proved, and return what the caller says of itself; ``Refused`` if it fails to."""
        said = greet(caller, self._key, monotonic() + SECONDS)
        _tune(caller)
        return said

    def greet_beside(self, caller: socket.socket, let_in: Callable[[dict[str, Any], socket.socket], object]) -> None:
        """Greet in a thread of its own, since a stranger may take its time, and hand on what the caller says of itself.

        Who is refused is hung up on, and so is one of whom ``let_in`` knows nothing.
        """

        def greet() -> None:
            try:
                let_in(self.greet(caller), caller)
            except (OSError, EOFError, LookupError, ValueError, TypeError):
                caller.close()

        threading.Thread(target=greet, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._far.close()
        self._near.close()


def call(address: Address, machine: str, says: dict[str, Any]) -> socket.socket:
    """Call who listens there, prove and have it proved, and say who this is."""
    if machine == address["machine"]:
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(SECONDS)
        line.connect(f"\0{address['name']}")
    else:
        line = socket.create_connection((address["host"], address["port"]), SECONDS)
    try:
        introduce(line, address["key"], says, monotonic() + SECONDS)
        _tune(line)
    except BaseException:
        line.close()
        raise
    return line


def give_memory(line: socket.socket, fd: int) -> None:
    """Pass a file descriptor to the other process, which is on this machine."""
    socket.send_fds(line, [b"."], [fd])


def take_memory(line: socket.socket) -> int | None:
    """Take the file descriptor that is passed next; None from another machine."""
    if line.family != socket.AF_UNIX:
        return None
    _, fds, _, _ = socket.recv_fds(line, 1, 1)
    if not fds:
        raise EOFError("the process that shares memory has gone")
    return fds[0]


def both_ends(line: socket.socket) -> tuple[Inbox, Outbox]:
    """The two directions of a connection, as the ends of two pipes."""
    return Inbox(line), Outbox(line)


def _tune(line: socket.socket) -> None:
    line.settimeout(None)
    if line.family != socket.AF_UNIX:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def beat(line: socket.socket) -> bool:
    """Give a sign of life; whether anybody is there to get it."""
    with suppress(BlockingIOError):  # the other side has signs enough to read
        try:
            line.send(b".", socket.MSG_DONTWAIT)
        except OSError:
            return False
    return True


def heard(line: socket.socket, seconds: float) -> bool | None:
    """Whether a sign of life comes within the time; None if there will be none any more."""
    ready = select.poll()
    ready.register(line, select.POLLIN)
    if not ready.poll(1000 * seconds):
        return False
    try:
        return True if line.recv(4096, socket.MSG_DONTWAIT) else None
    except BlockingIOError:
        return False
    except OSError:
        return None
