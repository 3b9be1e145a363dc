"""Streams that wait in a buffer are saved as where they came from, and opened again there, and nowhere else."""

from __future__ import annotations

import copy
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import fsspec
import pytest

from datapipes import elements
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import StateError, UnsavableElement
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, ReadingServiceInterface, ThreadingReadingService
from tests.archive_makers import COMPRESSIONS, SAMPLES, tar
from tests.specimens.specimen import Countable


def contents(sample: dict[str, Any]) -> dict[str, Any]:
    return {key: value if key == "__key__" else value.read() for key, value in sample.items()}


def read(file: tuple[str, Any]) -> tuple[str, Any]:
    return file[0], file[1].read()


def shards(folder: Path, number: int = 3) -> list[str]:
    paths = [folder / f"{i}.tar{['', '.gz'][i % 2]}" for i in range(number)]
    for i, path in enumerate(paths):
        packed = tar({f"{i}/{name}": bytes(str(i), "ascii") + data for name, data in SAMPLES.items()})
        path.write_bytes(COMPRESSIONS["gz"](packed) if path.suffix == ".gz" else packed)
    return list(map(str, paths))


def samples(paths: Any) -> IterDataPipe[Any]:
    return IterableWrapper(paths).open_files("rb").load_from_tar().webdataset().shuffle(buffer_size=4).map(contents)


Service = Callable[[], ReadingServiceInterface | None]


@pytest.mark.parametrize(
    "make", [lambda: None, lambda: MultiProcessingReadingService(2), lambda: ThreadingReadingService(2)]
)
def test_samples_that_wait_are_opened_again_and_the_epoch_goes_on(make: Service, tmp_path: Path) -> None:
    graph = samples(shards(tmp_path, 4)) if make() is None else sharded(shards(tmp_path, 4))
    with DataLoader2(graph, reading_service=make()) as loader:
        loader.seed(3)
        whole = list(loader)
    for k in (1, 2, len(whole) // 2, len(whole) - 1):
        with DataLoader2(graph, reading_service=make()) as loader:
            loader.seed(3)
            iterator = iter(loader)
            assert [next(iterator) for _ in range(k)] == whole[:k]
            state = loader.state_dict()
            assert list(iterator) == whole[k:]
        with DataLoader2(graph, reading_service=make()) as again:
            again.load_state_dict(state)
            assert list(again) == whole[k:]


def sharded(paths: list[str]) -> IterDataPipe[Any]:
    opened = IterableWrapper(paths).sharding_filter().open_files("rb").load_from_tar()
    return opened.webdataset().shuffle(buffer_size=4).map(contents)


def test_nothing_is_decoded_again_with_workers(tmp_path: Path) -> None:
    decoded = tmp_path / "decoded"
    graph = sharded(shards(tmp_path, 4)).map(Noting(str(decoded)))
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(1)) as loader:
        loader.seed(3)
        number = len(list(loader))
        iterator = iter(loader)
        for _ in range(number - 1):
            next(iterator)
        state = loader.state_dict()
    decoded.write_text("")
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(1)) as again:
        again.load_state_dict(state)
        assert len(list(again)) == 1
    assert len(decoded.read_text()) < number  # and not all of the epoch once more


class Noting:
    """Hands on elements, and notes one letter for each in a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, element: Any) -> Any:
        until = (
            process_time() + 0.002
        )  # as long as decoding takes: a position has to be paid for before it is looked at
        while process_time() < until:
            pass
        with open(self.path, "a") as file:
            file.write("x")
        return element


def resumed(graph: Callable[[], IterDataPipe[Any]], take: int, state: dict[str, Any] | None = None) -> list[Any]:
    """Elements after some, by an iterator that is loaded from the state of another one."""
    iterator: Any = iter(graph())
    for _ in range(take):
        next(iterator)
    again: Any = iter(graph())
    again.load_state_dict(iterator.state_dict() if state is None else state)
    return list(again)


def test_archives_in_archives_in_compressed_files(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("deep.tar", tar({"a.txt": b"a" * 9, "b.txt": b"b" * 9, "c.txt": b"c" * 9}))
    path = tmp_path / "outer.zip.gz"
    path.write_bytes(COMPRESSIONS["gz"](inner.getvalue()))

    def graph() -> IterDataPipe[Any]:
        opened = IterableWrapper(Countable(str(path))).open_files("rb").decompress()
        return opened.load_from_zip().load_from_tar().map(begun).batch(2).unbatch().map(read)

    whole = list(graph())
    assert [data for _, data in whole] == [b"a" * 6, b"b" * 6, b"c" * 6]
    for k in range(3):
        assert resumed(graph, k) == whole[k:]


def begun(file: tuple[str, Any]) -> tuple[str, Any]:
    assert len(file[1].read(3)) == 3
    return file


def test_files_of_fsspec_are_opened_again_with_the_graphs_own_options(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode() * 5)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in "de":
            archive.writestr(name, name * 5)
    urls = [f"file://{tmp_path}/{name}" for name in "abc"] + [
        f"zip://{name}::file://{tmp_path}/all.zip" for name in "de"
    ]
    for mode in ("rb", "r"):

        def graph(mode: str = mode) -> IterDataPipe[Any]:
            return IterableWrapper(urls).open_files_by_fsspec(mode).map(begun).filter(bool).batch(3).unbatch().map(read)

        whole = list(graph())
        for k in range(5):
            assert resumed(graph, k) == whole[k:]


def test_what_is_in_memory_is_saved_as_it_is() -> None:
    fsspec.filesystem("memory").pipe("/waits/a.txt", b"of memory")
    files = [("b", io.BytesIO(b"bytes")), ("t", io.StringIO("text")), ("w", StreamWrapper(io.BytesIO(b"w"), name="n"))]

    def graph() -> IterDataPipe[Any]:
        waits = IterableWrapper(["memory://waits/a.txt"]).open_files_by_fsspec("rb")
        given = IterableWrapper(Countable(*files)).map(
            lambda file: (file[0], copy.copy(file[1]) if file[0] != "w" else file[1])
        )
        return waits.concat(given).batch(4).unbatch().map(read)

    assert [data for _, data in resumed(graph, 0)] == [b"of memory", b"bytes", "text", b"w"]


def waiting(paths: list[str]) -> IterDataPipe[Any]:
    return IterableWrapper(paths).open_files("rb").load_from_tar().webdataset().shuffle(buffer_size=4)


def place_and_state(paths: list[str]) -> tuple[int, dict[str, Any]]:
    iterator: Any = iter(waiting(paths))
    next(iterator)
    state = iterator.state_dict()
    (place,) = [place for place, cell in state["cells"].items() if isinstance(cell, dict) and "elements" in cell]
    return place, state


def test_the_files_of_a_loaded_position_are_closed_with_it(tmp_path: Path) -> None:
    _, state = place_and_state(shards(tmp_path))
    before = set(os.listdir("/proc/self/fd"))
    again: Any = iter(waiting(shards(tmp_path)))
    again.load_state_dict(state)
    assert set(os.listdir("/proc/self/fd")) > before
    again.close()
    assert set(os.listdir("/proc/self/fd")) == before


class Forged:
    """Stands for the graph when a hostile state is written: it knows everything."""

    def knows(self, origin: Any) -> bool:
        return True

    def open(self, origin: Any, name: Any, at: Any) -> StreamWrapper:
        raise NotImplementedError

    def close(self) -> None:
        pass


def forged(origin: Any, at: int = 0) -> bytes:
    """A packed buffer of one stream of any origin."""
    stream = StreamWrapper(io.BufferedReader(io.BytesIO(bytes(at + 1))))
    stream.seek(at)
    stream.origin = origin
    return elements.encode([{"__key__": "a", ".x": stream}], what="", places=Forged())


def test_a_hostile_state_opens_nothing_that_the_graph_does_not(tmp_path: Path) -> None:
    paths = shards(tmp_path)
    place, state = place_and_state(paths)
    size = os.stat(paths[0]).st_size
    (tmp_path / "secret").write_bytes(bytes(10))
    os.mkfifo(tmp_path / "fifo")
    archive = ("1 FileOpener", (paths[0], size), None)
    nested: Any = archive
    for _ in range(100):
        nested = ("2 TarArchiveLoader", ("a", 0, 0), nested)
    hostile: dict[str, Any] = {
        "reads no path '/etc/passwd'": ("1 FileOpener", ("/etc/passwd", os.stat("/etc/passwd").st_size), None),
        "reads no path '.*secret'": ("1 FileOpener", (str(tmp_path / "secret"), 10), None),
        "reads no path '.*fifo'": ("1 FileOpener", (str(tmp_path / "fifo"), 0), None),
        "opens no stream of": ("1 FileOpener", (0, 1), None),
        "it has changed since the state was saved": ("1 FileOpener", (paths[0], size + 1), None),
        "the stage '7 FileOpener', which is not in this graph": ("7 FileOpener", (paths[0], size), None),
        "the stage 'os.system'": ("os.system", ("ls", 0), None),
        "does not read its streams from None": ("2 TarArchiveLoader", ("a", 0, 0), None),
        "does not read its streams from .'1 File": ("1 FileOpener", (paths[0], size), archive),
        "no origin of a stream": nested,
    }
    for message, origin in hostile.items():
        cell = state["cells"][place]
        bad = {**state, "cells": {**state["cells"], place: {**cell, "elements": forged(origin), "left": 1}}}
        before = set(os.listdir("/proc/self/fd"))
        again: Any = iter(waiting(paths))
        with pytest.raises(StateError, match=message):
            again.load_state_dict(sealed(bad))
        again.close()
        assert set(os.listdir("/proc/self/fd")) == before
    # A member that is not where the state says is only a piece of the same archive, or an error when it is read.
    bad["cells"][place]["elements"] = forged(("2 TarArchiveLoader", ("m", 10**9, 5), archive))
    again = iter(waiting(paths))
    again.load_state_dict(sealed(bad))
    (piece,) = [sample[".x"] for sample in again if ".x" in sample]
    with pytest.raises(ValueError, match="cut short"):
        piece.read()


def test_paths_that_a_function_makes_are_looked_up_too(tmp_path: Path) -> None:
    paths = shards(tmp_path)

    def graph() -> IterDataPipe[Any]:
        made = IterableWrapper(range(3)).map(paths.__getitem__).shuffle().sharding_filter()
        return made.open_files("rb").load_from_tar().filter(bool).shuffle(buffer_size=40).map(read)

    iterator: Any = iter(graph())
    next(iterator)
    state = iterator.state_dict()
    assert resumed(graph, 0, state) == list(iterator)
    os.remove(paths[1])
    with pytest.raises(StateError, match=r"opened of '.*1\.tar\.gz.*' cannot be opened again: FileNotFoundError"):
        resumed(graph, 0, state)


def test_bytes_that_hold_streams_are_refused_without_a_graph() -> None:
    with pytest.raises(StateError, match="only the graph that opened them can open again"):
        elements.decode(forged(("1 FileOpener", ("a", 1), None)), what="the state")


class Opening(IterDataPipe[Any]):
    """A user's class that opens files by itself."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __iter__(self) -> Iterator[Any]:
        for path in self.paths:
            with open(path, "rb") as file:
                yield path, file


def test_streams_of_nobody_knows_where_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    Path(path).write_text("text\nmore\n")
    graphs = [
        Opening([path, path]).shuffle(),
        IterableWrapper(Countable(path, path)).open_files().map(next_line).shuffle(),
    ]
    for graph in graphs:
        iterator: Any = iter(graph)
        next(iterator)
        with pytest.raises(UnsavableElement, match=r"read it in a map\(\) before this stage"):
            iterator.state_dict()


def next_line(file: tuple[str, Any]) -> Any:
    """The rest of a text whose lines are being iterated, which does not know where it is."""
    next(file[1])
    return file


class Opened:
    """A user's function that opens a file by itself."""

    def __call__(self, path: str) -> tuple[str, StreamWrapper]:
        return path, StreamWrapper(open(path, "rb"), name=path)


@pytest.mark.parametrize(
    "make", [lambda: None, lambda: MultiProcessingReadingService(1), lambda: ThreadingReadingService(1)]
)
def test_what_cannot_be_saved_is_said_at_the_first_element(make: Service, tmp_path: Path) -> None:
    paths = shards(tmp_path, 4)
    opened = IterableWrapper(Countable(*paths)).sharding_filter().map(Opened()).shuffle(buffer_size=2)
    with DataLoader2(opened.map(read), reading_service=make()) as loader:
        iterator = iter(loader)
        with pytest.warns(UserWarning, match=r"buffered by \.shuffle.* an open file that no stage of this graph can"):
            next(iterator)
        assert len(list(iterator)) == 3
        assert len(list(loader)) == 4


def test_it_is_said_of_a_buffer_above_a_thread_too(tmp_path: Path) -> None:
    opened = IterableWrapper(Countable(*shards(tmp_path))).map(Opened()).shuffle(buffer_size=2)
    iterator = iter(DataLoader2(opened.map(read).prefetch(1)))
    with pytest.warns(UserWarning, match=r"buffered by \.shuffle"):
        next(iterator)
    assert len(list(iterator)) == 2
