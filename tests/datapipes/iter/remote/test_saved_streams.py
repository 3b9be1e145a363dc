"""Streams over http and from s3 that wait in a buffer: saved by URL, offset and ETag, and opened again there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import s3fs

from datapipes import Transfer
from datapipes.errors import StateError, UnsavableElement
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.messages.switches import FAST
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.http_server import File, Server, serving

QUICK = Transfer(timeout=200, deadline=500, retries=1, backoff=0)
DATED = "Wed, 21 Oct 2015 07:28:00 GMT"
DATA = [Random(number).randbytes(400_000) for number in range(6)]
FIRST = 300_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url(""))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "nobody")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        server.pages |= {f"/bucket/{n}": File(data, etag=f'"{n}"', modified=DATED) for n, data in enumerate(DATA)}
        yield server
        s3fs.S3FileSystem.clear_instance_cache()


def by_http(server: Server, query: str = "", **options: Any) -> Pipe:
    urls = [server.url(f"/bucket/{number}{query}") for number in range(6)]
    return IterableWrapper(urls).read_from_http(transfer=QUICK, **options)


def by_remote(server: Server, query: str = "", **options: Any) -> Pipe:
    urls = [server.url(f"/bucket/{number}{query}") for number in range(6)]
    return IterableWrapper(urls).read_from_remote(transfer=QUICK, **options)


def by_fsspec(server: Server, query: str = "", **options: Any) -> Pipe:
    urls = [server.url(f"/bucket/{number}{query}") for number in range(6)]
    return IterableWrapper(urls).open_files_by_fsspec("rb", transfer=QUICK, **options)


def by_s3(server: Server, query: str = "", **options: Any) -> Pipe:
    return IterableWrapper([f"s3://bucket/{n}" for n in range(6)]).open_files_by_fsspec("rb", transfer=QUICK, **options)


Reader = Callable[..., Pipe]
READERS = [by_http, by_remote, by_fsspec, by_s3]
WAYS = [*((reader, "1") for reader in READERS), (by_s3, "0")]


@pytest.fixture(params=WAYS, ids=[f"{reader.__name__} {fast}" for reader, fast in WAYS])
def files(request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A function that makes a pipe of the server's files."""
    reader, fast = request.param
    monkeypatch.setenv(FAST, fast)
    return lambda query="", **options: reader(server, query, **options)


def begun(row: tuple[str, Any]) -> tuple[bytes, Any]:
    """Read the beginning of a stream, so that it waits at an offset."""
    return row[1].read(FIRST), row[1]


def whole(row: tuple[bytes, Any]) -> bytes:
    data: bytes = row[0] + row[1].read()
    return data


def waiting(files: Pipe) -> Pipe:
    return files.map(begun).batch(4).unbatch().map(whole)


def saved_after(graph: Pipe, count: int) -> dict[str, Any]:
    it: Any = iter(graph)
    for number in range(count):
        assert next(it) == DATA[number]
    state: dict[str, Any] = it.state_dict()
    it.close()
    return state


def resumed(graph: Pipe, state: dict[str, Any]) -> Any:
    it: Any = iter(graph)
    it.load_state_dict(state)
    return it


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_streams_that_wait_are_opened_again_at_their_offset(
    server: Server, files: Reader, count: int, ahead: int
) -> None:
    state = saved_after(waiting(files(ahead=ahead)), count)
    server.requests.clear()
    assert list(resumed(waiting(files(ahead=ahead)), state)) == DATA[count:]
    assert not server.asked("/bucket/0")
    assert len(repr(state)) < 2 * 4 * 4 * FIRST  # the beginnings, and no streams


def test_the_rest_of_a_body_is_requested(server: Server) -> None:
    state = saved_after(waiting(by_http(server)), 1)
    server.requests.clear()
    assert list(resumed(waiting(by_http(server)), state)) == DATA[1:]
    assert server.asked("/bucket/1")[-1].headers["range"] == f"bytes={FIRST}-"
    assert server.asked("/bucket/1")[-1].headers["if-range"] == '"1"'


def test_a_stream_at_its_end_is_opened_again_there(server: Server) -> None:
    def read_out(row: tuple[str, Any]) -> tuple[bytes, Any]:
        return row[1].read(), row[1]

    def graph() -> Pipe:
        return by_http(server).map(read_out).batch(4).unbatch().map(whole)

    assert list(resumed(graph(), saved_after(graph(), 1))) == DATA[1:]


def test_a_server_without_ranges_is_read_from_the_start(server: Server) -> None:
    server.pages |= {f"/bucket/{n}": File(data, etag=f'"{n}"', ranges=False) for n, data in enumerate(DATA)}
    assert list(resumed(waiting(by_http(server)), saved_after(waiting(by_http(server)), 1))) == DATA[1:]


def test_a_file_that_has_changed_is_a_state_error_that_names_it(server: Server, files: Reader) -> None:
    state = saved_after(waiting(files()), 1)
    server.pages["/bucket/2"] = File(DATA[2][::-1], etag='"other"', modified=DATED)
    with pytest.raises(StateError, match="/bucket/2: it has changed since the state was saved"):
        list(resumed(waiting(files()), state))


@pytest.mark.parametrize("reader", [by_http, by_fsspec])
def test_a_url_with_a_signature_is_saved_as_its_place(server: Server, reader: Reader) -> None:
    state = saved_after(waiting(reader(server, "?X-Amz-Signature=hush")), 1)
    assert "hush" not in repr(state)
    assert list(resumed(waiting(reader(server, "?X-Amz-Signature=hush")), state)) == DATA[1:]
    again: Any = iter(waiting(reader(server, "?X-Amz-Signature=anew")))
    again.load_state_dict(state, strict=False)  # the list of URLs has changed
    assert list(again) == DATA[1:]
    assert server.requests[-1].path.endswith("anew")


def test_in_workers(server: Server, files: Reader) -> None:
    graph = files("").sharding_filter().map(begun).batch(4).unbatch().map(whole)
    service = MultiProcessingReadingService(2, multiprocessing_context="spawn")
    with DataLoader2(graph, reading_service=service) as loader:
        everything = list(loader)
        it = iter(loader)
        assert next(it) == everything[0]
        state = loader.state_dict()
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(2, multiprocessing_context="spawn")) as again:
        again.load_state_dict(state)
        assert list(again) == everything[1:]


def test_what_cannot_be_named_is_refused(server: Server) -> None:
    def made(number: int) -> str:
        return server.url(f"/bucket/{number}?token=hush")

    def generated() -> Pipe:
        return IterableWrapper(range(6)).flatmap(lambda n: [made(n)]).read_from_http(transfer=QUICK)

    with pytest.raises(UnsavableElement):
        saved_after(waiting(generated()), 1)
    server.pages |= {f"/bucket/{n}": File(data, etag=f'W/"{n}"', modified=DATED) for n, data in enumerate(DATA)}
    with pytest.raises(UnsavableElement):
        saved_after(waiting(by_http(server)), 1)


def test_a_state_opens_no_url_but_those_of_the_list(server: Server) -> None:
    state = saved_after(waiting(by_http(server)), 1)
    shorter = IterableWrapper([server.url("/bucket/0")]).read_from_http(transfer=QUICK)
    with pytest.raises(StateError):
        list(resumed(waiting(shorter), state))
