"""The policy of remote reading: what is tried again, how long it waits, what it tells; packages that are missing."""

from __future__ import annotations

import errno
import pickle
import sys
from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from datapipes.errors import BadArgument, CutShort, TransferError, TransferTimeout
from datapipes.io.remote import transfer as policy
from datapipes.io.remote.transfer import Clock, may_pass, running_clock, status_of, without_secrets
from datapipes.iter import (
    FSSpecFileLister,
    FSSpecFileOpener,
    HuggingFaceHubReader,
    IoPathFileLister,
    IterableWrapper,
    NodeWrapper,
    Transfer,
)
from tests.http_server import serving, status

AT_ONCE = Transfer(retries=3, backoff=0)


def failing(*errors: Exception) -> Callable[[], str]:
    """A function that raises one error after the other, and then gives a value."""
    left = list(errors)

    def make() -> str:
        if left:
            raise left.pop(0)
        return "made"

    return make


def test_what_may_pass_is_tried_so_often() -> None:
    clock = Clock(AT_ONCE, "x")
    assert clock.tried(failing(ConnectionResetError(), TimeoutError(), CutShort("x"))) == "made"
    with pytest.raises(ConnectionResetError) as caught:
        clock.tried(failing(ConnectionResetError("gone")))  # the attempts are those of one file, from first to last
    assert isinstance(caught.value, TransferError)
    assert str(caught.value) == "x: gone"


@pytest.mark.parametrize("error", [FileNotFoundError("x"), PermissionError("x"), ValueError("x"), TransferError("x")])
def test_what_is_wrong_for_good_is_not(error: Exception) -> None:
    clock = Clock(AT_ONCE, "x")
    with pytest.raises(type(error)):
        clock.tried(failing(error))
    assert clock.failed == 0


def test_attempts_of_one_reader_inside_of_another_do_not_multiply() -> None:
    made = []

    def make() -> None:
        made.append(1)
        raise ConnectionError("x")

    with pytest.raises(ConnectionError):
        Clock(AT_ONCE, "outer").tried(lambda: Clock(AT_ONCE, "inner").tried(make))
    assert len(made) == 1 + AT_ONCE.retries


def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made from now on, which take no time."""
    waits: list[float] = []
    monkeypatch.setattr(policy, "Event", lambda: SimpleNamespace(wait=waits.append))
    return waits


def test_pauses_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = paused(monkeypatch)
    with pytest.raises(ConnectionError):
        Clock(Transfer(backoff=1, retries=9), "x").tried(failing(*(ConnectionError() for _ in range(10))))
    assert len(waits) == 9
    for wait, most in zip(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60], strict=True):
        assert most / 2 <= wait <= most


def test_a_pause_that_the_server_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = paused(monkeypatch)
    with serving() as server:
        server.pages["/f"] = status(429, Retry_After="7")
        with pytest.raises(OSError, match="429"):
            list(IterableWrapper([server.url("/f")]).read_from_http(transfer=Transfer(retries=1, backoff=0)))
        server.pages["/f"] = status(429, Retry_After="1000000")
        with pytest.raises(OSError, match="429"):
            list(IterableWrapper([server.url("/f")]).read_from_http(transfer=Transfer(retries=1, backoff=0)))
    assert waits == [7, policy.LONGEST_PAUSE]


def test_the_deadline() -> None:
    clock = Clock(Transfer(deadline=0.05), "x")
    with pytest.raises(TransferTimeout, match=r"^x: not read within deadline=0\.05 seconds") as caught:
        clock.tried(lambda: Event().wait(0.2))  # longer than the deadline
    assert isinstance(caught.value, TimeoutError)
    assert clock.left < 0
    assert running_clock() is None
    with clock:
        assert running_clock() is clock


@pytest.mark.parametrize(
    "wrong",
    [{"timeout": 0}, {"timeout": (1, 2, 3)}, {"timeout": True}, {"deadline": None}, {"deadline": float("nan")}],
)
def test_waits_without_end_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match="finite numbers of seconds above 0, in Transfer"):
        Transfer(**wrong)


@pytest.mark.parametrize("wrong", [{"retries": -1}, {"retries": 1.5}, {"backoff": -1}, {"backoff": 1e9}])
def test_attempts_without_end_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match="retries must be an integer"):
        Transfer(**wrong)


def test_a_policy_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(AT_ONCE)) == AT_ONCE
    dp = IterableWrapper(["x"]).read_from_http(transfer=AT_ONCE)
    assert repr(dp).endswith("(transfer=Transfer(retries=3, backoff=0))")


def test_statuses() -> None:
    error: Any = OSError("x")
    assert status_of(error) is None
    error.__cause__ = RuntimeError("y")
    error.__cause__.response = {"ResponseMetadata": {"HTTPStatusCode": 503}}
    assert status_of(error) == 503
    assert may_pass(error)
    error.__cause__.response["ResponseMetadata"]["HTTPStatusCode"] = 403
    assert not may_pass(error)


class Odd(Exception):
    """Cannot be made from one text."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one, two)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("http://a/b?token=hush"),
        FileNotFoundError(errno.ENOENT, "no", "http://a/b?token=hush"),
        ValueError("http://me:hush@a"),
        Odd("x", "http://me:hush@a"),
    ],
)
def test_secrets_are_taken_out_of_errors(error: Exception) -> None:
    shown = without_secrets(error)
    assert "hush" not in f"{shown} {shown!r}"
    assert "***" in str(shown)
    assert isinstance(shown, type(error) if not isinstance(error, Odd) else TransferError)
    harmless = ValueError("x")
    assert without_secrets(harmless) is harmless
    harmless.__cause__ = error
    assert without_secrets(harmless) is not harmless


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [
        ("requests", "http", lambda source: source.read_from_http()),
        ("requests", "http", lambda source: source.read_from_gdrive()),
        ("requests", "http", lambda source: source.read_from_remote()),
        ("s3fs", "s3", lambda source: source.list_files_by_s3()),
        ("s3fs", "s3", lambda source: source.load_files_by_s3()),
        ("aistore", "ais", lambda source: source.list_files_by_ais("http://x")),
        ("aistore", "ais", lambda source: source.load_files_by_ais("http://x")),
        ("iopath", "iopath", lambda source: source.open_files_by_iopath(handler=1)),
        ("iopath", "iopath", lambda source: source.save_by_iopath(handler=1)),
        ("iopath", "iopath", lambda source: IoPathFileLister(source, handler=1)),
        ("datasets", "huggingface", lambda source: HuggingFaceHubReader("json")),
        ("torchdata", "nodes", lambda source: NodeWrapper(lambda epoch: None)),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    package: str, extra: str, make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs the package `{package}`: pip install 'loader2\[{extra}\]'"):
        make(IterableWrapper(["x"]))


@pytest.mark.parametrize(("url", "hint"), [("s3://b/x", r"loader2\[s3\]"), ("https://h/x", r"loader2\[http\]")])
def test_what_fsspec_misses_is_named(url: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(protocol: str) -> Any:
        raise ImportError(f"Install something for {protocol}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(ModuleNotFoundError, match=rf"needs a package that is missing: pip install '{hint}'"):
        list(FSSpecFileOpener([url]))
    with pytest.raises(ModuleNotFoundError, match="see what fsspec needs for 'gs'"):
        list(FSSpecFileLister("gs://bucket"))


def test_on_error_is_asked_once_all_attempts_are_used_up() -> None:
    with serving() as server:
        server.pages["/f"] = status(503)
        urls = IterableWrapper([server.url("/f")])
        with pytest.warns(UserWarning, match="goes on after HTTPError: 503"):
            told: list[Any] = list(
                urls.read_from_http(transfer=AT_ONCE, on_error=lambda error, url: (type(error).__name__, url))
            )
        assert told == [("HTTPError", server.url("/f"))]
        assert len(server.requests) == 1 + AT_ONCE.retries
        with pytest.warns(UserWarning, match="goes on after"), pytest.raises(OSError, match="503"):
            list(urls.read_from_http(transfer=AT_ONCE, on_error="retry(2)"))
        assert len(server.requests) == 4 * (1 + AT_ONCE.retries)
