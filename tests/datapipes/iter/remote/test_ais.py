"""AIStore, through its SDK, against a server that speaks the two requests that are made: list objects, get object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from aistore.sdk.errors import AISError

from datapipes import Transfer
from datapipes.errors import TransferError, TransferTimeout
from datapipes.iter import AISFileLister, AISFileLoader, IterableWrapper
from tests.http_server import File, Handler, InTurn, Server, redirect, serving, status

QUICK = Transfer(timeout=200, deadline=500, retries=2, backoff=0)
DATA = Random(3).randbytes(700_000)
NAMES = ["a", "train/1", "train/2", "train/deep/3"]


def listing(handler: Handler) -> None:
    """Pages of two objects."""
    asked = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))["value"]
    names = [name for name in NAMES if name.startswith(asked["prefix"])]
    start = int(asked["continuation_token"] or 0)
    answer = {
        "UUID": "1",
        "ContinuationToken": str(start + 2) if start + 2 < len(names) else "",
        "Flags": 0,
        "Entries": [{"n": name, "s": 1, "f": 64} for name in names[start : start + 2]],
    }
    handler.send(200, msgspec.msgpack.encode(answer), Content_Type="application/msgpack")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.pages["/v1/buckets/bucket"] = listing
        yield server


def load(server: Server, page: Any, transfer: Transfer = QUICK) -> bytes:
    server.pages["/v1/objects/bucket/a"] = page
    [(_, stream)] = IterableWrapper(["ais://bucket/a"]).load_files_by_ais(server.url(""), transfer=transfer)
    with stream:
        data: bytes = stream.read()
    return data


def test_listing(server: Server) -> None:
    dp = IterableWrapper(["ais://bucket/train/", "ais://bucket"]).list_files_by_ais(server.url(""), 9)
    assert isinstance(dp, AISFileLister)
    assert len(dp) == 9
    assert list(dp) == [f"ais://bucket/{name}" for name in (*NAMES[1:], *NAMES)]
    with pytest.raises(TypeError, match="valid length"):
        len(IterableWrapper(["ais://x"]).list_files_by_ais(server.url("")))


def test_loading(server: Server) -> None:
    server.pages |= {"/v1/objects/bucket/a": redirect("/target", 307), "/target": File(DATA, etag=None)}
    dp = IterableWrapper(["ais://bucket/a"] * 2).load_files_by_ais(server.url(""), transfer=QUICK)
    assert isinstance(dp, AISFileLoader)
    assert len(dp) == 2
    assert [(url, stream.read()) for url, stream in dp] == [("ais://bucket/a", DATA)] * 2


@pytest.mark.parametrize("etag", [None, '"1"'])
def test_a_body_that_breaks(server: Server, etag: str | None) -> None:
    assert load(server, InTurn([status(503), File(DATA, etag, breaks=[300_000])])) == DATA
    with pytest.raises(TransferError, match="ais://bucket/a: "):
        load(server, File(DATA, etag, breaks=[300_000] * 9))
    with pytest.raises(TransferError, match="has changed since"):
        load(server, InTurn([File(DATA, etag, breaks=[300_000]), File(DATA[::-1], etag and '"2"')]))


def test_what_is_not_there(server: Server) -> None:
    with pytest.raises(AISError, match="404"):
        load(server, status(404))
    assert len(server.requests) == 1
    with pytest.raises(ValueError, match="needs URLs such as ais://bucket/object, got 'bucket'"):
        list(IterableWrapper(["bucket"]).load_files_by_ais(server.url("")))


def test_stalls_and_drips_end(server: Server) -> None:
    hasty = Transfer(timeout=0.2, deadline=20, retries=1, backoff=0)
    with pytest.raises(OSError, match=r"(?i)timed out"):
        load(server, lambda handler: handler.stall(), hasty)
    with pytest.raises(TransferTimeout, match=r"ais://bucket/a: not read within deadline=0\.5"):
        load(server, File(DATA, drips=True), Transfer(timeout=5, deadline=0.5))
    server.pages["/v1/buckets/bucket"] = lambda handler: handler.stall()
    with pytest.raises(OSError, match=r"(?i)timed out"):
        list(IterableWrapper(["ais://bucket"]).list_files_by_ais(server.url(""), transfer=hasty))
