"""Connections of processes that share a key, on one machine or on two.

One process listens and the others call. Each proves to the other that it knows the key (``network.proof``). A caller
that cannot prove it is disconnected and gets no data. The key authenticates a connection and does not encrypt it: the
network can read what is sent, as it can read all other traffic between the machines of a cluster.

A caller on the same machine gets a Unix socket. File descriptors can be passed over it, so memory can be shared.
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
"""Time limit of the proof and of the introduction."""
BEATS: Final = 5
"""Number of heartbeats that are sent in the time after which a process counts as dead."""


class Address(TypedDict):
    """Address and key of a listening process."""

    host: str
    port: int
    name: str
    """Name of the Unix socket for callers on the same machine."""
    machine: str
    """Identity of the listener's machine."""
    key: str


class Listener:
    """The listening side of the connections.

    Args:
        host: The address at which callers reach this machine.
        machine: The identity of this machine: callers with the same one get a Unix socket.
    """

    def __init__(self, host: str, machine: str) -> None:
        name, self._key = f"loader2-{secrets.token_hex(16)}", secrets.token_hex(32)
        self._far = listening(host, backlog=1024)
        self._near = socket.socket(socket.AF_UNIX)
        try:
            self._near.bind(f"\0{name}")  # an abstract name: it has no file, and is freed with the socket
            self._near.listen(1024)
        except OSError:
            self.close()
            raise
        port = self._far.getsockname()[1]
        self.address = Address(host=host, port=port, name=name, machine=machine, key=self._key)

    @property
    def sockets(self) -> list[socket.socket]:
        """The sockets that become readable when a process calls."""
        return [self._far, self._near]

    def next_caller(self, until: int | None = None) -> socket.socket | None:
        """Return the next caller, not yet greeted. Return None once the descriptor ``until`` is readable."""
        sockets = {each.fileno(): each for each in self.sockets}
        ready, _, _ = select.select([*sockets, *([] if until is None else [until])], [], [])
        if ready[0] == until:
            return None
        caller, _ = sockets[ready[0]].accept()
        return caller

    def greet(self, caller: socket.socket) -> dict[str, Any]:
        """Exchange proofs with a caller and return its introduction. Raise ``Refused`` if its proof fails."""
        said = greet(caller, self._key, monotonic() + SECONDS)
        _tune(caller)
        return said

    def greet_beside(self, caller: socket.socket, let_in: Callable[[dict[str, Any], socket.socket], object]) -> None:
        """Greet a caller in a thread of its own, since it may be slow, and pass its introduction to ``let_in``.

        The connection is closed if the caller is refused or if ``let_in`` raises LookupError, ValueError or TypeError.
        """

        def greet() -> None:
            try:
                let_in(self.greet(caller), caller)
            except (OSError, EOFError, LookupError, ValueError, TypeError):
                caller.close()

        threading.Thread(target=greet, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._far.close()
        self._near.close()


def call(address: Address, machine: str, says: dict[str, Any]) -> socket.socket:
    """Call the process that listens at ``address``, exchange proofs, and introduce this process with ``says``."""
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
    """Pass a file descriptor to the other process on this machine."""
    socket.send_fds(line, [b"."], [fd])


def take_memory(line: socket.socket) -> int | None:
    """Return the file descriptor that the other process passes, or None if it is on another machine."""
    if line.family != socket.AF_UNIX:
        return None
    _, fds, _, _ = socket.recv_fds(line, 1, 1)
    if not fds:
        raise EOFError("the process that shares memory has gone")
    return fds[0]


def both_ends(line: socket.socket) -> tuple[Inbox, Outbox]:
    """Return the two directions of a connection in the form of the ends of two pipes."""
    return Inbox(line), Outbox(line)


def _tune(line: socket.socket) -> None:
    line.settimeout(None)
    if line.family != socket.AF_UNIX:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def beat(line: socket.socket) -> bool:
    """Send a heartbeat. Return whether the other side still reads."""
    with suppress(BlockingIOError):  # the other side has enough unread heartbeats
        try:
            line.send(b".", socket.MSG_DONTWAIT)
        except OSError:
            return False
    return True


def heard(line: socket.socket, seconds: float) -> bool | None:
    """Return whether a heartbeat comes within ``seconds``, or None if the other side has closed the connection."""
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
