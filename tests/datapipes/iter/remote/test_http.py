"""read_from_http, against a server that misbehaves: the right bytes or an error, in bounded time."""

from __future__ import annotations

import pickle
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest
import requests

from datapipes import Transfer
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, TransferError, TransferTimeout
from datapipes.iter import HttpReader, IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.http_server import File, Handler, InTurn, Server, serving, status

DATA = Random(3).randbytes(700_000)
QUICK = Transfer(timeout=200, deadline=500, retries=3, backoff=0)
HASTY = Transfer(timeout=0.2, deadline=20, retries=1, backoff=0)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def read(server: Server, path: str = "/f", transfer: Transfer = QUICK, **options: Any) -> bytes:
    [(_, stream)] = IterableWrapper([server.url(path)]).read_from_http(transfer=transfer, **options)
    with stream:
        data: bytes = stream.read()
    return data


def test_a_url_and_its_stream(server: Server) -> None:
    server.pages["/a.txt"] = File(b"one\ntwo\nthree")
    url = server.url("/a.txt")
    dp = IterableWrapper([url, url]).read_from_http()
    assert isinstance(dp, HttpReader)
    assert len(dp) == 2
    for _ in range(2):
        (first, stream), (second, other) = dp
        assert (first, second) == (url, url)
        assert isinstance(stream, StreamWrapper)
        assert [stream.readline(), *stream] == [b"one\n", b"two\n", b"three"]
        assert [other.read(2), other.read1(3), other.read()] == [b"on", b"e\nt", b"wo\nthree"]
    assert dict(dp.readlines(decode=True)) == {url: "three"}


def test_connections_are_kept_for_further_files(server: Server) -> None:
    ports = []

    def page(handler: Handler) -> None:
        ports.append(handler.client_address[1])
        handler.send(200, b"x")

    server.pages["/f"] = page
    assert [stream.read() for _, stream in IterableWrapper([server.url("/f")] * 3).read_from_http()] == [b"x"] * 3
    assert len(set(ports)) == 1


def test_the_bytes_come_as_they_are_sent(server: Server) -> None:
    server.pages["/f"] = lambda handler: handler.send(200, b"\x1f\x8bno gzip", Content_Encoding="gzip")
    assert read(server) == b"\x1f\x8bno gzip"
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("code", [404, 403, 400, 410])
def test_what_is_wrong_for_good_is_asked_for_once(server: Server, code: int) -> None:
    server.pages["/f"] = status(code)
    with pytest.raises(requests.HTTPError, match=rf"{code} .* for url: http://127\.0\.0\.1:\d+/f") as caught:
        read(server)
    assert caught.value.response.status_code == code
    assert len(server.requests) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("code", [500, 502, 503, 429, 408])
def test_what_may_pass_is_tried_again(server: Server, code: int) -> None:
    server.pages["/f"] = InTurn([status(code), status(code, Retry_After="0"), File(DATA)])
    assert read(server) == DATA
    assert len(server.requests) == 3


def test_but_not_forever(server: Server) -> None:
    server.pages["/f"] = status(503)
    with pytest.raises(requests.HTTPError, match="503"):
        read(server)
    assert len(server.requests) == 1 + QUICK.retries


def test_nobody_listens(server: Server) -> None:
    with pytest.raises(requests.ConnectionError):
        list(IterableWrapper(["http://127.0.0.1:9/x?token=hush"]).read_from_http(transfer=QUICK))


def stalling(handler: Handler) -> None:
    handler.stall()


def stalling_in_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    handler.stall()


@pytest.mark.parametrize("page", [stalling, stalling_in_headers])
def test_a_stall_before_the_body(server: Server, page: Any) -> None:
    server.pages["/f"] = page
    with pytest.raises(requests.Timeout):
        read(server, transfer=HASTY)
    assert len(server.requests) == 2
    server.pages["/f"] = InTurn([page, File(DATA)])
    assert read(server, transfer=HASTY) == DATA


def test_timeout_is_the_second_argument(server: Server) -> None:
    server.pages["/f"] = stalling
    with pytest.raises(requests.Timeout):
        next(iter(IterableWrapper([server.url("/f")]).read_from_http((5, 0.1), transfer=Transfer(retries=0))))


def dripping_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.server.ending.wait(0.05):
        handler.wfile.write(b"x")


@pytest.mark.parametrize("page", [dripping_headers, File(DATA, drips=True), File(DATA, drips=True, chunked=True)])
def test_a_server_that_drips_is_left_at_the_deadline(server: Server, page: Any) -> None:
    server.pages["/f"] = page
    with pytest.raises(TransferTimeout, match=r"/f: not read within deadline=0\.5 seconds"):
        read(server, transfer=Transfer(timeout=5, deadline=0.5))
    assert len(server.requests) == 1


def test_the_time_of_the_user_does_not_count(server: Server) -> None:
    import threading

    server.pages["/f"] = File(DATA)
    [(_, stream)] = IterableWrapper([server.url("/f")]).read_from_http(transfer=Transfer(deadline=2))
    head = stream.read(10)
    threading.Event().wait(2.1)  # longer than the deadline
    assert head + stream.read() == DATA


WAYS: dict[str, dict[str, Any]] = {
    "by an ETag": {},
    "by an ETag, in chunks": {"chunked": True},
    "by a date and the length": {"etag": None, "modified": "Wed, 21 Oct 2015 07:28:00 GMT"},
    "anew, by an ETag": {"ranges": False},
    "anew, by a date and the length": {
        "ranges": False, "etag": None, "modified": "Wed, 21 Oct 2015 07:28:00 GMT",
    },
    "anew, by a digest": {"etag": None},
    "anew, by a digest, in chunks": {"etag": 'W/"1"', "chunked": True},
}  # fmt: skip


@pytest.mark.parametrize("stalls", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_breaks_is_resumed(server: Server, way: str, stalls: bool) -> None:
    server.pages["/f"] = File(DATA, breaks=[300_000, 200_000], stalls=stalls, **WAYS[way])
    transfer = Transfer(timeout=1, deadline=50, retries=3, backoff=0) if stalls else QUICK
    assert read(server, transfer=transfer) == DATA
    assert len(server.requests) == 3
    resumed = server.requests[1].headers
    assert ("range" in resumed) == ("digest" not in way)
    assert resumed.get("if-range") == (WAYS[way].get("modified", '"1"') if "range" in resumed else None)


@pytest.mark.parametrize("way", WAYS)
def test_every_cut_is_resumed_or_an_error(server: Server, way: str) -> None:
    data = DATA[:5000]
    for cut in range(0, 5000, 499):
        server.pages["/f"] = File(data, breaks=[cut], **WAYS[way])
        assert read(server) == data
        server.pages["/f"] = File(data, breaks=[cut] * 5, **{**WAYS[way], "ranges": False})
        with pytest.raises(TransferError, match="/f: "):
            read(server)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_has_changed_is_an_error(server: Server, way: str) -> None:
    old = File(DATA, breaks=[300_000], **WAYS[way])
    changed = {"etag": old.etag and '"2"', "modified": old.modified and "Thu, 22 Oct 2015 07:28:00 GMT"}
    server.pages["/f"] = InTurn([old, File(DATA[::-1], **{**WAYS[way], **changed})])
    [(_, stream)] = IterableWrapper([server.url("/f")]).read_from_http(transfer=QUICK)
    with pytest.raises(TransferError, match=r"broke after \d+ bytes, and the file has changed since"):
        stream.read()
    with pytest.raises(TransferError, match="has changed"):
        stream.read()  # again: there is a gap behind what was read
    assert len(server.requests) == 2


def test_a_range_that_was_not_asked_for_is_an_error(server: Server) -> None:
    def wrong(handler: Handler) -> None:
        handler.send(206, DATA[5:], Content_Range=f"bytes 5-{len(DATA) - 1}/{len(DATA)}", ETag='"1"')

    server.pages["/f"] = InTurn([File(DATA, breaks=[300_000]), wrong])
    with pytest.raises(TransferError, match="and sent 'bytes 5-699999/700000'"):
        read(server)


def test_an_error_costs_its_own_element_only(server: Server) -> None:
    server.pages["/a"] = File(b"a")
    urls = IterableWrapper([server.url(path) for path in ("/a", "/missing", "/a")])
    it = iter(urls.read_from_http())
    assert next(it)[1].read() == b"a"
    with pytest.raises(requests.HTTPError, match="404"):
        next(it)
    assert next(it)[1].read() == b"a"
    with pytest.warns(UserWarning, match=r"404 Not Found for url: .*/missing, skipping\.\.\.$"):
        assert [stream.read() for _, stream in urls.read_from_http(skip_on_error=True)] == [b"a", b"a"]
    with pytest.raises(TypeError, match="valid length"):
        len(urls.read_from_http(skip_on_error=True))
    with pytest.warns(UserWarning, match="goes on after HTTPError"):
        assert [stream.read() for _, stream in urls.read_from_http(on_error="skip")] == [b"a", b"a"]


def test_arguments_are_checked() -> None:
    source = IterableWrapper(["x"])
    with pytest.raises(BadArgument, match="exclude each other"):
        source.read_from_http(skip_on_error=True, on_error="skip")
    for wrong in (0, -1, float("inf"), "5", (1, 0)):
        with pytest.raises(BadArgument, match="finite numbers of seconds above 0"):
            source.read_from_http(wrong)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(BadArgument, match="retries must be an integer"):
        Transfer(retries=-1)
    with pytest.raises(TypeError, match="needs URLs as str, got int"):
        list(IterableWrapper([3]).read_from_http())  # type: ignore[misc]  # what is refused


def hangs_up(handler: Handler) -> None:
    """Drop the connection in place of an answer."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("case", ["dropped", "refused", "missing", "broken"])
def test_all_that_goes_wrong_with_a_server_is_a_transfer_error_that_names_the_url(
    server: Server, case: str, workers: int
) -> None:
    server.pages |= {"/dropped": hangs_up, "/missing": status(404), "/broken": status(503)}
    url = "http://127.0.0.1:1/refused" if case == "refused" else server.url(f"/{case}")
    graph = IterableWrapper([url, url]).sharding_filter().read_from_http(transfer=QUICK)
    service = MultiProcessingReadingService(workers) if workers else None
    of_requests = requests.HTTPError if case in ("missing", "broken") else requests.ConnectionError
    with DataLoader2(graph, reading_service=service) as loader, pytest.raises(TransferError) as caught:
        list(loader)
    assert isinstance(caught.value, of_requests)
    assert url in str(caught.value)
    assert type(caught.value).__name__ == of_requests.__name__


def test_proxies_and_certificates_are_looked_up_once_for_each_host(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []
    original = requests.Session.merge_environment_settings

    def counted(self: requests.Session, url: str, *args: Any, **kwargs: Any) -> Any:
        looked_up.append(url)
        return original(self, url, *args, **kwargs)

    monkeypatch.setattr(requests.Session, "merge_environment_settings", counted)
    server.pages |= {f"/{n}": File(str(n).encode()) for n in range(5)}
    urls = [server.url(f"/{n}") for n in range(5)]
    assert [stream.read() for _, stream in IterableWrapper(urls).read_from_http()] == [b"0", b"1", b"2", b"3", b"4"]
    assert looked_up == [urls[0]]


OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "headers": {"headers": {"X-Own": "1", "User-Agent": "mine", "Accept": None}},
    "auth": {"auth": ("me", "hush")},
}
ODD_PATHS = [
    "/plain/a.b-c_d~e",
    "/q?a=1&b=c",
    "/with space",
    "/ü",
    "/a/../b",
    "/./c",
    "/%41%2f",
    "/x;y",
    "",
    "?q=1",
    "/#f",
]


@pytest.mark.parametrize("options", OPTIONS)
def test_all_files_of_a_host_are_requested_as_requests_does(server: Server, options: str) -> None:
    def sent(**further: Any) -> list[tuple[str, dict[str, str]]]:
        server.requests.clear()
        urls = IterableWrapper([server.url(path) for path in ODD_PATHS + ODD_PATHS])
        with pytest.warns(UserWarning, match="404"):
            assert list(urls.read_from_http(on_error="skip", **OPTIONS[options], **further)) == []
        return [(seen.path, seen.headers) for seen in server.requests]

    assert sent() == sent(hooks={})  # requests prepares each request of a stage with hooks


@pytest.mark.parametrize("given", ["environment", "option"])
def test_a_proxy_is_sent_the_whole_url(server: Server, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server.pages |= {"/a": File(b"a"), "/b": File(b"b")}
    monkeypatch.setenv("NO_PROXY", "direct.invalid")
    monkeypatch.setenv("http_proxy", server.url("") if given == "environment" else "")
    options: dict[str, Any] = {"proxies": {"http": server.url("")}} if given == "option" else {}
    urls = ["http://elsewhere.invalid/a", "http://elsewhere.invalid/b"]
    assert [s.read() for _, s in IterableWrapper(urls).read_from_http(**options)] == [b"a", b"b"]
    assert [seen.path for seen in server.requests] == urls


def test_cookies_are_sent_with_what_follows_in_a_file_and_not_with_the_next(server: Server) -> None:
    def page(handler: Handler) -> None:
        if "Range" in handler.headers:
            File(DATA)(handler)
        else:
            handler.begin(200, {"Set-Cookie": "sid=1", "ETag": '"1"', "Content-Length": str(len(DATA))})
            handler.wfile.write(DATA[:300_000])
            handler.cut()

    server.pages["/f"] = page
    urls = IterableWrapper([server.url("/f")] * 2)
    assert [stream.read() for _, stream in urls.read_from_http(transfer=QUICK)] == [DATA, DATA]
    assert [seen.headers.get("cookie") for seen in server.requests] == [None, "sid=1"] * 2


def test_a_stage_reads_from_many_hosts_in_turn() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(serving()) for _ in range(12)]  # urllib3 keeps the pools of ten
        for number, server in enumerate(servers):
            server.pages["/f"] = File(str(number).encode())
        urls = [server.url("/f") for server in servers] * 2
        found = [stream.read() for _, stream in IterableWrapper(urls).read_from_http(transfer=QUICK)]
    assert found == [str(number).encode() for number in range(12)] * 2


def not_http(handler: Handler) -> None:
    """Answer in another protocol."""
    handler.wfile.write(b"hello\r\n\r\n")
    handler.cut()


@pytest.mark.parametrize(
    "page", [status(404), status(503), hangs_up, stalling, stalling_in_headers, not_http, "refused", "no host"]
)
def test_errors_are_those_of_requests(server: Server, page: Any) -> None:
    server.pages |= {"/first": File(b"x"), "/f": page}
    url = {"refused": "http://127.0.0.1:1/f?token=hush", "no host": "http://a..b/f"}.get(str(page), server.url("/f"))

    def raised(**options: Any) -> tuple[Any, ...]:
        it = iter(IterableWrapper([server.url("/first"), url]).read_from_http(transfer=HASTY, **options))
        next(it)[1].close()
        with pytest.raises(OSError, match="/f") as caught:
            next(it)
        text = re.sub("0x[0-9a-f]+", "0x", str(caught.value))
        return type(caught.value).__mro__, text, len(server.requests)

    *ours, after = raised()
    *by_requests, twice = raised(hooks={})
    assert ours == by_requests
    assert twice == 2 * after
