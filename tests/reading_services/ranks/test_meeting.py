"""Ranks meet at one address of the network that they share, strangers or not, and say why if they cannot."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch.distributed as dist

from datapipes.errors import PrefetchTimeoutError, RankDied, RanksError
from reading_services.ranks.rendezvous import meet


def a_store() -> Any:
    return dist.HashStore()  # type: ignore[attr-defined]  # torch exports it without saying so


@pytest.fixture(autouse=True)
def one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.delenv("LOADER2_PORTS", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")


def test_strangers_are_hung_up_on() -> None:
    store = a_store()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(meet, store, 0, 2, 20)
        told = json.loads(store.get("1/0"))
        assert told["host"] == "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", told["port"]), 20)
        with socket.create_connection((told["host"], told["port"]), 20) as asks:
            asks.sendall(b"GET / HTTP/1.1\r\nHost: who-is-there.example\r\nAccept: */*\r\n\r\n" + bytes(100))
            asks.shutdown(socket.SHUT_WR)
            with socket.create_connection((told["host"], told["port"]), 20) as silent:
                silent.shutdown(socket.SHUT_WR)
                second = pool.submit(meet, store, 1, 2, 20)
                links = first.result(20)[1], second.result(20)[0]
        with links[0], links[1]:
            links[0].sendall(b"hello")
            assert links[1].recv(5, socket.MSG_WAITALL) == b"hello"
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((told["host"], told["port"]), 20)


def test_one_port_is_enough_for_several_loaders(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("LOADER2_PORTS", str(port))
    store = a_store()
    links: list[socket.socket] = []
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            for each in [pool.submit(meet, store, rank, 3, 20) for rank in range(3)]:
                links.extend(each.result(20).values())
    assert {link.getsockname()[1] for link in links if link.getpeername()[1] != port} == {port}
    assert len(links) == 12
    for link in links:
        link.close()


def test_a_rank_that_cannot_listen_says_so_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADER2_PORTS", "all")
    store = a_store()
    with ThreadPoolExecutor(2) as pool:
        first, second = [pool.submit(meet, store, rank, 2, 20) for rank in range(2)]
    with pytest.raises(RanksError, match="rank 0 cannot listen for other ranks: LOADER2_PORTS='all': expected"):
        first.result()
    with pytest.raises(RankDied, match="rank 0 cannot listen for other ranks: LOADER2_PORTS='all': expected"):
        second.result()


def test_a_rank_that_cannot_be_reached_is_named_with_what_to_set() -> None:
    store = a_store()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        host, port = closed.getsockname()
    store.set("1/0", json.dumps({"host": host, "port": port, "key": "a key"}))
    with pytest.raises(RankDied, match=rf"rank 1 cannot reach rank 0 at {host}, port {port}: .* GLOO_SOCKET_IFNAME"):
        meet(store, 1, 2, 20)


def test_somebody_else_who_listens_there_is_found_out() -> None:
    store = a_store()
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        host, port = other.getsockname()
        store.set("1/0", json.dumps({"host": host, "port": port, "key": "a key"}))
        meeting = pool.submit(meet, store, 1, 2, 20)
        line, _ = other.accept()
        with line:
            line.sendall(bytes(64))
            with pytest.raises(RankDied, match="the process that listens there does not know the key"):
                meeting.result(20)


def test_ranks_that_do_not_come_are_named() -> None:
    with pytest.raises(PrefetchTimeoutError, match="waiting for rank 1, 2, which has not begun its epoch"):
        meet(a_store(), 0, 3, 0.01)
