"""open_files opens a stream for each path, and an iteration that is left half-way leaves no file open."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument
from datapipes.iter import FileLister, FileOpener, IterableWrapper
from tests.datapipes.iter.mishaps import outcomes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abcdef":
        (tmp_path / f"{name}.csv").write_text(f"{name},1\n{name},2\n{name},3\n")
    return tmp_path


def test_a_path_and_its_stream(folder: Path) -> None:
    path = str(folder / "a.csv")
    dp = IterableWrapper([path]).open_files()
    assert isinstance(dp, FileOpener)
    for _ in range(2):
        [(name, stream)] = dp
        assert isinstance(stream, StreamWrapper)
        assert (name, stream.read()) == (path, "a,1\na,2\na,3\n")
    assert list(IterableWrapper([]).open_files()) == []


@pytest.mark.parametrize(("mode", "kind"), [("r", str), ("t", str), ("rt", str), ("b", bytes), ("rb", bytes)])
def test_modes(folder: Path, mode: str, kind: type) -> None:
    [(_, stream)] = IterableWrapper([str(folder / "a.csv")]).open_files(mode)
    assert type(stream.read()) is kind


def test_encoding(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("ä".encode("latin-1"))
    [(_, stream)] = IterableWrapper([str(tmp_path / "x")]).open_files(encoding="latin-1")
    assert stream.read() == "ä"


@pytest.mark.parametrize("mode", ["w", "a", "r+", ""])
def test_a_mode_that_is_not_for_reading_is_refused_with_the_call(mode: str) -> None:
    with pytest.raises(
        BadArgument, match=rf"Invalid mode '{mode}'.*, in \.open_files\(mode='{mode}'\)".replace("+", r"\+")
    ):
        IterableWrapper(["x"]).open_files(mode)


@pytest.mark.parametrize("mode", ["b", "rb"])
def test_a_binary_file_has_no_encoding(mode: str) -> None:
    with pytest.raises(BadArgument, match="a binary file has no encoding"):
        IterableWrapper(["x"]).open_files(mode, encoding="utf-8")


def test_length() -> None:
    dp = IterableWrapper(["x"]).open_files()
    with pytest.raises(TypeError, match=r"^FileOpener instance doesn't have valid length: \.open_files\(\)"):
        len(dp)
    assert len(IterableWrapper(["x"]).open_files(length=7)) == 7


def test_a_path_that_is_no_text_costs_its_own_element_only(folder: Path) -> None:
    paths: list[Any] = [np.str_(folder / "a.csv"), folder / "b.csv", None, str(folder / "c.csv")]
    first, second, third, last = outcomes(IterableWrapper(paths).open_files())
    with first[1], last[1]:
        assert (first[1].readline(), last[1].readline()) == ("a,1\n", "c,1\n")
    assert "open_files() needs paths as str, got PosixPath" in second
    assert "open_files() needs paths as str, got NoneType: None" in third


def test_a_file_that_is_missing_costs_its_own_element_only(folder: Path) -> None:
    paths = [str(folder / name) for name in ("a.csv", "missing.csv", "b.csv")]
    first, error, last = outcomes(IterableWrapper(paths).open_files())
    with first[1], last[1]:
        assert (first[0], last[0]) == (paths[0], paths[2])
    assert error.startswith("FileNotFoundError: [Errno 2]")
    assert "missing.csv" in error


def unzipped(dp: Any) -> Any:
    _, streams = dp.unzip(2)
    return streams


def forked(dp: Any) -> Any:
    a, b = dp.fork(2)
    return a.zip(b)


def unevenly_forked(dp: Any) -> Any:
    a, b = dp.fork(2)
    return a.header(3).concat(b)


def demultiplexed(dp: Any) -> Any:
    first, rest = dp.demux(2, lambda row: int("a.csv" not in row[0]))
    return rest.concat(first)


LEFT_HALF_WAY: dict[str, Callable[[Any], Any]] = {
    "open_files": lambda dp: dp,
    "map": lambda dp: dp.map(lambda row: row),
    "filter": lambda dp: dp.filter(lambda row: "b.csv" not in row[0]),
    "readlines": lambda dp: dp.readlines(),
    "parse_csv": lambda dp: dp.parse_csv(),
    "parse_csv_as_dict": lambda dp: dp.parse_csv_as_dict(return_path=True),
    "lines, shuffled": lambda dp: dp.readlines().shuffle(buffer_size=4),
    "lines in cycles": lambda dp: dp.readlines().cycle(2),
    "shuffle": lambda dp: dp.shuffle(buffer_size=3),
    "batch": lambda dp: dp.batch(2),
    "tuples": lambda dp: dp.batch(2, wrapper_class=tuple),
    "repeat": lambda dp: dp.repeat(2),
    "header": lambda dp: dp.header(4),
    "cycle": lambda dp: dp.cycle(2),
    "prefetch": lambda dp: dp.prefetch(2),
    "lines, prefetched": lambda dp: dp.readlines().prefetch(2),
    "zip": lambda dp: dp.zip(dp),
    "zip_longest": lambda dp: dp.zip_longest(dp.header(2)),
    "mux": lambda dp: dp.mux(dp),
    "concat": lambda dp: dp.concat(dp),
    "sharding_filter": lambda dp: dp.sharding_filter(),
    "fork": forked,
    "fork, unevenly": unevenly_forked,
    "demux": demultiplexed,
    "unzip": unzipped,
    "flatmap": lambda dp: dp.flatmap(lambda row: [row, row]),
}


@pytest.fixture
def open_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """The names of the streams that are open now, without the help of the garbage collector."""
    known: WeakKeyDictionary[StreamWrapper, str | None] = WeakKeyDictionary()
    monkeypatch.setattr(StreamWrapper, "debug_unclosed_streams", True)
    monkeypatch.setattr(StreamWrapper, "session_streams", known)
    gc.collect()
    gc.disable()
    yield lambda: sorted(map(str, known.values()))
    gc.enable()


@pytest.mark.parametrize("taken", [1, 2, 3])
@pytest.mark.parametrize("name", LEFT_HALF_WAY)
def test_what_is_left_half_way_is_closed_at_once(
    name: str, taken: int, folder: Path, open_streams: Callable[[], list[str]]
) -> None:
    it: Any = iter(LEFT_HALF_WAY[name](FileLister(folder).open_files()))
    for _ in range(taken):
        next(it)
    del it
    assert open_streams() == []


def test_a_stream_that_somebody_holds_outlives_the_iteration(folder: Path) -> None:
    a, b = FileLister(folder).open_files().fork(2)
    it = iter(a.header(2).concat(b))
    held = [next(it), next(it)]  # the same two wait for the other child
    del it
    assert [stream.readline() for _, stream in held] == ["a,1\n", "b,1\n"]


def test_at_the_end_every_file_is_closed(folder: Path, open_streams: Callable[[], list[str]]) -> None:
    assert len(list(FileLister(folder).open_files().readlines())) == 18
    assert open_streams() == []


def test_one_file_is_open_at_a_time(folder: Path, open_streams: Callable[[], list[str]]) -> None:
    for path, _ in FileLister(folder).open_files().readlines():
        assert open_streams() == [path]
