"""s3, against a moto server in a process of its own, and against a server that misbehaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import boto3
import pytest
import s3fs

from benchmarks import object_server
from datapipes import Transfer
from datapipes.errors import BadArgument, CutShort, TransferError, TransferTimeout
from datapipes.io.remote import object_stores
from datapipes.iter import FSSpecFileLister, FSSpecFileOpener, IoPathFileLister, IterableWrapper
from datapipes.messages.switches import FAST
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.datapipes.iter.remote.in_a_fork import must_read_on_in_a_fork
from tests.http_server import File, Handler, InTurn, Server, serving, status
from tests.moto_server import CREDENTIALS, PATIENCE, moto_server

QUICK = Transfer(timeout=200, deadline=500, retries=2, backoff=0)
DATA = Random(3).randbytes(700_000)


@pytest.fixture(autouse=True, params=["s3fs", "obstore"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library that reads objects."""
    monkeypatch.setenv(FAST, "0" if request.param == "s3fs" else "1")
    return str(request.param)


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """The URL of a moto server."""
    with moto_server() as url:
        yield url


@pytest.fixture
def of_nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()  # no other test is to meet these servers


@pytest.fixture
def bucket(moto: str, of_nobody: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a bucket with some objects."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    name = f"bucket{os.urandom(4).hex()}"
    client = boto3.client("s3", endpoint_url=moto)
    client.create_bucket(Bucket=name)
    for key in ("train/a.txt", "train/b.csv", "train/deep/c.txt", "trains", "other/x"):
        client.put_object(Bucket=name, Key=key, Body=key.encode())
    client.put_object(Bucket=name, Key="big", Body=DATA)
    client.close()
    return f"s3://{name}"


def test_listing(bucket: str) -> None:
    prefixes = IterableWrapper([f"{bucket}/train/", f"{bucket}/train", f"{bucket}/nothing"])
    inside = [f"{bucket}/train/{name}" for name in ("a.txt", "b.csv", "deep/c.txt")]
    assert list(prefixes.list_files_by_s3()) == [*inside, *inside, f"{bucket}/trains"]
    assert list(prefixes.list_files_by_s3(masks=["*.csv", "*s"])) == [inside[1], inside[1], f"{bucket}/trains"]
    assert len(list(IterableWrapper([bucket]).list_files_by_s3())) == 6
    assert len(prefixes.list_files_by_s3(7)) == 7
    with pytest.raises(TypeError, match="valid length"):
        len(prefixes.list_files_by_s3())


def test_loading(bucket: str) -> None:
    urls = [f"{bucket}/train/a.txt", f"{bucket}/big"]
    dp = IterableWrapper(urls).load_files_by_s3(request_timeout_ms=5000, region="us-east-1")
    assert len(dp) == 2
    assert [(url, stream.read()) for url, stream in dp] == [(urls[0], b"train/a.txt"), (urls[1], DATA)]


@pytest.mark.parametrize("name", ["list_files_by_s3", "load_files_by_s3"])
def test_what_is_not_there(bucket: str, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        list(getattr(IterableWrapper(["s3://no-such-bucket-here/x"]), name)(transfer=QUICK))
    with pytest.raises(ValueError, match="needs URLs such as s3://bucket/key, got 'http://x/y'"):
        list(getattr(IterableWrapper(["http://x/y"]), name)())
    with pytest.raises(BadArgument, match="request_timeout_ms must be above 0"):
        getattr(IterableWrapper(["s3://x"]), name)(request_timeout_ms=0)


def test_through_fsspec(bucket: str) -> None:
    listed = FSSpecFileLister(f"{bucket}/train")
    assert list(listed) == [f"{bucket}/train/{name}" for name in ("a.txt", "b.csv", "deep")]
    assert list(FSSpecFileLister(f"{bucket}/train", "*.txt")) == [f"{bucket}/train/a.txt"]
    [(_, stream)] = FSSpecFileOpener([f"{bucket}/big"], "rb", kwargs_for_open={"block_size": 2**20})
    with stream:
        assert (stream.seek(-3, 2), stream.read()) == (len(DATA) - 3, DATA[-3:])
        stream.seek(0)
        assert stream.read() == DATA
    saved = IterableWrapper([(f"{bucket}/new/x", "text"), (f"{bucket}/new/y", "")]).save_by_fsspec()
    assert list(saved) == [f"{bucket}/new/x", f"{bucket}/new/y"]
    assert [stream.read() for _, stream in FSSpecFileLister(f"{bucket}/new").open_files_by_fsspec()] == ["text", ""]


def test_through_iopath(bucket: str) -> None:
    listed = IoPathFileLister(f"{bucket}/train", "*.*")
    assert list(listed) == [f"{bucket}/train/a.txt", f"{bucket}/train/b.csv"]
    assert [stream.read() for _, stream in listed.open_files_by_iopath("rb")] == [b"train/a.txt", b"train/b.csv"]
    pairs = IterableWrapper([(f"{bucket}/new", "text"), (f"{bucket}/new", "later")])
    assert list(pairs.save_by_iopath()) == [f"{bucket}/new"] * 2
    assert [stream.read() for _, stream in IterableWrapper([f"{bucket}/new"]).open_files_by_iopath()] == ["text"]
    assert f"{bucket}/new" in list(IterableWrapper([bucket]).list_files_by_s3())
    assert not [url for url in IterableWrapper([bucket]).list_files_by_s3() if "part" in url]


@pytest.fixture
def server(of_nobody: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url(""))
        yield server


def by_fsspec(transfer: Transfer = QUICK) -> Any:
    [(_, stream)] = FSSpecFileOpener(["s3://bucket/f"], "rb", transfer=transfer)
    with stream:
        return stream.read()


def by_loader(transfer: Transfer = QUICK) -> Any:
    [(_, stream)] = IterableWrapper(["s3://bucket/f"]).load_files_by_s3(transfer=transfer)
    return stream.read()


def only_get(page: Any) -> Any:
    """HEAD goes well, and GET is the page."""
    return lambda handler: (DATED if handler.command == "HEAD" else page)(handler)


DATED = File(DATA, modified="Wed, 21 Oct 2015 07:28:00 GMT")
both = pytest.mark.parametrize("read", [by_fsspec, by_loader])


@both
def test_what_may_pass_is_tried_again(server: Server, read: Any) -> None:
    server.pages["/bucket/f"] = only_get(InTurn([status(503), status(500), DATED]))
    assert read() == DATA
    server.pages["/bucket/f"] = only_get(status(503))
    server.requests.clear()
    with pytest.raises(OSError, match=r"(?i)s3://bucket/f|503|service"):
        read()
    assert len(server.asked("/bucket/f")) == 1 + QUICK.retries  # not multiplied by the retries of s3fs and botocore


@both
def test_what_is_wrong_for_good_is_asked_for_once(server: Server, read: Any, library: str) -> None:
    server.pages["/bucket/f"] = only_get(status(403))
    with pytest.raises(PermissionError):
        read()
    assert len(server.asked("/bucket/f")) == (1 if library == "s3fs" else 2)  # after obstore, s3fs tells the error


@both
@pytest.mark.parametrize("times", [2, 9])
def test_a_body_that_breaks(server: Server, read: Any, times: int) -> None:
    server.pages["/bucket/f"] = only_get(File(DATA, breaks=[200_000] * times, modified=DATED.modified))
    if times <= QUICK.retries:
        assert read() == DATA
    else:
        with pytest.raises(OSError, match="f"):
            read()


def stalling(handler: Handler) -> None:
    handler.stall()


@both
@pytest.mark.parametrize("in_body", [False, True])
def test_a_stall_ends(server: Server, read: Any, in_body: bool) -> None:
    half_way = File(DATA, breaks=[200_000] * 9, stalls=True, modified=DATED.modified)
    server.pages["/bucket/f"] = only_get(half_way if in_body else stalling)
    with pytest.raises((TransferError, OSError), match="f"):
        read(Transfer(timeout=1, deadline=50, retries=1, backoff=0))
    assert len(server.asked("/bucket/f")) == 2


@both
def test_a_deadline_ends_what_drips(server: Server, read: Any) -> None:
    server.pages["/bucket/f"] = only_get(File(DATA, drips=True, modified=DATED.modified))
    with pytest.raises(TransferTimeout, match=r"not read within deadline=0\.5 seconds"):
        read(Transfer(timeout=10, deadline=0.5))


def test_an_object_that_changes_meanwhile_is_an_error(server: Server, library: str) -> None:
    changed = File(DATA[::-1], etag='"2"', modified=DATED.modified)
    if library == "s3fs":
        server.pages["/bucket/f"] = only_get(changed)
    else:  # which has no HEAD: the first answer tells the version
        server.pages["/bucket/f"] = InTurn([File(DATA, breaks=[300_000], modified=DATED.modified), changed])
    with pytest.raises(TransferError, match="s3://bucket/f: it has changed since it was opened"):
        by_fsspec()
    assert not isinstance(TransferError("x"), CutShort)


def by_obstore(server: Server) -> list[bool]:
    """Which of the requests were made with obstore."""
    return ["object_store" in seen.headers["user-agent"] for seen in server.requests]


@both
def test_an_object_is_read_in_one_request(server: Server, read: Any, library: str) -> None:
    server.pages["/bucket/f"] = DATED
    assert read() == DATA
    if library == "obstore":
        assert [seen.method for seen in server.requests] == ["GET"]
    assert by_obstore(server) == [library == "obstore"] * len(server.requests)


@both
def test_every_cut_is_resumed(server: Server, read: Any) -> None:
    data = DATA[:5000]
    for cut in range(0, 5000, 499):
        server.pages["/bucket/f"] = only_get(File(data, breaks=[cut], modified=DATED.modified))
        server.pages["/bucket/f"] = _sized(data, server.pages["/bucket/f"])
        assert read() == data


def _sized(data: bytes, page: Any) -> Any:
    """HEAD tells of these data."""
    head = File(data, modified=DATED.modified)
    return lambda handler: (head if handler.command == "HEAD" else page)(handler)


def test_a_break_is_resumed_on_the_condition_that_the_version_is_the_same(server: Server) -> None:
    server.pages["/bucket/f"] = only_get(File(DATA, breaks=[300_000], modified=DATED.modified))
    assert by_fsspec() == DATA
    assert server.asked("/bucket/f")[-1].headers["if-match"] == '"1"'


def test_a_stream_can_be_sought(server: Server) -> None:
    server.pages["/bucket/f"] = DATED
    [(_, stream)] = FSSpecFileOpener(["s3://bucket/f"], "rb", transfer=QUICK)
    with stream:
        assert stream.seek(-5, 2) == len(DATA) - 5
        assert stream.read() == DATA[-5:]
        for at in (0, 10, 600_000, 400_000, len(DATA), 5):
            assert stream.seek(at) == at
            assert (stream.read(7), stream.tell()) == (DATA[at : at + 7], min(len(DATA), at + 7))
    server.pages["/bucket/f"] = DATED
    [(_, stream)] = FSSpecFileOpener(["s3://bucket/f"], "rb", transfer=QUICK)
    with stream:
        server.pages["/bucket/f"] = only_get(File(DATA[::-1], etag='"2"', modified=DATED.modified))
        stream.seek(-5, 2)
        with pytest.raises(TransferError, match="s3://bucket/f: it has changed since it was opened"):
            stream.read()


def test_text(server: Server) -> None:
    server.pages["/bucket/f"] = File("ä\r\n".encode("latin-1"), modified=DATED.modified)
    options = {"encoding": "latin-1", "newline": ""}
    assert [s.read() for _, s in FSSpecFileOpener(["s3://bucket/f"], kwargs_for_open=options)] == ["ä\r\n"]


@pytest.mark.parametrize(
    ("options", "for_open"),
    [({"requester_pays": True}, {}), ({"client_kwargs": {"use_ssl": False}}, {}), ({}, {"block_size": 10_000})],
)
def test_options_that_are_not_translated_take_s3fs(
    server: Server, options: dict[str, Any], for_open: dict[str, Any], library: str
) -> None:
    server.pages["/bucket/f"] = DATED
    dp = FSSpecFileOpener(["s3://bucket/f"], "rb", kwargs_for_open=for_open, transfer=QUICK, **options)
    assert [stream.read() for _, stream in dp] == [DATA]
    assert not any(by_obstore(server))
    [name] = {**(options.get("client_kwargs") or options), **for_open}
    assert str(dp).partition("  # ")[2].startswith("s3:// by s3fs: obstore")
    assert (name in str(dp).partition("  # ")[2]) == (library == "obstore")


def test_options_that_are_translated(server: Server, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server.pages["/bucket/f"] = DATED
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {
        "s3": {"key": "me", "secret": "hush"},
        "endpoint_url": server.url(""),
        "client_kwargs": {"region_name": "eu-west-3"},
    }
    dp = FSSpecFileOpener(["s3://bucket/f"], "rb", transfer=QUICK, **options)
    assert [stream.read() for _, stream in dp] == [DATA]
    assert "me/" in server.requests[0].headers["authorization"]
    assert "/eu-west-3/s3/" in server.requests[0].headers["authorization"]
    assert by_obstore(server)[0] == (library == "obstore")
    server.requests.clear()
    [(_, stream)] = FSSpecFileOpener(["s3://bucket/f"], "rb", anon=True, endpoint_url=server.url(""))
    assert stream.read() == DATA
    assert not any("authorization" in seen.headers for seen in server.requests)
    assert ("  # s3:// by obstore" in str(dp)) == (library == "obstore")


def test_where_nothing_answers_obstore_is_asked_once(of_nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    opened = []
    original = object_stores.ObjectFile.__init__

    def counted(*args: Any) -> None:
        opened.append(1)
        original(*args)

    monkeypatch.setattr(object_stores.ObjectFile, "__init__", counted)
    urls = IterableWrapper(["s3://bucket/f", "s3://bucket/g"])
    with pytest.warns(UserWarning, match="goes on after"):
        assert list(urls.load_files_by_s3(transfer=Transfer(retries=0), on_error="skip")) == []
    assert len(opened) <= 1


ODD_KEYS = [
    "a b",
    "ü/ö",
    "%41",
    "a+b",
    "x?y",
    "#",
    "*",
    "~",
    "a\\b",
    "a//b",
    "../up",
    "./here",
    "end/",
    "a=b&c",
    "'",
    '"',
]


def test_odd_keys(bucket: str) -> None:
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"])
    name = f"odd{os.urandom(4).hex()}"
    client.create_bucket(Bucket=name)
    listed: dict[str, list[str]] = {}
    for key in ODD_KEYS:
        client.put_object(Bucket=name, Key=f"odd/{key}", Body=key.encode())
        client.put_object(Bucket=name, Key=f"{key}", Body=key.encode())
    client.close()
    prefixes = [f"s3://{name}", f"s3://{name}/odd/", f"s3://{name}/odd/a", f"s3://{name}/odd/%", f"s3://{name}/e"]
    urls = [f"s3://{name}/odd/{key}" for key in ODD_KEYS if key not in ("x?y", "end/")]
    with pytest.MonkeyPatch.context() as patch:
        for switch in "01":
            patch.setenv(FAST, switch)
            listed[switch] = list(IterableWrapper(prefixes).list_files_by_s3())
            loaded = IterableWrapper(urls).load_files_by_s3(transfer=QUICK)
            listed[switch] += [f"{url} {stream.read()!r}" for url, stream in loaded]
    assert listed["0"] == listed["1"]


@pytest.mark.parametrize("size", [0, 1])
def test_listing_thousands(of_nobody: None, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with object_server.serving(2100, size) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        prefixes = IterableWrapper(["s3://data/", "s3://data/0009", "s3://data/00209"])
        numbers = [*range(2100), *range(900, 1000), *range(2090, 2100)]
        assert list(prefixes.list_files_by_s3()) == [f"s3://data/{number:06}" for number in numbers]


LISTING = """<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>
<Prefix></Prefix><IsTruncated>false</IsTruncated>{}</ListBucketResult>"""
ENTRY = """<Contents><Key>{}</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified><ETag>"1"</ETag>
<Size>6</Size><StorageClass>STANDARD</StorageClass></Contents>"""
KEYS = [f"file{number}" for number in range(8)]


@pytest.fixture
def eight(server: Server) -> Server:
    """A server of a bucket with eight objects."""
    listing = LISTING.format("".join(map(ENTRY.format, KEYS))).encode()
    server.pages["/bucket"] = server.pages["/bucket/"] = lambda handler: handler.send(200, listing)
    server.pages |= {f"/bucket/{key}": File(b"0" + key.encode(), modified=DATED.modified) for key in KEYS}
    return server


def content(row: tuple[str, Any]) -> bytes:
    data: bytes = row[1].read()
    return data


def killed_once(flag: str, data: bytes) -> bytes:
    """Kill the process at the fourth object, the first time."""
    if data == b"0file3" and not os.path.exists(flag):
        with open(flag, "x"):
            os.kill(os.getpid(), signal.SIGKILL)
    return data


@pytest.mark.parametrize("context", ["fork", "spawn"])  # a fork server keeps its first environment
@pytest.mark.parametrize("case", ["listed here", "no workers, then two", "a replaced worker"])
def test_workers_of_a_process_that_has_used_obstore(
    eight: Server, case: str, context: Any, library: str, tmp_path: Path
) -> None:
    objects = IterableWrapper(["s3://bucket/"]).list_files_by_s3(transfer=QUICK)
    urls = IterableWrapper(list(objects)) if case != "no workers, then two" else objects
    assert any(by_obstore(eight)) == (library == "obstore" and case != "no workers, then two")
    graph = urls.sharding_filter().load_files_by_s3(transfer=QUICK).map(content)
    expected = [b"0" + key.encode() for key in KEYS]
    if case == "no workers, then two":
        assert list(DataLoader2(graph)) == expected
    eight.requests.clear()
    if case == "a replaced worker":
        graph = graph.map(partial(killed_once, str(tmp_path / "flag")))
    service = MultiProcessingReadingService(2, multiprocessing_context=context, restart=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the worker that was replaced
        with DataLoader2(graph, reading_service=service) as loader:
            assert list(loader) == expected
    assert any(by_obstore(eight)) == (library == "obstore" and context != "fork")
    assert ("by s3fs in workers that are forked from now on" in str(objects)) == (library == "obstore")


def test_a_stream_of_obstore_is_read_on_by_s3fs_in_a_fork(server: Server) -> None:
    server.pages["/bucket/f"] = DATED
    [(_, stream)] = FSSpecFileOpener(["s3://bucket/f"], "rb", transfer=QUICK)
    must_read_on_in_a_fork(stream, DATA)


STALLED = """
import os, signal, sys, threading, time
from datapipes import Transfer
from datapipes.iter import IterableWrapper
threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    list(IterableWrapper(["s3://bucket/f"]).load_files_by_s3(transfer=Transfer(timeout=500)))
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 100)
"""


def test_an_interruption_does_not_wait_for_the_server(server: Server) -> None:
    server.pages["/bucket/f"] = stalling
    done = subprocess.run([sys.executable, "-c", STALLED], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.returncode) == ("interrupted True\n", 0), done.stderr
