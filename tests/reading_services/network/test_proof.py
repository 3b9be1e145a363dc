"""Two sides that know a key connect; a stranger is not let in, gets no data, and learns nothing from what it hears."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest

from reading_services.network.proof import Refused, greet, introduce

KEY, OTHER = "a key", "another key"
SAYS = {"rank": 3}

Wire = Callable[[bytes, bool], bytes]
"""What becomes of bytes on their way, from the caller or to it."""


def later() -> float:
    return monotonic() + 300


def meeting(caller: str, called: str, wire: Wire = lambda said, _: said) -> tuple[Future[None], Future[dict[str, Any]]]:
    """Return the ends of both sides, with a process between them that changes their messages."""
    here, near = socket.socketpair()
    far, there = socket.socketpair()

    def carry(source: socket.socket, target: socket.socket, comes: bool) -> None:
        try:
            while said := source.recv(1 << 16):
                target.sendall(wire(said, comes))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of them closed the connection

    def be(side: Callable[[], Any], line: socket.socket) -> Any:
        with line:
            return side()

    with ThreadPoolExecutor(4) as pool, near, far:
        pool.submit(carry, near, far, True)
        pool.submit(carry, far, near, False)
        calls = pool.submit(be, lambda: introduce(here, caller, SAYS, later()), here)
        listens = pool.submit(be, lambda: greet(there, called, later()), there)
        calls.exception()
        listens.exception()
        for each in (near, far):
            each.shutdown(socket.SHUT_RDWR)
    return calls, listens


def recorded() -> tuple[bytes, bytes]:
    """Everything that a caller says and is told in a meeting that goes well."""
    said = {True: b"", False: b""}

    def record(part: bytes, comes: bool) -> bytes:
        said[comes] += part
        return part

    calls, listens = meeting(KEY, KEY, record)
    calls.result()
    assert listens.result() == SAYS
    return said[True], said[False]


def test_who_knows_the_key_is_heard_and_the_key_is_never_said() -> None:
    several = [said for _ in range(4) for said in recorded()]
    assert not any(KEY.encode() in said for said in several)
    assert len({said[:32] for said in several}) == len(several), "a number was used twice"
    assert len({said[-32:] for said in several}) == len(several), "a proof was used twice"


def test_nothing_is_said_to_who_does_not_know_the_key() -> None:
    said = b""

    def record(part: bytes, comes: bool) -> bytes:
        nonlocal said
        said += part if comes else b""
        return part

    calls, listens = meeting(KEY, OTHER, record)
    with pytest.raises(Refused, match="the process that listens there does not know the key"):
        calls.result()
    with pytest.raises(Refused, match="closed the connection"):
        listens.result()
    assert len(said) == 32, "the caller has said more than a number"


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_caller_who_does_not_know_the_key_is_refused(line: tuple[socket.socket, socket.socket]) -> None:
    line[0].sendall(bytes(32) + b"\x02\x00{}" + bytes(32))
    with pytest.raises(Refused, match="a caller does not know the key"):
        greet(line[1], KEY, later())


def test_what_was_recorded_opens_nothing(line: tuple[socket.socket, socket.socket]) -> None:
    said, told = recorded()
    line[0].sendall(said)
    with pytest.raises(Refused, match="a caller does not know the key"):
        greet(line[1], KEY, later())
    one, other = socket.socketpair()
    with one, other:
        one.sendall(told)
        with pytest.raises(Refused, match="does not know the key"):
            introduce(other, KEY, SAYS, later())


def test_nobody_passes_who_says_what_he_hears(line: tuple[socket.socket, socket.socket]) -> None:
    number = bytes(range(32))
    line[0].sendall(number)
    with ThreadPoolExecutor(1) as pool:
        greeting = pool.submit(greet, line[1], KEY, later())
        told = line[0].recv(64, socket.MSG_WAITALL)
        line[0].sendall(b"\x02\x00{}" + told[32:])
        with pytest.raises(Refused, match="a caller does not know the key"):
            greeting.result()


def test_what_a_caller_says_cannot_be_changed_on_its_way() -> None:
    calls, listens = meeting(KEY, KEY, lambda said, _: said.replace(b'"rank": 3', b'"rank": 0'))
    calls.result()
    with pytest.raises(Refused, match="a caller does not know the key"):
        listens.result()


@pytest.mark.parametrize("side", [lambda line: greet(line, KEY, 0), lambda line: introduce(line, KEY, SAYS, 0)])
def test_who_says_nothing_is_refused(
    line: tuple[socket.socket, socket.socket], side: Callable[[socket.socket], Any]
) -> None:
    with pytest.raises(Refused, match="did not prove in time"):
        side(line[1])
    line[0].close()
    with pytest.raises(ConnectionError):
        side(line[1])
