"""Which address and which ports a rank listens at."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from datapipes.errors import BadArgument
from reading_services.network import address as network
from reading_services.network.address import address, listening


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.delenv("LOADER2_PORTS", raising=False)


@pytest.mark.parametrize("master", ["127.0.0.1", "localhost"])
def test_a_local_master_has_local_ranks(master: str) -> None:
    assert address(master) == "127.0.0.1"


def test_a_master_whose_own_name_is_local_to_it_is_reached_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"node-1": "127.0.1.1", "node-2": None, "192.0.2.1": "10.77.0.1", "127.0.0.1": "127.0.0.1"}
    monkeypatch.setattr(network, "_towards", ways.get)
    assert [address(name) for name in ("node-1", "node-2", "127.0.0.1")] == ["10.77.0.1", "127.0.0.1", "127.0.0.1"]
    ways["192.0.2.1"] = None
    assert address("node-1") == "127.0.1.1"


def test_the_interface_of_gloo_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,eth7")
    assert address("192.0.2.1") == "127.0.0.1"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none7")
    with pytest.raises(BadArgument, match=r"GLOO_SOCKET_IFNAME='none7': no such interface .* there are lo"):
        address("127.0.0.1")


def test_an_interface_may_have_nothing_but_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "six0")
    monkeypatch.setattr(network, "_of_ipv6", lambda name: iter(["fd00::7"] if name == "six0" else []))
    assert address(None) == "fd00::7"


def test_ports_are_taken_from_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(listening("127.0.0.1", 1)) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == "127.0.0.1"
        monkeypatch.setenv("LOADER2_PORTS", f"{port}")
        with pytest.raises(OSError, match=rf"all ports of LOADER2_PORTS={port} are in use at 127\.0\.0\.1"):
            listening("127.0.0.1", 1)
        with closing(listening("127.0.0.2", 1)) as elsewhere:
            assert elsewhere.getsockname() == ("127.0.0.2", port)
    with closing(listening("127.0.0.1", 1)) as again, socket.create_connection(("127.0.0.1", port), 20):
        accepted, _ = again.accept()
        again.close()
        with accepted, closing(listening("127.0.0.1", 1)) as third:  # while a connection is in use
            assert third.getsockname()[1] == port


@pytest.mark.parametrize("ports", ["many", "0", "29699-29600", "29600-x", "29600-70000"])
def test_ports_that_are_none(ports: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADER2_PORTS", ports)
    with pytest.raises(BadArgument, match=r"LOADER2_PORTS=.*: expected the first and the last port, as 29600-29699"):
        listening("127.0.0.1", 1)
