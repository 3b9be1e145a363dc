"""Rendezvous of ranks: each connects to its parent in a tree, whose address is in the process group's store.

A rank has up to ``FAN_OUT`` children: up to 65 ranks are a star around rank 0, and 65,536 ranks are three levels. A
rank with children listens until all have connected, and only on the network of the process group. Both sides prove that
they know a key that only the store holds. Ranks exchange plain data only, so an open port is no way into the program.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import closing, suppress
from datetime import timedelta
from time import monotonic
from typing import Any, Final

from datapipes.errors import BadArgument, PrefetchTimeoutError, RankDied, RanksError
from reading_services.network.address import INTERFACE, PORTS, address, listening
from reading_services.network.proof import greet, introduce

FAN_OUT: Final = 64
_HANDSHAKE = 5.0
"""Seconds to reach a peer, and for a caller to prove itself."""
_SILENCE = 20
"""Seconds of silence after which a host counts as dead."""


def parent_of(rank: int, fan_out: int = FAN_OUT) -> int | None:
    """Return the parent that a rank connects to. Return None for rank 0."""
    return (rank - 1) // fan_out if rank else None


def children_of(rank: int, world: int, fan_out: int = FAN_OUT) -> range:
    """Return the children that connect to a rank."""
    first = rank * fan_out + 1
    return range(min(first, world), min(first + fan_out, world))


def meet(store: Any, rank: int, world: int, timeout: float, fan_out: int = FAN_OUT) -> dict[int, socket.socket]:
    """Connect to the parent and the children. Return the connections by rank. All ranks must call it equally often."""
    until = monotonic() + timeout
    key = str(store.add(f"{rank}/meetings", 1))
    parent, children = parent_of(rank, fan_out), children_of(rank, world, fan_out)
    links: dict[int, socket.socket] = {}
    try:
        if children:
            secret = secrets.token_hex(32)
            with closing(_opened(store, f"{key}/{rank}", rank, secret)) as server:
                # Children first: they get an answer even if the parent is late.
                while missing := [child for child in children if child not in links]:
                    child, link = _accepted(server, secret, missing, until, timeout)
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


def _opened(store: Any, entry: str, rank: int, secret: str) -> socket.socket:
    """Open a socket for the children, and put its address into the store, or the reason why there is none."""
    try:
        server = listening(address(_master(store)), FAN_OUT)
    except (OSError, BadArgument) as error:
        problem = f"rank {rank} cannot listen for other ranks: {error}"
        store.set(entry, json.dumps({"problem": problem}))
        raise RanksError(problem) from error
    host, port, *_ = server.getsockname()
    store.set(entry, json.dumps({"host": host, "port": port, "key": secret}))
    return server


def _master(store: Any) -> str | None:
    """Return the host of the store, under the name that all ranks use."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", None) or os.environ.get("MASTER_ADDR")


def _reached(store: Any, entry: str, parent: int, rank: int, until: float, timeout: float) -> socket.socket:
    try:
        store.wait([entry], timedelta(seconds=max(0.001, until - monotonic())))
    except RuntimeError as error:
        raise PrefetchTimeoutError(timeout, f"rank {parent}, which has not begun its epoch") from error
    entered = json.loads(store.get(entry))
    if "problem" in entered:
        raise RankDied(entered["problem"])
    try:
        link = socket.create_connection((entered["host"], entered["port"]), timeout=_HANDSHAKE)
        try:
            introduce(link, entered["key"], {"rank": rank}, until)  # other callers may be served first
        except BaseException:
            link.close()
            raise
    except OSError as error:
        raise RankDied(
            f"rank {rank} cannot reach rank {parent} at {entered['host']}, port {entered['port']}: {error}; set "
            f"{INTERFACE} to the interface that the hosts share, and {PORTS} to ports that are open between them"
        ) from error
    return link


def _accepted(
    server: socket.socket, secret: str, missing: list[int], until: float, timeout: float
) -> tuple[int, socket.socket]:
    while True:
        server.settimeout(max(0.001, until - monotonic()))
        try:
            link, _ = server.accept()
        except TimeoutError:
            some = ", ".join(map(str, missing[:8])) + (" ..." if len(missing) > 8 else "")
            raise PrefetchTimeoutError(timeout, f"rank {some}, which has not begun its epoch") from None
        with suppress(OSError):  # a caller that is no rank
            rank = greet(link, secret, min(until, monotonic() + _HANDSHAKE))["rank"]
            if rank in missing:
                return rank, link
        link.close()


def _watch(link: socket.socket, timeout: float) -> None:
    """Set TCP keepalive and timeouts: the system notices a dead host and fails pending sends."""
    silence = max(1, min(_SILENCE, int(timeout)))
    probes = max(1, silence // 5)
    link.settimeout(silence)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, probes)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, probes)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 4 * probes * 1000)
