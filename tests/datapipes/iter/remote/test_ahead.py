"""Files that are begun before their turn: over http and fsspec, and from s3 with each of its libraries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import s3fs

from datapipes import Transfer
from datapipes.errors import BadArgument, TransferError
from datapipes.graph import Pipe
from datapipes.io.remote import object_stores
from datapipes.io.remote.body import HTTPBody
from datapipes.io.remote.transfer import Clock
from datapipes.io.remote.web import Web
from datapipes.iter import IterableWrapper
from datapipes.messages.switches import FAST
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.http_server import File, Handler, Page, Server, serving, status

QUICK = Transfer(timeout=200, deadline=500, retries=3, backoff=0)
DATED = "Wed, 21 Oct 2015 07:28:00 GMT"
DATA = [Random(number).randbytes(50_000) for number in range(6)]
PATIENCE = 300

Reader = Callable[..., Pipe]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url(""))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "nobody")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        server.pages |= {f"/bucket/{number}": File(data, modified=DATED) for number, data in enumerate(DATA)}
        yield server
        s3fs.S3FileSystem.clear_instance_cache()


def on_the_web(server: Server, names: list[str]) -> Pipe:
    return IterableWrapper([server.url(f"/bucket/{name}") for name in names])


def in_s3(names: list[str]) -> Pipe:
    return IterableWrapper([f"s3://bucket/{name}" for name in names])


WAYS: dict[str, Callable[[Server, list[str], dict[str, Any]], Pipe]] = {
    "http": lambda server, names, options: on_the_web(server, names).read_from_http(**options),
    "fsspec, http": lambda server, names, options: on_the_web(server, names).open_files_by_fsspec("rb", **options),
    "fsspec, s3": lambda _, names, options: in_s3(names).open_files_by_fsspec("rb", **options),
    "s3": lambda _, names, options: in_s3(names).load_files_by_s3(**options),
}
LIBRARIES = [("http", "1"), ("fsspec, http", "1"), *((way, fast) for way in ("fsspec, s3", "s3") for fast in "01")]


@pytest.fixture(params=LIBRARIES, ids=" ".join)
def files(request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A function that makes a pipe of the server's files with these names."""
    way, fast = request.param
    monkeypatch.setenv(FAST, fast)
    return lambda *names, **options: WAYS[way](server, [*map(str, names)], {"transfer": QUICK, **options})


def _only_get(data: bytes, page: Page) -> Page:
    """HEAD goes well, and GET is the page."""
    head = File(data, modified=DATED)
    return lambda handler: (head if handler.command == "HEAD" else page)(handler)


def contents(graph: Pipe) -> list[bytes]:
    return [stream.read() for _, stream in graph]


@pytest.mark.parametrize("ahead_bytes", [0, 1, 5_000, 10**9])
@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_the_files_come_whole_and_in_order(files: Reader, ahead: int, ahead_bytes: int) -> None:
    graph = files(*range(6), ahead=ahead, ahead_bytes=ahead_bytes)
    assert len(graph) == 6
    assert contents(graph) == contents(graph) == DATA


def test_files_are_begun_together(server: Server, files: Reader) -> None:
    together = threading.Barrier(4)

    def page(handler: Handler) -> None:
        together.wait(PATIENCE)
        File(b"text", modified=DATED)(handler)

    server.pages |= {f"/bucket/{name}": _only_get(b"text", page) for name in range(4)}
    assert contents(files(*range(4), ahead=3)) == [b"text"] * 4


def test_an_error_is_raised_at_the_turn_of_its_file(server: Server, files: Reader) -> None:
    server.pages["/bucket/2"] = status(404)
    it = iter(files(*range(6), ahead=4))
    assert [next(it)[1].read() for _ in range(2)] == DATA[:2]
    with pytest.raises((TransferError, FileNotFoundError), match="/2"):
        next(it)
    assert [stream.read() for _, stream in it] == DATA[3:]
    with pytest.warns(UserWarning, match="goes on after"):
        assert contents(files(*range(6), ahead=4, on_error="skip")) == [*DATA[:2], *DATA[3:]]
    it = iter(files(*range(6), ahead=4, on_error="retry(2)"))
    assert [next(it)[1].read() for _ in range(2)] == DATA[:2]
    with pytest.warns(UserWarning, match="goes on after"), pytest.raises((TransferError, FileNotFoundError)):
        next(it)
    it.close()


@pytest.mark.parametrize("breaks", [[100], [20_000], [49_999], [20_000] * 2])
def test_a_body_is_resumed(server: Server, files: Reader, breaks: list[int]) -> None:
    for number, data in enumerate(DATA):
        server.pages[f"/bucket/{number}"] = _only_get(data, File(data, breaks=list(breaks), modified=DATED))
    assert contents(files(*range(6), ahead=3, ahead_bytes=30_000)) == DATA


def test_a_body_that_does_not_end_is_an_error_after_its_first_bytes(server: Server) -> None:
    server.pages["/bucket/0"] = File(DATA[0], breaks=[20_000] * 9, ranges=False)
    [(_, stream)] = IterableWrapper([server.url("/bucket/0")]).read_from_http(transfer=QUICK, ahead=1)
    assert stream.read1(20_000) == DATA[0][:20_000]
    for _ in range(2):
        with pytest.raises(TransferError, match="/bucket/0"):
            stream.read()


def test_so_many_bytes_are_read_ahead(server: Server) -> None:
    url = server.url("/bucket/0")
    visit = Web(QUICK, {}).visit(url)
    body = HTTPBody(visit.fetch(url), Clock(QUICK, url))
    assert not body.read_ahead(20_000)
    assert body._at == 20_000
    assert body.read(10) + body.readall() == DATA[0]
    body = HTTPBody(visit.fetch(url), Clock(QUICK, url))
    assert body.read_ahead(50_001)
    assert body.readall() == DATA[0]


def test_a_stream_that_is_ahead_can_be_sought(server: Server) -> None:
    for way in ("fsspec, http", "fsspec, s3"):
        [(_, stream)] = WAYS[way](server, ["0"], {"transfer": QUICK, "ahead": 1, "ahead_bytes": 20_000})
        with stream:
            assert stream.tell() == 0
            assert stream.read(5) == DATA[0][:5]
            for at in (10, 30_000, 15_000, 0):
                stream.seek(at)
                assert (stream.read(7), stream.tell()) == (DATA[0][at : at + 7], at + 7)


def test_threads_start_with_the_first_element_and_end_with_the_session(server: Server, files: Reader) -> None:
    before = threading.active_count()
    graph = files(*range(6), ahead=3)
    it = iter(graph)
    assert not [thread for thread in threading.enumerate() if thread.name == "ahead"]
    next(it)[1].close()
    assert 1 <= len([thread for thread in threading.enumerate() if thread.name == "ahead"]) <= 4
    it.close()  # the fixture of all tests finds threads that remain
    assert threading.active_count() <= before + 70  # those of obstore and fsspec stay


def test_a_server_that_stalls_does_not_delay_the_end(server: Server, files: Reader) -> None:
    begun = threading.Event()

    def stalling(handler: Handler) -> None:
        begun.set()
        handler.stall()

    server.pages["/bucket/1"] = stalling
    it = iter(files(0, 1, 2, ahead=2, transfer=Transfer(timeout=2, deadline=10**6, retries=10**6, backoff=60)))
    assert next(it)[1].read() == DATA[0]
    assert begun.wait(PATIENCE)
    it.close()


def test_a_resume_repeats_only_what_was_not_handed_on(server: Server, files: Reader) -> None:
    it = iter(files(*range(6), ahead=3))
    assert next(it)[1].read() == DATA[0]
    state = it.state_dict()
    it.close()
    assert len(repr(state)) < 5_000
    server.requests.clear()
    resumed = iter(files(*range(6), ahead=3))
    resumed.load_state_dict(state)
    assert [stream.read() for _, stream in resumed] == DATA[1:]
    assert not server.asked("/bucket/0")


def test_workers_open_the_files_of_their_own_shards(server: Server, files: Reader) -> None:
    graph = files(*range(6), ahead=2).sharding_filter().map(_content)
    service = MultiProcessingReadingService(2, multiprocessing_context="spawn")  # with the environment of now
    with DataLoader2(graph, reading_service=service) as loader:
        assert list(loader) == DATA
    assert len(server.asked("/bucket/0")) == 1


def _content(row: tuple[str, Any]) -> bytes:
    data: bytes = row[1].read()
    return data


def test_a_bucket_is_opened_once_for_all_threads(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAST, "1")
    opened = []
    original = object_stores._Bucket.__init__

    def counted(*args: Any) -> None:
        opened.append(1)
        original(*args)

    monkeypatch.setattr(object_stores._Bucket, "__init__", counted)
    assert contents(WAYS["s3"](server, [*map(str, range(6))], {"ahead": 5})) == DATA
    assert opened == [1]


def test_arguments_are_checked() -> None:
    with pytest.raises(BadArgument, match="'ahead' is required to be a number of files, 0 or more"):
        IterableWrapper(["x"]).open_files_by_fsspec(ahead=-1)
    with pytest.raises(BadArgument, match="'ahead_bytes' is required to be a number of bytes, 0 or more"):
        IterableWrapper(["x"]).load_files_by_s3(ahead=1, ahead_bytes=-1)
    with pytest.raises(BadArgument, match="exclude each other"):
        IterableWrapper(["x"]).read_from_http(ahead=1, skip_on_error=True)
