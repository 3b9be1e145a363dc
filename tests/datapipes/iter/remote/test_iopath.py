"""list_files_by_iopath, open_files_by_iopath, save_by_iopath, with handlers of iopath and of ours."""

from __future__ import annotations

import io
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from iopath.common.file_io import NativePathHandler, PathHandler, PathManager

from datapipes import Transfer
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType, LockTimeout
from datapipes.iter import IoPathFileLister, IoPathFileOpener, IoPathSaver, IterableWrapper
from datapipes.iter.files.locks import locked
from tests.datapipes.iter.files.killed import PATIENCE
from tests.http_server import File, InTurn, serving, status

QUICK = Transfer(timeout=200, deadline=500, retries=2, backoff=0)


class Catalog(PathHandler):  # type: ignore[misc]  # iopath is not looked into
    """A handler of a user's: catalog://x is a file of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def _get_supported_prefixes(self) -> list[str]:
        return ["catalog://"]

    def _at(self, path: str) -> Path:
        return self.folder / path.removeprefix("catalog://")

    def _isfile(self, path: str, **_: Any) -> bool:
        return self._at(path).is_file()

    def _exists(self, path: str, **_: Any) -> bool:
        return self._at(path).exists()

    def _ls(self, path: str, **_: Any) -> list[str]:
        return [found.name for found in self._at(path).iterdir()]

    def _open(self, path: str, mode: str = "r", buffering: int = -1, **_: Any) -> Any:
        return self._at(path).open(mode)

    def _mv(self, src_path: str, dst_path: str, **_: Any) -> bool:
        self._at(src_path).rename(self._at(dst_path))
        return True

    def _rm(self, path: str, **_: Any) -> None:
        self._at(path).unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text(f"in {name}\n")
    return tmp_path


def test_listing(folder: Path) -> None:
    assert list(IoPathFileLister(str(folder))) == [f"{folder}/{name}" for name in ("a.txt", "b.txt", "c.csv")]
    assert list(IoPathFileLister([str(folder), str(folder / "c.csv")], "a*")) == [f"{folder}/a.txt", f"{folder}/c.csv"]
    with pytest.raises(FileNotFoundError):
        list(IoPathFileLister(str(folder / "missing")))
    with pytest.raises(TypeError):
        len(IoPathFileLister(str(folder)))


def test_opening(folder: Path) -> None:
    dp = IoPathFileOpener([f"{folder}/a.txt", f"{folder}/b.txt"], "rb")
    assert len(dp) == 2
    assert [(path, stream.read()) for path, stream in dp] == [
        (f"{folder}/a.txt", b"in a.txt\n"),
        (f"{folder}/b.txt", b"in b.txt\n"),
    ]
    assert list(IterableWrapper([f"{folder}/a.txt"]).open_files_by_iopath().readlines(return_path=False)) == [
        "in a.txt"
    ]
    with pytest.raises(BadArgument, match="Invalid mode 'w'"):
        IoPathFileOpener([], "w")


@pytest.mark.parametrize("given", ["handler", "pathmgr", "registered"])
def test_handlers(folder: Path, given: str) -> None:
    manager = PathManager()
    if given == "pathmgr":
        manager.register_handler(Catalog(folder))
    options = {"handler": {"handler": Catalog(folder)}, "pathmgr": {"pathmgr": manager}, "registered": {}}[given]
    pipes: list[Any] = [
        IoPathFileLister("catalog://", **options),
        IterableWrapper(["catalog://a.txt"]).open_files_by_iopath(**options),
        IterableWrapper([("catalog://new", "text"), ("catalog://new", "later")]).save_by_iopath(**options),
    ]
    if given == "registered":
        for pipe in pipes:
            pipe.register_handler(Catalog(folder))
            with pytest.raises(KeyError, match="already registered"):
                pipe.register_handler(Catalog(folder))
    listed, opened, saved = pipes
    assert list(listed) == ["catalog://a.txt", "catalog://b.txt", "catalog://c.csv"]
    assert [stream.read() for _, stream in opened] == ["in a.txt\n"]
    assert list(saved) == ["catalog://new"] * 2
    assert (folder / "new").read_text() == "text"
    assert {path.name for path in folder.iterdir()} == {"a.txt", "b.txt", "c.csv", "new"}
    assert list(pickle.loads(pickle.dumps(listed))) == list(listed)


def test_the_native_handler_is_there_already() -> None:
    with pytest.raises(ValueError, match="NativePathHandler"):
        IoPathFileLister(".").register_handler(NativePathHandler())


def test_saving(tmp_path: Path) -> None:
    dp = IterableWrapper([("x", b"one"), ("y", b"two")]).save_by_iopath("wb", lambda name: f"{tmp_path}/new/{name}")
    assert isinstance(dp, IoPathSaver)
    assert len(dp) == 2
    assert list(dp) == [f"{tmp_path}/new/x", f"{tmp_path}/new/y"]
    assert (tmp_path / "new/x").read_bytes() == b"one"
    again = IterableWrapper([("x", b"other")]).save_by_iopath("wb", lambda name: f"{tmp_path}/new/{name}")
    assert list(again) == [f"{tmp_path}/new/x"]
    assert (tmp_path / "new/x").read_bytes() == b"one"  # what is there stays
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"x", "y"}


def test_a_path_that_begins_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert list(IterableWrapper([("~/x", "text")]).save_by_iopath()) == ["~/x"]
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["home", "home/x"]


def test_two_who_save_one_file_wait_for_each_other(tmp_path: Path) -> None:
    source = IterableWrapper([(f"{tmp_path}/x", "text")])
    with locked(f"{tmp_path}/x", 0), ThreadPoolExecutor() as pool:
        impatient = source.save_by_iopath(transfer=Transfer(deadline=0.01))
        assert isinstance(pool.submit(list, impatient).exception(PATIENCE), LockTimeout)
    assert list(source.save_by_iopath()) == [f"{tmp_path}/x"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_iopath_is_needed_for_its_handlers_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "iopath.common.file_io", None)
    (opened,) = IoPathFileLister(str(folder), "a*").open_files_by_iopath().readlines(return_path=False)
    assert opened == "in a.txt"
    with pytest.raises(ModuleNotFoundError, match=r"list_files_by_iopath\(\) needs the package `iopath`"):
        IoPathFileLister(str(folder), handler=1)


def test_what_cannot_be_saved_leaves_nothing(tmp_path: Path) -> None:
    for data, reason in (("text", "use mode 'w'"), (5, "a file cannot be made of int")):
        with pytest.raises(BadArgumentType, match=reason):
            list(IterableWrapper([(f"{tmp_path}/x", data)]).save_by_iopath("wb"))
    assert not list(tmp_path.iterdir())


def test_streams_and_pieces_are_saved(tmp_path: Path) -> None:
    stream = StreamWrapper(io.BytesIO(b"one"))
    pairs = IterableWrapper([(f"{tmp_path}/x", stream), (f"{tmp_path}/y", [b"t", b"wo"])], deepcopy=False)
    assert [Path(path).read_bytes() for path in pairs.save_by_iopath("wb")] == [b"one", b"two"]
    assert stream.closed


def test_over_http_under_the_one_policy() -> None:
    with serving() as server:
        server.pages["/f"] = InTurn([status(503), File(b"one\ntwo", breaks=[5]), File(b"one\ntwo")])
        dp = IterableWrapper([server.url("/f")])
        assert [stream.read() for _, stream in dp.open_files_by_iopath(transfer=QUICK)] == ["one\ntwo"]
        assert list(IoPathFileLister(server.url("/f"))) == [server.url("/f")]
        server.pages["/f"] = lambda handler: handler.stall()
        with pytest.raises(OSError, match=r"(?i)timeout"):
            list(dp.open_files_by_iopath(transfer=Transfer(timeout=0.2, retries=0)))


@pytest.mark.parametrize("mode", ["a", "at"])
def test_saving_appends_to_no_file_that_is_there(tmp_path: Path, mode: str) -> None:
    for data in ("one", "two"):
        assert list(IterableWrapper([(f"{tmp_path}/x", data)]).save_by_iopath(mode)) == [f"{tmp_path}/x"]
    assert list(IterableWrapper([(f"{tmp_path}/y", b"bytes")]).save_by_iopath("ab")) == [f"{tmp_path}/y"]
    assert ((tmp_path / "x").read_text(), (tmp_path / "y").read_bytes()) == ("one", b"bytes")
    with pytest.raises(BadArgument, match="Invalid mode 'r': choose one of w, wt, wb, a, at, ab"):
        IterableWrapper([("x", "one")]).save_by_iopath("r")
