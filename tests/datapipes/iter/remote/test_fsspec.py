"""list_files_by_fsspec, open_files_by_fsspec, save_by_fsspec: in memory, on disk, in a zip, over http."""

from __future__ import annotations

import gzip
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import fsspec
import pytest

from datapipes import Transfer
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, CutShort, TransferError, TransferTimeout
from datapipes.iter import FSSpecFileLister, FSSpecFileOpener, FSSpecSaver, IterableWrapper
from tests.http_server import File, Handler, InTurn, Server, serving, status

QUICK = Transfer(timeout=200, deadline=500, retries=3, backoff=0)
DATA = Random(3).randbytes(700_000)


@pytest.fixture
def memory() -> Iterator[Any]:
    """A file system in memory that has nothing but a folder."""
    filesystem = fsspec.filesystem("memory")
    others = dict(filesystem.store)  # there is one for the whole process
    filesystem.store.clear()
    filesystem.pipe({"/d/a.txt": b"a\n", "/d/b.csv": b"b\n", "/d/inner/c.txt": b"c\n"})
    yield filesystem
    filesystem.store.clear()
    filesystem.store.update(others)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def test_listing_in_memory(memory: Any) -> None:
    assert list(FSSpecFileLister("memory://d")) == ["memory:///d/a.txt", "memory:///d/b.csv", "memory:///d/inner"]
    with pytest.warns(UserWarning, match=r"no file in 'memory://d' matches 'a\.txt'"):
        assert list(FSSpecFileLister("memory://d", "a.txt")) == []  # masks are for whole URLs
    assert list(FSSpecFileLister("memory://d", ["*.txt", "*.csv"])) == ["memory:///d/a.txt", "memory:///d/b.csv"]
    assert list(FSSpecFileLister("memory://d/a.txt", "no")) == ["memory://d/a.txt"]
    listed = FSSpecFileLister(["memory://d/inner", "memory://d/a.txt"])
    assert list(listed) == ["memory:///d/inner/c.txt", "memory://d/a.txt"]
    assert list(IterableWrapper(["memory://d"]).list_files_by_fsspec("*.csv")) == ["memory:///d/b.csv"]
    assert dict(listed.open_files_by_fsspec("b").map(lambda row: (row[0], row[1].read()))) == {
        "memory:///d/inner/c.txt": b"c\n",
        "memory://d/a.txt": b"a\n",
    }
    with pytest.raises(TypeError, match=r"has no len|valid length"):
        len(listed)


def test_listing_on_disk(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).touch()
    plain = [str(tmp_path / name) for name in "abc"]
    assert list(FSSpecFileLister(str(tmp_path))) == plain
    assert list(FSSpecFileLister(f"file://{tmp_path}")) == [f"file://{path}" for path in plain]
    with pytest.raises(FileNotFoundError):
        list(FSSpecFileLister(str(tmp_path / "missing")))
    with pytest.raises(TypeError, match="needs a URL, several URLs, or a pipe of URLs"):
        FSSpecFileLister(3)  # type: ignore[arg-type]  # that is the point


def test_what_is_in_a_zip_can_be_opened(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("d/a.txt", "one")
        archive.writestr("d/b.txt", "two")
    listed = FSSpecFileLister(f"zip://d::file://{tmp_path}/x.zip")
    assert [name.partition("::")[0] for name in listed] == ["zip://d/a.txt", "zip://d/b.txt"]
    assert [stream.read() for _, stream in listed.open_files_by_fsspec()] == ["one", "two"]


def test_a_zip_elsewhere(server: Server, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.bin", DATA)
    server.pages["/x.zip"] = File((tmp_path / "x.zip").read_bytes())
    [(_, stream)] = FSSpecFileOpener([f"zip://a.bin::{server.url('/x.zip')}"], "rb", transfer=QUICK)
    with stream:
        assert stream.read() == DATA


def test_opening(memory: Any) -> None:
    dp = FSSpecFileOpener(["memory://d/a.txt"] * 2)
    assert len(dp) == 2
    (_, first), (_, second) = dp
    assert (first.read(), second.readline()) == ("a\n", "a\n")  # two streams, not one
    with pytest.raises(BadArgument, match="Invalid mode 'w'"):
        FSSpecFileOpener(["x"], "w")
    with pytest.raises(TypeError, match="needs URLs as str"):
        list(IterableWrapper([3]).open_files_by_fsspec())  # type: ignore[misc]  # what is refused


def test_options_for_opening(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/z.gz", gzip.compress("ä\r\n".encode("latin-1")))
    (tmp_path / "z.gz").write_bytes(gzip.compress("ä\r\n".encode("latin-1")))
    options = {"encoding": "latin-1", "compression": "gzip", "newline": ""}
    dp = FSSpecFileOpener(["memory://z.gz", str(tmp_path / "z.gz")], kwargs_for_open=options)
    assert [stream.read() for _, stream in dp] == ["ä\r\n"] * 2


def over_http(server: Server, page: Any, transfer: Transfer = QUICK, mode: str = "rb", **options: Any) -> Any:
    server.pages["/f"] = page
    [(_, stream)] = FSSpecFileOpener([server.url("/f")], mode, kwargs_for_open=options, transfer=transfer)
    with stream:
        return stream.read()


def test_over_http(server: Server) -> None:
    assert over_http(server, File(DATA)) == DATA
    assert server.requests[-1].headers["if-match"] == '"1"'
    assert over_http(server, File(DATA), block_size=50_000) == DATA
    assert over_http(server, File(DATA, ranges=False)) == DATA
    assert over_http(server, File("ä".encode()), mode="r") == "ä"


def test_a_stream_over_http_can_be_sought(server: Server) -> None:
    server.pages["/f"] = File(DATA)
    [(_, stream)] = FSSpecFileOpener([server.url("/f")], "rb", transfer=QUICK)
    with stream:
        assert stream.seek(-5, 2) == len(DATA) - 5
        assert stream.read() == DATA[-5:]
        stream.seek(10)
        assert (stream.read(5), stream.tell()) == (DATA[10:15], 15)


def test_what_is_missing_over_http(server: Server) -> None:
    with pytest.raises(FileNotFoundError):
        over_http(server, status(404))
    assert len(server.requests) == 2  # by HEAD and by GET, and not again


@pytest.mark.parametrize("code", [503, 429])
def test_what_may_pass_is_tried_again(server: Server, code: int) -> None:
    assert over_http(server, InTurn([status(code), status(code), File(DATA)])) == DATA
    with pytest.raises(OSError, match=str(code)):
        over_http(server, status(code))


def only_get(page: Any) -> Any:
    """HEAD goes well, and GET is the page."""
    return lambda handler: (File(DATA) if handler.command == "HEAD" else page)(handler)


@pytest.mark.parametrize("options", [{}, {"block_size": 100_000}])
def test_a_body_that_breaks_is_resumed(server: Server, options: dict[str, Any]) -> None:
    assert over_http(server, only_get(File(DATA, breaks=[50_000, 50_000])), **options) == DATA
    with pytest.raises(CutShort, match=r"/f: broken off after \d+ bytes"):
        over_http(server, only_get(File(DATA, breaks=[50_000] * 9)), **options)


def test_a_file_that_changes_meanwhile_is_an_error(server: Server) -> None:
    changed = InTurn([File(DATA), File(DATA), File(DATA[::-1], etag='"2"')])
    with pytest.raises(OSError, match="it has changed since it was opened"):
        over_http(server, changed, block_size=100_000)


def test_a_file_that_shrinks_meanwhile_is_an_error(server: Server) -> None:
    short = InTurn([File(DATA, etag=None), File(DATA, etag=None), File(DATA[:150_000], etag=None)])
    with pytest.raises(TransferError, match=r"ended after \d+ of 700000 bytes"):
        over_http(server, short, block_size=100_000)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_stream_cut_short_is_an_error(server: Server, chunked: bool) -> None:
    page = only_get(File(DATA, breaks=[300_000] * 9, chunked=chunked))
    with pytest.raises(CutShort, match="broken off"):
        over_http(server, page, block_size=0)


def stalling(handler: Handler) -> None:
    handler.stall()


@pytest.mark.parametrize("page", [stalling, only_get(stalling), only_get(File(DATA, breaks=[50_000] * 9, stalls=True))])
def test_a_stall_ends(server: Server, page: Any) -> None:
    with pytest.raises(OSError, match=r"(?i)/f|timeout"):
        over_http(server, page, Transfer(timeout=0.2, deadline=20, retries=1, backoff=0))


@pytest.mark.parametrize("page", [stalling, only_get(File(DATA, drips=True))])
def test_a_deadline_ends_what_drips_and_what_stalls(server: Server, page: Any) -> None:
    with pytest.raises(TransferTimeout, match=r"/f: not read within deadline=0\.5 seconds"):
        over_http(server, page, Transfer(timeout=10, deadline=0.5, retries=1, backoff=0))


def test_a_listing_that_stalls_ends(server: Server) -> None:
    server.pages["/d/"] = stalling
    with pytest.raises(TransferTimeout, match=r"not read within deadline=0\.3"):
        list(FSSpecFileLister(server.url("/d/"), transfer=Transfer(timeout=10, deadline=0.3)))


def test_saving(memory: Any, tmp_path: Path) -> None:
    pairs = IterableWrapper([("x", "ä\n"), ("y", "")])
    dp = pairs.save_by_fsspec(filepath_fn=lambda name: f"memory://out/{name}")
    assert isinstance(dp, FSSpecSaver)
    assert len(dp) == 2
    assert list(dp) == ["memory://out/x", "memory://out/y"]
    assert (memory.cat("/out/x"), memory.cat("/out/y")) == ("ä\n".encode(), b"")
    path = f"{tmp_path}/new/folder/x.gz"
    options = {"encoding": "latin-1", "newline": "\r\n", "compression": "infer"}
    assert list(IterableWrapper([(path, "ä\n")]).save_by_fsspec("w", kwargs_for_open=options)) == [path]
    assert gzip.decompress(Path(path).read_bytes()) == "ä\r\n".encode("latin-1")
    assert [p.name for p in Path(path).parent.iterdir()] == ["x.gz"]


def test_streams_and_pieces_are_saved(memory: Any) -> None:
    stream = StreamWrapper(io.BytesIO(b"one"))
    pairs = IterableWrapper([("memory://out/x", stream), ("memory://out/y", [b"t", b"wo"])], deepcopy=False)
    assert [memory.cat(url) for url in pairs.save_by_fsspec("wb")] == [b"one", b"two"]
    assert stream.closed


@pytest.mark.parametrize("place", ["memory://out", "{tmp}"])
def test_appending(memory: Any, tmp_path: Path, place: str) -> None:
    url = place.format(tmp=tmp_path) + "/log"
    assert list(IterableWrapper([(url, b"a"), (url, b"b")]).save_by_fsspec("ab")) == [url, url]
    with fsspec.open(url) as file:
        assert file.read() == b"ab"


def test_what_cannot_be_saved_changes_nothing(memory: Any, tmp_path: Path) -> None:
    for url in ("memory://d/a.txt", f"{tmp_path}/a.txt"):
        list(IterableWrapper([(url, "old")]).save_by_fsspec())
        for mode, data in (("w", b"new"), ("wb", "new"), ("wb", 5), ("w", "\ud800")):
            with pytest.raises((TypeError, UnicodeEncodeError)):
                list(IterableWrapper([(url, data)]).save_by_fsspec(mode))
        with fsspec.open(url) as file:
            assert file.read() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(BadArgument, match="Invalid mode 'r'"):
        IterableWrapper([]).save_by_fsspec("r")
    with pytest.raises(TypeError, match="callable"):
        IterableWrapper([]).save_by_fsspec("w", "name")  # type: ignore[arg-type]  # that is the point


def test_files_are_opened_by_many_threads_at_once(server: Server) -> None:
    server.pages["/f"] = File(DATA)
    found: list[bytes] = []

    def read() -> None:
        found.extend(s.read() for _, s in FSSpecFileOpener([server.url("/f")] * 2, "rb", transfer=QUICK))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert [hash(data) for data in found] == [hash(DATA)] * 8
