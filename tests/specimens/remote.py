"""Specimens of the operators that read from elsewhere, and write there."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

from datapipes import Transfer
from datapipes.graph import Pipe
from datapipes.iter import FSSpecFileLister, HuggingFaceHubReader, IoPathFileLister, IterableWrapper
from tests.specimens.files import CSV, name_of
from tests.specimens.server import FILES, address
from tests.specimens.specimen import Specimen, Tap, folder, paths, shuffled

AT_ONCE = Transfer(timeout=200, deadline=500, retries=1, backoff=0)
NAMES = list(FILES)
TWICE = NAMES + NAMES


@cache
def memory() -> str:
    """A folder in memory with the specimens' files."""
    import fsspec

    for name, data in FILES.items():
        fsspec.filesystem("memory").pipe(f"/specimens/{name}", data)
    return "memory://specimens"


def urls(start: str, *names: str) -> Pipe:
    return IterableWrapper([f"{start}/{name}" for name in names or NAMES])


def web(*names: str) -> Pipe:
    return urls(f"{address()}/files", *names)


def s3(*names: str) -> Pipe:
    address()
    return urls("s3://bucket/data", *names)


def ais(*names: str) -> Pipe:
    return urls("ais://bucket", *names)


@cache
def scratch() -> Path:
    """A folder for what is written; it goes when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="specimens-written-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def target(start: str, name: Any) -> str:
    return f"{start}/{name}.txt"


def line(number: int) -> tuple[int, str]:
    return number, f"number {number}"


def numbered(tap: Tap) -> Pipe:
    return tap(IterableWrapper(range(5))).map(tap.function(line))


def forked_rows(tap: Tap) -> Pipe:
    a, b = tap(urls(memory())).open_files_by_fsspec().parse_csv().fork(2)
    return a.batch(3).mux(b)


@cache
def rows() -> str:
    """A file of rows as Hugging Face's data sets read them."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HOME", str(scratch() / "huggingface"))
    path = scratch() / "rows.jsonl"
    path.write_text("".join(json.dumps({"x": x, "y": str(x)}) + "\n" for x in range(6)))
    return str(path)


def hub(**options: Any) -> Pipe:
    return HuggingFaceHubReader("json", data_files=rows(), split="train", **options)


hub_specimen = partial(Specimen, "iter.HuggingFaceHubReader", stops=(0, 1, 4, 6))
OF_THE_WEB = {
    "iter.read_from_http": lambda source, **options: source.read_from_http(**options),
    "iter.read_from_gdrive": lambda source, **options: source.read_from_gdrive(**options),
    "iter.read_from_remote": lambda source, **options: source.read_from_remote(**options),
}


def of_the_web(operator: str) -> list[Specimen]:
    read = partial(OF_THE_WEB[operator], transfer=AT_ONCE)
    return [
        Specimen(operator, "streams", lambda tap: read(tap(web()))),
        shuffled(
            operator,
            "shuffled, rows shuffled",
            lambda tap: read(tap(web()).shuffle()).parse_csv().shuffle(buffer_size=3),
            stops=(0, 2, 5, 6),
        ),
        Specimen(operator, "prefetched", lambda tap: read(tap(web("a.csv", "c.csv"))).prefetch(2).readlines()),
        shuffled(
            operator,
            "streams shuffled",
            lambda tap: read(tap(web(*TWICE))).shuffle(buffer_size=3).readlines(),
            stops=(0, 2, 5, 6),
        ),
        Specimen(operator, "ahead", lambda tap: read(tap(web(*TWICE)), ahead=3).readlines(), stops=(0, 1, 4, 9)),
        shuffled(
            operator,
            "shuffled, ahead",
            lambda tap: read(tap(web(*TWICE)).shuffle(), ahead=2, ahead_bytes=4).parse_csv(),
            stops=(0, 2, 5, 6),
        ),
    ]


REMOTE = [
    Specimen("iter.list_files_by_fsspec", "memory", lambda tap: FSSpecFileLister([memory(), memory()], "*.csv")),
    Specimen(
        "iter.list_files_by_fsspec",
        "of folders, files, and folders in them",
        lambda tap: tap(paths("inner", "a.csv", "inner")).list_files_by_fsspec().map(name_of),
    ),
    shuffled(
        "iter.list_files_by_fsspec",
        "shuffled and read",
        lambda tap: FSSpecFileLister(memory()).shuffle().open_files_by_fsspec().readlines().shuffle(buffer_size=3),
    ),
    Specimen("iter.open_files_by_fsspec", "text", lambda tap: tap(urls(memory())).open_files_by_fsspec()),
    Specimen("iter.open_files_by_fsspec", "local", lambda tap: tap(paths(*CSV)).open_files_by_fsspec("rb")),
    shuffled(
        "iter.open_files_by_fsspec",
        "shuffled, prefetched",
        lambda tap: tap(urls(memory(), *NAMES, *NAMES)).shuffle().open_files_by_fsspec("rb").prefetch(2),
    ),
    Specimen("iter.open_files_by_fsspec", "forked", forked_rows),
    Specimen(
        "iter.open_files_by_fsspec",
        "over http",
        lambda tap: tap(web()).open_files_by_fsspec(transfer=AT_ONCE).parse_csv(),
        stops=(0, 1, 5, 11),
    ),
    Specimen(
        "iter.open_files_by_fsspec",
        "ahead",
        lambda tap: tap(s3(*TWICE)).open_files_by_fsspec("rb", transfer=AT_ONCE, ahead=3).readlines(),
        stops=(0, 1, 4, 9),
    ),
    Specimen(
        "iter.open_files_by_fsspec",
        "a file that is missing",
        lambda tap: urls(memory(), "a.csv", "missing.csv", "b.csv").open_files_by_fsspec().parse_csv(),
        raises=True,
    ),
    Specimen(
        "iter.save_by_fsspec",
        "memory",
        lambda tap: numbered(tap).save_by_fsspec("w", partial(target, "memory://written")),
    ),
    Specimen(
        "iter.save_by_fsspec",
        "local, prefetched",
        lambda tap: numbered(tap).save_by_fsspec("w", partial(target, str(scratch()))).prefetch(2).batch(2),
    ),
    Specimen("iter.list_files_by_iopath", "folders", lambda tap: IoPathFileLister(str(folder()), "*.csv").map(name_of)),
    Specimen(
        "iter.list_files_by_iopath",
        "of listed folders",
        lambda tap: tap(paths("inner", "a.csv", "inner")).list_files_by_iopath(),
    ),
    Specimen("iter.open_files_by_iopath", "text", lambda tap: tap(paths(*CSV)).open_files_by_iopath()),
    shuffled(
        "iter.open_files_by_iopath",
        "shuffled, prefetched, read",
        lambda tap: tap(paths(*CSV, *CSV)).shuffle().open_files_by_iopath("rb").prefetch(2).readlines(),
        stops=(0, 3, 8),
    ),
    Specimen(
        "iter.save_by_iopath", "local", lambda tap: numbered(tap).save_by_iopath("w", partial(target, str(scratch())))
    ),
    Specimen(
        "iter.save_by_iopath",
        "local, prefetched",
        lambda tap: numbered(tap).save_by_iopath("w", partial(target, str(scratch()))).prefetch(2).batch(2),
    ),
    *(specimen for operator in OF_THE_WEB for specimen in of_the_web(operator)),
    Specimen(
        "iter.list_files_by_s3",
        "a prefix",
        lambda tap: tap(s3("", "a", "b.csv")).list_files_by_s3(transfer=AT_ONCE),
        stops=(0, 2, 6),
    ),
    shuffled(
        "iter.list_files_by_s3",
        "shuffled below and above",
        lambda tap: tap(s3("", "b.csv")).shuffle().list_files_by_s3(transfer=AT_ONCE).shuffle(buffer_size=3),
        stops=(0, 2, 6),
    ),
    Specimen(
        "iter.load_files_by_s3",
        "rows",
        lambda tap: tap(s3("a.csv", "c.csv")).load_files_by_s3(transfer=AT_ONCE).parse_csv(),
        stops=(0, 2, 6),
    ),
    Specimen(
        "iter.load_files_by_s3",
        "ahead",
        lambda tap: tap(s3(*TWICE)).load_files_by_s3(transfer=AT_ONCE, ahead=3, ahead_bytes=12).readlines(),
        stops=(0, 1, 4, 9),
    ),
    shuffled(
        "iter.load_files_by_s3",
        "shuffled, prefetched",
        lambda tap: tap(s3(*TWICE)).shuffle().load_files_by_s3(transfer=AT_ONCE).prefetch(2).readlines(),
        stops=(0, 2, 6),
    ),
    Specimen(
        "iter.list_files_by_ais",
        "a bucket",
        lambda tap: tap(ais("", "")).list_files_by_ais(address(), transfer=AT_ONCE),
        stops=(0, 2, 6),
    ),
    shuffled(
        "iter.list_files_by_ais",
        "shuffled below and above",
        lambda tap: tap(ais("", "")).shuffle().list_files_by_ais(address(), transfer=AT_ONCE).shuffle(buffer_size=3),
        stops=(0, 2, 6),
    ),
    Specimen(
        "iter.load_files_by_ais",
        "rows",
        lambda tap: tap(ais("a.csv", "c.csv")).load_files_by_ais(address(), transfer=AT_ONCE).parse_csv(),
        stops=(0, 2, 6),
    ),
    shuffled(
        "iter.load_files_by_ais",
        "shuffled, prefetched",
        lambda tap: tap(ais(*TWICE)).shuffle().load_files_by_ais(address(), transfer=AT_ONCE).prefetch(2).readlines(),
        stops=(0, 2, 6),
    ),
    hub_specimen("streamed", lambda tap: hub()),
    hub_specimen("in memory, in batches", lambda tap: hub(streaming=False).batch(2)),
    shuffled(
        "iter.HuggingFaceHubReader", "streamed, shuffled", lambda tap: hub().shuffle(buffer_size=3), stops=(0, 2, 6)
    ),
]
