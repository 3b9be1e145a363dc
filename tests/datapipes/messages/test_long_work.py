"""Long work on files: told where the switch is on, wherever it goes on, and nothing otherwise."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from datapipes import show_work
from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper
from datapipes.messages import long_work
from datapipes.messages.long_work import LongWork
from datapipes.messages.switches import SHOW_WORK
from tests.http_server import Handler, serving
from tests.preloaded import Preloaded

DATA = bytes(3 << 20)


@pytest.fixture(autouse=True)
def off_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(SHOW_WORK, raising=False)
    yield
    show_work(None)


def lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What was told, without what depends on the time."""
    return [re.sub(r", [\d.]+[kMG]?B/s(, [\d:]+ left)?$", "", line) for line in capfd.readouterr().err.splitlines()]


def test_hashing_and_saving_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def passed() -> list[str]:
        files = IterableWrapper([("a.bin", io.BytesIO(DATA))], deepcopy=False)
        hashed = files.check_hash({"a.bin": hashlib.sha256(DATA).hexdigest()})
        return list(hashed.save_to_disk("wb", filepath_fn=lambda name: str(tmp_path / name)))

    assert passed() == [str(tmp_path / "a.bin")]
    assert lines(capfd) == []
    show_work(every=0)
    assert passed() == [str(tmp_path / "a.bin")]
    sizes = ["1.05MB", "2.10MB", "3.15MB"]
    saved = [f"saving {tmp_path / 'a.bin'}: {size}" for size in sizes]
    assert lines(capfd) == [f"hashing a.bin: {size}" for size in sizes] + saved
    show_work(None)
    assert passed() == [str(tmp_path / "a.bin")]
    assert lines(capfd) == []


def test_nothing_is_told_without_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    show_work(every=0)
    files = IterableWrapper([("a.bin", io.BytesIO(DATA))], deepcopy=False)
    list(files.check_hash({"a.bin": hashlib.sha256(DATA).hexdigest()}))
    assert capsys.readouterr() == ("", "")


IN_WORKERS = """
import sys
from multiprocessing import forkserver
from datapipes import show_work
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

if __name__ == "__main__":
    forkserver.ensure_running()  # its processes inherit the environment of this moment
    show_work(every=0)
    cached = IterableWrapper(["a"]).sharding_filter().on_disk_cache(filepath_fn=lambda path: f"{path}.cached")
    graph = cached.map(lambda name: (name, bytes(3 << 20))).end_caching(mode="wb", skip_read=True)
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(1, sys.argv[1])) as loader:
        assert list(loader) == ["a"]
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_caching_is_told_in_workers_too(method: str, tmp_path: Path, preloaded: Preloaded) -> None:
    program = tmp_path / "program.py"
    program.write_text(IN_WORKERS)
    ran = preloaded.ran(program, method, cwd=tmp_path, seconds=500, strict=True)
    assert (ran.code, ran.out) == (0, "")
    assert re.fullmatch(r"saving a\S*: 3.15MB, [\d.]+[kMG]?B/s\n", ran.err)


def test_downloading_is_told_with_what_is_left(capfd: pytest.CaptureFixture[str]) -> None:
    def page(handler: Handler) -> None:
        handler.send(200, DATA)

    show_work(every=0)
    with serving() as server:
        server.pages["/a.bin"] = page
        ((url, stream),) = IterableWrapper([server.url("/a.bin")]).read_from_http()
        with stream:
            assert len(stream.read()) == len(DATA)
    told = lines(capfd)
    assert told[-1] == f"downloading {url}: 3.15MB of 3.15MB (100 %)"
    assert all(line.startswith(f"downloading {url}: ") for line in told)


def test_lines_come_after_so_many_seconds(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    clock = [0.0]
    monkeypatch.setattr(long_work, "monotonic", lambda: clock[0])
    work = LongWork("hashing", "a.bin", every=10, of=40_000_000)
    for second in range(1, 31):
        clock[0] = second
        work.add(1_000_000)
    assert capfd.readouterr().err.splitlines() == [
        "hashing a.bin: 10.0MB of 40.0MB (25 %), 1.00MB/s, 00:30 left",
        "hashing a.bin: 20.0MB of 40.0MB (50 %), 1.00MB/s, 00:20 left",
        "hashing a.bin: 30.0MB of 40.0MB (75 %), 1.00MB/s, 00:10 left",
    ]


@pytest.mark.parametrize("every", [-1, "10", True, float("nan")])
def test_a_wrong_number_is_refused(every: float) -> None:
    with pytest.raises(BadArgument, match=r"show_work\(every=.*\): expected seconds, 0 or more, or None"):
        show_work(every)


def test_a_wrong_environment_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHOW_WORK, "yes")
    with pytest.raises(BadArgument, match="LOADER2_SHOW_WORK='yes': expected seconds, 0 or more"):
        list(IterableWrapper([("a", io.BytesIO())], deepcopy=False).check_hash({"a": ""}))
