"""The libraries of the extra ``fast`` change no element, no error and no state.

Every specimen reads files of realistic size, sound ones and damaged ones, with and without the extra: the elements, the
types of the errors, and the files and elements at which they are raised are the same. A state that was saved with the
extra continues without it, and the other way round. The variable that switches it off travels to worker processes.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from datapipes.graph import Pipe
from datapipes.io.fast import fast_library
from datapipes.iter import IterableWrapper
from datapipes.messages.switches import FAST
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.archive_makers import tar

ROWS = 6000
MOST_ERRORS = 3


@dataclass(frozen=True)
class FastSpecimen:
    """Files of one kind, and the graph that reads them."""

    ending: str
    make: Callable[[int], bytes]
    read: Callable[[Pipe], Pipe]
    at: tuple[float, ...] = (0.3, 0.7, 0.999)
    """Where a file is damaged, as shares of its size."""


def lines(number: int) -> bytes:
    chance = random.Random(number)
    rows = [{"id": i, "x": chance.random(), "name": f"näme {i % 97}", "tags": ["a", "b"][: i % 3]} for i in range(ROWS)]
    rows[ROWS // 2]["id"] = 2**64 + number
    rows[ROWS // 3]["x"] = float("nan")
    return b"".join(json.dumps(row, ensure_ascii=bool(i % 5)).encode() + b"\n" for i, row in enumerate(rows))


def packed_lines(number: int) -> bytes:
    return gzip.compress(lines(number))


def joined(number: int) -> bytes:
    return b"".join(map(gzip.compress, lines(number).splitlines(keepends=True)[:900]))


def packed_tar(number: int) -> bytes:
    return gzip.compress(tar(members(number)))


def members(number: int) -> dict[str, bytes]:
    chance = random.Random(number)
    sizes = [100, 40_000, 1000, 70_000, 9000, 500] * 8
    return {f"{number}-{i:03d}.bin": chance.randbytes(size // 2) + bytes(size // 2) for i, size in enumerate(sizes)}


def zipped(number: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members(number).items():
            archive.writestr(name, data)
    return file.getvalue()


def samples(number: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for i, data in enumerate(members(number).values()):
            for ending, content in (("txt.gz", gzip.compress(data.hex().encode())), ("cls", b"%d" % i)):
                member = tarfile.TarInfo(f"{i:03d}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def content(file: tuple[str, Any]) -> tuple[str, bytes]:
    path, stream = file
    return Path(path).name, stream.read()


def piece(file: tuple[str, Any]) -> tuple[str, bytes]:
    path, data = file
    return Path(path).name, data


SPECIMENS: dict[str, FastSpecimen] = {
    "lines of gzip": FastSpecimen("txt.gz", packed_lines, lambda pipe: pipe.decompress().readlines(return_path=False)),
    "joined streams": FastSpecimen("txt.gz", joined, lambda pipe: pipe.decompress().readlines(return_path=False)),
    "pieces of gzip": FastSpecimen("gz", packed_lines, lambda pipe: pipe.extract().read_from_stream(50_000).map(piece)),
    "json lines": FastSpecimen("jsonl", lines, lambda pipe: pipe.parse_jsonl(return_path=False)),
    "json of gzip": FastSpecimen("gz", packed_lines, lambda pipe: pipe.decompress().parse_jsonl(return_path=False)),
    "members of tar": FastSpecimen("tar", lambda i: tar(members(i)), lambda pipe: pipe.load_from_tar().map(content)),
    "members of tar.gz": FastSpecimen("tar.gz", packed_tar, lambda pipe: pipe.load_from_tar().map(content)),
    "in order": FastSpecimen("tar.gz", packed_tar, lambda pipe: pipe.load_from_tar("r|gz").map(content)),
    "members of zip": FastSpecimen("zip", zipped, lambda pipe: pipe.load_from_zip().map(content)),
    "decoded samples": FastSpecimen("tar", samples, lambda pipe: pipe.load_from_tar().webdataset("rgb")),
}


def damaged(data: bytes, how: str, at: float) -> bytes:
    place = int(len(data) * at)
    match how:
        case "cut":
            return data[:place]
        case "flip":
            return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        case "hole":
            return data[:place] + bytes(1000) + data[place + 1000 :]
    return data


@pytest.fixture(params=SPECIMENS)
def specimen(request: pytest.FixtureRequest) -> FastSpecimen:
    return SPECIMENS[request.param]


def graph(specimen: FastSpecimen, folder: Path, how: str = "sound", at: float = 0) -> Pipe:
    """The graph of three files, of which the second one is damaged."""
    paths = [folder / f"{i}.{specimen.ending}" for i in range(3)]
    for i, path in enumerate(paths):
        data = specimen.make(i)
        path.write_bytes(damaged(data, how, at) if i == 1 else data)
    return specimen.read(IterableWrapper([str(path) for path in paths]).open_files("rb"))


def told(stream: Iterator[Any]) -> list[str]:
    """The elements, and the types of the errors among them; it ends after some errors."""
    found: list[str] = []
    errors = 0
    while errors < MOST_ERRORS:
        try:
            found.append(repr(next(stream)))
        except StopIteration:
            break
        except Exception as error:
            errors += 1
            found.append(f"raised {type(error).__name__}")
    return found


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize("how", ["sound", "cut", "flip", "hole"])
def test_elements_and_errors_are_the_same(
    specimen: FastSpecimen, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in specimen.at if how != "sound" else (0.0,):
        pipe = graph(specimen, tmp_path, how, at)
        found = []
        for fast in "01":
            monkeypatch.setenv(FAST, fast)
            found.append(told(iter(pipe)))
        assert found[0] == found[1], f"damaged at {at}"
        assert found[0]
        assert how != "sound" or not any(each.startswith("raised") for each in found[0])


@pytest.mark.parametrize(("saved", "loaded"), ["01", "10"])
def test_a_state_moves_between_the_two(
    specimen: FastSpecimen, saved: str, loaded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = graph(specimen, tmp_path).batch(3)
    expected = list(map(repr, pipe))
    for count in (1, len(expected) // 2, len(expected) - 1):
        monkeypatch.setenv(FAST, saved)
        first: Any = iter(pipe)
        head = [repr(next(first)) for _ in range(count)]
        state = first.state_dict()
        monkeypatch.setenv(FAST, loaded)
        again: Any = iter(pipe)
        again.load_state_dict(state)
        assert head + list(map(repr, again)) == expected, f"after {count}"


def is_used(_: int) -> bool:
    return fast_library("orjson") is not None


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_workers_have_the_variable_of_the_main_process(context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for fast in "01":
        monkeypatch.setenv(FAST, fast)
        workers = MultiProcessingReadingService(num_workers=2, multiprocessing_context=context)
        pipe = IterableWrapper(range(4)).sharding_filter().map(is_used)
        with DataLoader2(pipe, reading_service=workers) as loader:
            assert list(loader) == [fast == "1"] * 4
