"""Specimens of the operators that read archives and compressed files."""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from tests.archive_makers import COMPRESSIONS, SAMPLES, header, rar, tar, tar_of, zipped
from tests.specimens.specimen import Specimen, Tap, scratch, shuffled

MORE = {"5.txt": b"five\nfive\n", "6.txt": b"six\n"}
MADE: dict[str, Callable[[], bytes]] = {
    "a.tar": tar,
    "b.tar": lambda: tar(MORE, tarfile.PAX_FORMAT),
    "c.tar.gz": lambda: COMPRESSIONS["gz"](tar()),
    "none.tar": lambda: bytes(1024),
    "cut.tar": lambda: tar()[:-1024],
    "link.tar": lambda: tar_of([header("1"), header("2", type=tarfile.SYMTYPE, linkname="/1"), header("3", b"three")]),
    "nested.tar": lambda: tar({"in/a.tar": tar(), "b.tar": tar(MORE)}),
    "shard-0.tar": lambda: tar(SAMPLES),
    "shard-1.tar": lambda: tar({"c/3.jpg": b"3", "c/README": b"", "c/3.json": b"{}", "c/4.jpg": b"4"}),
    "a.zip": zipped,
    "b.zip": lambda: zipped({**MORE, "folder/": b""}),
    "cut.zip": lambda: zipped()[:-7],
    "typed.tar": lambda: tar({"1.json": b"[1, 2]", "1.cls": b"7", "2.txt": b"text", "2.xyz": b"bytes"}),
    "a.rar": rar,
    "b.rar": lambda: rar(MORE),
    **{f"{name}.txt.{kind}": (lambda pack=pack, name=name: pack(name.encode() * 9 + b"\n"))  # type: ignore[misc]  # defaults bind the loop's variables
       for kind, pack in COMPRESSIONS.items() for name in ("one", "two", "three")},
}  # fmt: skip


@cache
def archives() -> Path:
    """The folder of the archives."""
    path = scratch() / "archives"
    path.mkdir()
    for name, make in MADE.items():
        (path / name).write_bytes(make())
    return path


def of(*names: str) -> Pipe:
    """The paths of some of the archives."""
    return IterableWrapper([str(archives() / name) for name in names])


def opened(tap: Tap, *names: str) -> Pipe:
    return tap(of(*names)).open_files("rb")


def length(file: tuple[str, Any]) -> tuple[str, int]:
    """A user's function of a member, which reads it."""
    path, stream = file
    return path.rpartition("/")[2], len(stream.read())


def lines_of(file: tuple[str, Any]) -> Iterator[bytes]:
    yield from file[1]


def contents(sample: dict[str, Any]) -> dict[str, Any]:
    return {key: value if key == "__key__" else value.read() for key, value in sample.items()}


def forked(tap: Tap) -> Pipe:
    a, b = tap(of("a.tar", "b.tar")).open_files("rb").load_from_tar().map(length).fork(2)
    return a.batch(2).mux(b)


def decoding(tap: Tap, *handlers: Any, **options: Any) -> Pipe:
    with warnings.catch_warnings(action="ignore"):
        return opened(tap, "typed.tar", "b.tar").load_from_tar().routed_decode(*handlers, **options)


def sized(key: str, data: bytes) -> int | None:
    return len(data) if key == "TXT" else None


def upper(path: str) -> str:
    return path.rpartition(".")[2].upper()


def ending(file: tuple[str, Any]) -> int:
    """The number, of two, that an archive's member goes to, by its path."""
    return int(file[0] < file[0].rpartition("/")[0] + "/3")


def items_of(sample: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(sample.items())


def folder_of(file: tuple[str, Any]) -> str:
    return file[0].rpartition("/")[0]


def begun(file: tuple[str, Any]) -> tuple[bytes, Any]:
    """The first bytes of a file, and the rest of it, still open."""
    return file[1].read(3), file[1]


def parted(tap: Tap) -> Pipe:
    a, b = opened(tap, "a.tar", "b.tar").load_from_tar().demux(2, ending)
    return a.batch(2).concat(b)


def below_a_hub(tap: Tap) -> Pipe:
    a, b = opened(tap, "a.tar", "b.zip").demux(2, is_zip)
    return b.prefetch(2).load_from_zip().prefetch(2).concat(a.load_from_tar().threadpool_map(length, scheduled_tasks=2))


def is_zip(file: tuple[str, Any]) -> int:
    return int(file[0].endswith(".zip"))


def numbered(number: int) -> tuple[str, int]:
    return f"{number // 3}.x{number}", number


FOUR = ("one.txt.gz", "two.txt.bz2", "three.txt.xz", "one.txt.zst")
TAR, ZIP, RAR, WEB, READ = (
    f"iter.{n}" for n in ("load_from_tar", "load_from_zip", "load_from_rar", "webdataset", "read_from_stream")
)

ARCHIVES = [
    Specimen(
        TAR, "plain and compressed", lambda tap: opened(tap, "a.tar", "none.tar", "c.tar.gz", "b.tar").load_from_tar()
    ),
    Specimen(TAR, "in order", lambda tap: opened(tap, "a.tar", "c.tar.gz", "b.tar").load_from_tar("r|*").map(length)),
    Specimen(TAR, "lines of members", lambda tap: opened(tap, "b.tar", "a.tar").load_from_tar().readlines()),
    Specimen(TAR, "tar in tar", lambda tap: opened(tap, "nested.tar").load_from_tar().load_from_tar()),
    Specimen(TAR, "below a prefetch", lambda tap: opened(tap, "a.tar", "b.tar").prefetch(2).load_from_tar()),
    Specimen(TAR, "below and above a prefetch", lambda tap: opened(tap, "a.tar", "b.tar").load_from_tar().prefetch(2)),
    Specimen(TAR, "in a batch", lambda tap: of("a.tar", "b.tar").open_files("rb").load_from_tar().batch(2)),
    Specimen(
        TAR, "read by a function", lambda tap: of("a.tar").open_files("rb").load_from_tar().map(tap.function(length))
    ),
    Specimen(TAR, "read by a generator", lambda tap: opened(tap, "b.tar").load_from_tar().flatmap(lines_of)),
    Specimen(TAR, "again and again", lambda tap: opened(tap, "b.tar", "a.tar").load_from_tar().cycle(2)),
    Specimen(TAR, "decompressed before", lambda tap: opened(tap, "c.tar.gz", "b.tar").decompress().load_from_tar()),
    Specimen(TAR, "forked", forked),
    shuffled(
        TAR,
        "shuffled archives, shuffled members",
        lambda tap: (
            tap(of("a.tar", "b.tar", "c.tar.gz"))
            .shuffle()
            .open_files("rb")
            .load_from_tar()
            .map(length)
            .shuffle(buffer_size=3)
        ),
    ),
    Specimen(TAR, "cut short", lambda tap: of("cut.tar", "b.tar").open_files("rb").load_from_tar(), raises=True),
    Specimen(
        TAR,
        "a link that leads outside",
        lambda tap: of("link.tar", "b.tar").open_files("rb").load_from_tar(),
        raises=True,
    ),
    Specimen(ZIP, "two archives", lambda tap: opened(tap, "a.zip", "b.zip").load_from_zip()),
    Specimen(ZIP, "lines of members", lambda tap: opened(tap, "b.zip", "a.zip").load_from_zip().readlines()),
    Specimen(ZIP, "prefetched", lambda tap: opened(tap, "a.zip", "b.zip").prefetch(2).load_from_zip().prefetch(2)),
    shuffled(
        ZIP,
        "shuffled",
        lambda tap: tap(of("a.zip", "b.zip", "a.zip")).shuffle().open_files("rb").load_from_zip().map(length).shuffle(),
    ),
    Specimen(
        ZIP, "cut short", lambda tap: of("b.zip", "cut.zip", "a.zip").open_files("rb").load_from_zip(), raises=True
    ),
    Specimen(RAR, "two archives", lambda tap: opened(tap, "a.rar", "b.rar").load_from_rar()),
    Specimen(RAR, "pieces of members", lambda tap: opened(tap, "b.rar", "a.rar").load_from_rar().read_from_stream(200)),
    Specimen(RAR, "prefetched", lambda tap: opened(tap, "a.rar", "b.rar").prefetch(2).load_from_rar().prefetch(2)),
    Specimen("iter.decompress", "four kinds", lambda tap: opened(tap, *FOUR).decompress()),
    Specimen("iter.extract", "four kinds", lambda tap: opened(tap, *FOUR).extract()),
    Specimen(
        "iter.decompress", "lines", lambda tap: opened(tap, "one.txt.gz", "two.txt.gz").decompress("gzip").readlines()
    ),
    Specimen(
        "iter.decompress", "prefetched", lambda tap: opened(tap, "one.txt.gz", "two.txt.xz").decompress().prefetch(2)
    ),
    Specimen("iter.extract", "lines", lambda tap: opened(tap, "one.txt.xz", "two.txt.gz").extract().readlines()),
    shuffled(
        "iter.decompress",
        "shuffled",
        lambda tap: (
            tap(of("one.txt.gz", "two.txt.bz2", "three.txt.xz", "one.txt.bz2", "two.txt.zst", "three.txt.gz"))
            .shuffle()
            .open_files("rb")
            .decompress()
        ),
    ),
    Specimen(
        "iter.load_from_bz2",
        "files",
        lambda tap: opened(tap, "one.txt.bz2", "two.txt.bz2", "three.txt.bz2").load_from_bz2(),
    ),
    Specimen(
        "iter.load_from_bz2", "lines", lambda tap: opened(tap, "one.txt.bz2", "two.txt.bz2").load_from_bz2().readlines()
    ),
    Specimen(
        "iter.load_from_xz", "files", lambda tap: opened(tap, "one.txt.xz", "two.txt.xz", "three.txt.xz").load_from_xz()
    ),
    Specimen(
        "iter.load_from_xz",
        "lines",
        lambda tap: opened(tap, "one.txt.xz", "two.txt.xz").prefetch(2).load_from_xz().readlines(),
    ),
    Specimen(READ, "whole", lambda tap: opened(tap, "a.tar", "one.txt.gz").read_from_stream()),
    Specimen(READ, "in pieces", lambda tap: opened(tap, "b.zip", "one.txt.gz", "a.zip").read_from_stream(chunk=100)),
    Specimen(
        READ, "of members", lambda tap: opened(tap, "a.tar", "b.tar").load_from_tar().read_from_stream(200).batch(2)
    ),
    shuffled(
        READ,
        "shuffled",
        lambda tap: tap(of("a.zip", "b.zip", "one.txt.gz")).shuffle().open_files("rb").read_from_stream(50).shuffle(),
    ),
    Specimen(WEB, "of two shards", lambda tap: opened(tap, "shard-0.tar", "shard-1.tar").load_from_tar().webdataset()),
    Specimen(WEB, "in order", lambda tap: opened(tap, "shard-0.tar", "shard-1.tar").load_from_tar("r|").webdataset()),
    Specimen(
        WEB,
        "read, in batches",
        lambda tap: opened(tap, "shard-0.tar", "shard-1.tar").load_from_tar().webdataset().map(contents).batch(2),
    ),
    Specimen(
        WEB,
        "prefetched",
        lambda tap: opened(tap, "shard-1.tar", "shard-0.tar").load_from_tar().prefetch(3).webdataset().prefetch(2),
    ),
    Specimen(
        WEB,
        "decoded",
        lambda tap: opened(tap, "shard-0.tar", "shard-1.tar").load_from_tar().webdataset(decode={"jpg": len}),
    ),
    shuffled(
        WEB,
        "as bytes, shuffled",
        lambda tap: (
            opened(tap, "shard-0.tar", "shard-1.tar").load_from_tar("r|").webdataset("bytes").shuffle(buffer_size=2)
        ),
    ),
    Specimen(WEB, "of bytes", lambda tap: tap(IterableWrapper(list(SAMPLES.items()))).webdataset()),
    Specimen(
        WEB,
        "of bytes, a function that fails",
        lambda tap: IterableWrapper(range(9)).map(tap.function(numbered)).webdataset(),
        after_fault="otherwise",
    ),
    shuffled(
        WEB,
        "shuffled shards, shuffled samples",
        lambda tap: (
            tap(of("shard-0.tar", "shard-1.tar", "a.tar"))
            .shuffle()
            .open_files("rb")
            .load_from_tar()
            .webdataset()
            .map(contents)
            .shuffle(buffer_size=2)
        ),
    ),
    shuffled(TAR, "members wait", lambda tap: opened(tap, "a.tar", "c.tar.gz").load_from_tar().shuffle(buffer_size=3)),
    shuffled(
        TAR,
        "members of members wait",
        lambda tap: opened(tap, "nested.tar").load_from_tar().load_from_tar().shuffle(buffer_size=3),
    ),
    shuffled(
        TAR,
        "begun members wait",
        lambda tap: opened(tap, "b.tar", "a.tar").load_from_tar().map(begun).shuffle(buffer_size=2),
    ),
    Specimen(TAR, "parted, members wait", parted),
    Specimen(TAR, "archives wait below a hub", below_a_hub, after_fault="otherwise"),
    Specimen(
        TAR,
        "members wait in groups",
        lambda tap: opened(tap, "b.tar", "a.tar").load_from_tar().groupby(folder_of, group_size=2, keep_key=True),
    ),
    shuffled(
        TAR,
        "archives wait, members are read in threads",
        lambda tap: (
            opened(tap, "b.tar", "a.tar", "c.tar.gz")
            .filter(bool)
            .shuffle(buffer_size=2)
            .load_from_tar()
            .shuffle(buffer_size=2)
            .threadpool_map(length, scheduled_tasks=2)
        ),
    ),
    shuffled(
        TAR,
        "archives wait, lines of members",
        lambda tap: (
            opened(tap, "b.tar", "a.tar", "c.tar.gz", "none.tar", "b.tar", "c.tar.gz")
            .filter(bool)
            .shuffle(buffer_size=3)
            .load_from_tar()
            .readlines()
        ),
    ),
    shuffled(ZIP, "members wait", lambda tap: opened(tap, "a.zip", "b.zip").load_from_zip().shuffle(buffer_size=3)),
    shuffled(RAR, "members wait", lambda tap: opened(tap, "a.rar", "b.rar").load_from_rar().shuffle(buffer_size=3)),
    shuffled(
        "iter.decompress",
        "content waits",
        lambda tap: opened(tap, *FOUR).decompress().filter(bool).shuffle(buffer_size=2),
    ),
    shuffled(
        WEB,
        "samples wait",
        lambda tap: (
            opened(tap, "shard-0.tar", "shard-1.tar").load_from_tar().webdataset().shuffle(buffer_size=3).map(contents)
        ),
    ),
    shuffled(
        WEB,
        "samples wait for others, and are flattened",
        lambda tap: (
            opened(tap, "shard-0.tar", "shard-1.tar")
            .load_from_tar()
            .webdataset()
            .shuffle(buffer_size=2)
            .prefetch(2)
            .map(contents)
            .flatmap(items_of)
        ),
    ),
    Specimen("iter.routed_decode", "members", decoding),
    Specimen("iter.routed_decode", "a handler", lambda tap: decoding(tap, sized, key_fn=upper)),
]
