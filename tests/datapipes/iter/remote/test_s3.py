"""s3, against a moto server in a process of its own, and against a server that misbehaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import boto3
import pytest
import s3fs

from datapipes import Transfer
from datapipes.errors import BadArgument, CutShort, TransferError, TransferTimeout
from datapipes.iter import FSSpecFileLister, FSSpecFileOpener, IoPathFileLister, IterableWrapper
from tests.http_server import File, Handler, InTurn, Server, serving, status
from tests.moto_server import CREDENTIALS, moto_server

QUICK = Transfer(timeout=200, deadline=500, retries=2, backoff=0)
DATA = Random(3).randbytes(700_000)


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
def test_what_is_wrong_for_good_is_asked_for_once(server: Server, read: Any) -> None:
    server.pages["/bucket/f"] = only_get(status(403))
    with pytest.raises(PermissionError):
        read()
    assert len(server.asked("/bucket/f")) == 1


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


def test_an_object_that_changes_meanwhile_is_an_error(server: Server) -> None:
    server.pages["/bucket/f"] = only_get(File(DATA[::-1], etag='"2"', modified=DATED.modified))
    with pytest.raises(TransferError, match="it has changed since it was opened"):
        by_fsspec()
    assert not isinstance(TransferError("x"), CutShort)
