"""Members come over two connections, and the greeting of either may end first."""

from __future__ import annotations

import select
import socket
from contextlib import closing
from uuid import uuid4

import pytest

from reading_services.cluster.listener import MemberListener, MemberStart
from reading_services.workers.transport.listener import Listener, call

SILENCE, LONG = 2.0, 300.0


@pytest.mark.parametrize("order", [("life", "messages"), ("messages", "life")])
def test_the_connections_of_a_member_come_in_any_order(order: tuple[str, str]) -> None:
    machine = uuid4().hex
    members = MemberListener(Listener("127.0.0.1", machine), SILENCE)
    lines: list[socket.socket] = []
    try:
        name = members.expect(MemberStart(0, "worker 0"))
        for kind in order:
            lines.append(line := call(members.address, machine, {"member": name, "line": kind}))
            if kind == "life":
                line.settimeout(LONG)
                assert line.recv(1), "the listener sends heartbeats over it"
            else:
                assert select.select([members.news], [], [], LONG)[0]
                ((_, joined),) = members.hear()
                lines.append(joined.line)  # type: ignore[union-attr]  # it is a Joined
    finally:
        for line in lines:
            line.close()
        members.close()


def test_a_connection_that_came_already_is_refused() -> None:
    machine = uuid4().hex
    members = MemberListener(Listener("127.0.0.1", machine), SILENCE)
    try:
        name = members.expect(MemberStart(0, "worker 0"))
        with closing(call(members.address, machine, {"member": name, "line": "life"})) as first:
            first.settimeout(LONG)
            assert first.recv(1)
            with closing(call(members.address, machine, {"member": name, "line": "life"})) as again:
                again.settimeout(LONG)
                assert again.recv(1) == b""
    finally:
        members.close()
