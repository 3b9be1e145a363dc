"""Rendezvous of ranks: each connects to its parent in a tree, whose address is in the process group's store.

A rank has up to ``FAN_OUT`` children, so up to that many ranks and one are a star around rank 0, and 65,536 are three
levels. Who connects has to show a token that only the store tells, and ranks exchange nothing but plain data, so a port
that is open to a network is no way in.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from time import monotonic
from typing import Any, Final

from datapipes.errors import PrefetchTimeoutError, RankDied

FAN_OUT: Final = 64
_HANDSHAKE = 5.0
"""Seconds within which a peer that was reached must have said who it is."""
_SILENCE = 20
"""Seconds after which a host that does not answer at all counts as dead."""


def parent_of(rank: int, fan_out: int = FAN_OUT) -> int | None:
    """The parent that a rank connects to; None for rank 0."""
    return (rank - 1) // fan_out if rank else None


def children_of(rank: int, world: int, fan_out: int = FAN_OUT) -> range:
    """The children that connect to a rank."""
    first = rank * fan_out + 1
    return range(min(first, world), min(first + fan_out, world))


def meet(store: Any, rank: int, world: int, timeout: float, fan_out: int = FAN_OUT) -> dict[int, socket.socket]:
    """The connections with the parent and the children, by rank; all ranks have to call, equally often."""
    until = monotonic() + timeout
    key = str(store.add(f"{rank}/meetings", 1))
    parent, children = parent_of(rank, fan_out), children_of(rank, world, fan_out)
    links: dict[int, socket.socket] = {}
    try:
        with closing(_listening()) as server:
            token = secrets.token_hex(16)
            if children:
                told = {"addresses": [*_addresses(store)], "port": server.getsockname()[1], "token": token}
                store.set(f"{key}/{rank}", json.dumps(told))
            # Children first: they are answered however late the parent is.
            while missing := [child for child in children if child not in links]:
                child, link = _accepted(server, token, missing, until, timeout)
                links[child] = link
            if parent is not None:
                links[parent] = _reached(store, f"{key}/{parent}", parent, rank, until, timeout)
    except BaseException:
        for link in links.values():
            link.close()
        raise
    for link in links.values():
        _watch(link, timeout)
    return links


def _listening() -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=FAN_OUT)
    return socket.create_server(("", 0), backlog=FAN_OUT)


def _addresses(store: Any) -> Iterator[str]:
    """Addresses of this host, the likeliest first: the way to the store, which all ranks can reach."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    master = getattr(store, "host", None) or os.environ.get("MASTER_ADDR")
    if master is not None:
        with suppress(OSError):
            for family, kind, _, _, address in socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM):
                with closing(socket.socket(family, kind)) as way:
                    way.connect(address)  # sends nothing; the system chooses the address that it would send from
                    yield way.getsockname()[0]
    with suppress(OSError):
        yield from {str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None)}
    yield "127.0.0.1"


def _reached(store: Any, key: str, parent: int, rank: int, until: float, timeout: float) -> socket.socket:
    try:
        store.wait([key], timedelta(seconds=max(0.001, until - monotonic())))
    except RuntimeError as error:
        raise PrefetchTimeoutError(timeout, f"rank {parent}, which has not begun its epoch") from error
    told = json.loads(store.get(key))
    problems = []
    for address in dict.fromkeys(told["addresses"]):
        try:
            link = socket.create_connection((address, told["port"]), timeout=_HANDSHAKE)
        except OSError as error:
            problems.append(f"{address}: {error}")
            continue
        try:
            link.sendall(f"{told['token']} {rank}\n".encode())
            if _line(link) == told["token"][::-1]:
                return link
            problems.append(f"{address}: somebody else answers there")
        except OSError as error:
            problems.append(f"{address}: {error}")
        link.close()
    raise RankDied(f"rank {rank} cannot reach rank {parent}, port {told['port']}: {'; '.join(problems)}")


def _accepted(
    server: socket.socket, token: str, missing: list[int], until: float, timeout: float
) -> tuple[int, socket.socket]:
    while True:
        server.settimeout(max(0.001, until - monotonic()))
        try:
            link, _ = server.accept()
        except TimeoutError:
            some = ", ".join(map(str, missing[:8])) + (" ..." if len(missing) > 8 else "")
            raise PrefetchTimeoutError(timeout, f"rank {some}, which has not begun its epoch") from None
        try:
            link.settimeout(_HANDSHAKE)
            said, _, rank = _line(link).partition(" ")
            if secrets.compare_digest(said, token) and rank.isdigit() and int(rank) in missing:
                link.sendall(f"{token[::-1]}\n".encode())
                return int(rank), link
        except OSError:
            pass
        link.close()


def _line(link: socket.socket) -> str:
    line = b""
    while not line.endswith(b"\n") and len(line) < 100:
        received = link.recv(1)
        if not received:
            raise ConnectionError("the connection was closed")
        line += received
    return line.decode("ascii", "replace").strip()


def _watch(link: socket.socket, timeout: float) -> None:
    """Set TCP keepalive and timeouts: the system notices a host that is gone, and ends what cannot be sent."""
    silence = max(1, min(_SILENCE, int(timeout)))
    probes = max(1, silence // 5)
    link.settimeout(silence)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, probes)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, probes)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 4 * probes * 1000)
