"""How much may come out of a file: a ratio and a size, while streaming, through all levels, with bounded memory."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from datapipes.errors import TooLarge
from datapipes.graph import Pipe
from datapipes.io.archives.limits import FREE, FREE_BY_DEFAULT
from tests.archive_makers import COMPRESSIONS, rar, tar, zipped
from tests.datapipes.iter.files.given import contents, files

ZEROS = bytes(FREE + 2**20)
MIB = 2**20


def sizes(pipe: Pipe) -> list[int]:
    """How much each stream holds, read in pieces of a MiB."""
    return [sum(map(len, iter(partial(stream.read, MIB), b""))) for _, stream in pipe]


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_bomb_is_stopped_while_it_streams(kind: str) -> None:
    packed = COMPRESSIONS[kind](ZEROS)
    ratio = len(ZEROS) / len(packed)
    for way in (lambda stream: stream.read(), lambda stream: list(stream), lambda stream: stream.seek(0, io.SEEK_END)):
        ((_, stream),) = files((f"a.{kind}", packed)).decompress(max_ratio=MIB / len(packed) / 2)
        tracemalloc.start()
        with pytest.raises(TooLarge, match=rf"a\.{kind}: .* times as many; .*`max_ratio`"):
            way(stream)
        with pytest.raises(TooLarge):
            stream.read(1)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert held < 80 * MIB
    assert sizes(files((f"a.{kind}", packed)).decompress(max_ratio=ratio * 2)) == [len(ZEROS)]
    assert sizes(files((f"a.{kind}", packed)).decompress(max_ratio=None)) == [len(ZEROS)]


TWO = {"1": bytes(3000), "2": bytes(3000)}
WAYS: dict[str, tuple[Callable[..., Pipe], bytes]] = {
    "tar": (lambda pipe, **most: pipe.load_from_tar(**most), gzip.compress(tar(TWO))),
    "deflated": (lambda pipe, **most: pipe.load_from_zip(**most), zipped(TWO)),
    "stored": (lambda pipe, **most: pipe.load_from_zip(**most), zipped(TWO, zipfile.ZIP_STORED)),
    "rar": (lambda pipe, **most: pipe.load_from_rar(**most), rar(TWO)),
    "gz": (lambda pipe, **most: pipe.decompress("gzip", **most), gzip.compress(bytes(6000))),
    "xz": (lambda pipe, **most: pipe.load_from_xz(**most), COMPRESSIONS["xz"](bytes(6000))),
    "bz2": (lambda pipe, **most: pipe.load_from_bz2(**most), COMPRESSIONS["bz2"](bytes(6000))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:corrupted")
def test_a_file_may_come_to_so_many_bytes_in_all(way: str) -> None:
    load, data = WAYS[way]
    assert sum(sizes(load(files(("a", data)), max_bytes=10_240))) == 6000
    with pytest.raises(TooLarge, match="more than 5000 bytes came out of a when it was decompressed; `max_bytes`"):
        sizes(load(files(("a", data)), max_bytes=5000))


def nested(levels: int) -> bytes:
    """Zip in zip in zip: each level alone grows a little, all together a lot."""
    data = bytes(4 * MIB)
    for level in range(levels):
        data = zipped({f"{level}.{i}": data for i in range(3)})
    return data


def test_nested_archives_count_all_the_way_in() -> None:
    data = gzip.compress(tar({"a.zip": zipped({"b.gz": gzip.compress(gzip.compress(ZEROS))})}))

    def inside(**outer: Any) -> Pipe:
        members = files(("a.tar.gz", data)).load_from_tar(**outer).load_from_zip()
        return members.decompress("gzip", max_ratio=None).decompress("gzip", max_ratio=1000)

    with pytest.raises(TooLarge, match=r"bytes of a\.tar\.gz grew to more than"):
        sizes(inside())
    assert len(ZEROS) / len(gzip.compress(ZEROS)) > 900  # so each level by itself would have passed


def test_what_many_members_come_to_is_added_up() -> None:
    data = nested(2)
    pipe = files(("a.zip", data)).load_from_zip().load_from_zip(max_ratio=1000)
    with pytest.raises(TooLarge, match=r"bytes of a\.zip grew"):
        sizes(pipe)


def test_reading_again_is_not_counted_twice() -> None:
    ((_, stream),) = files(("a.gz", gzip.compress(bytes(6000)))).decompress(max_bytes=6000)
    for _ in range(3):
        stream.seek(0)
        assert len(stream.read()) == 6000


# Streams of gzip one behind the other are one stream: these are made in a fraction of a second.
DEFAULT_WAYS: dict[str, Callable[[int], Pipe]] = {
    "gz": lambda size: files(("a.gz", zeros(size))).decompress(),
    "tar.gz": lambda size: files(("a.tar.gz", tar_of_zeros(size))).load_from_tar(),
    "zip": lambda size: files(("a.zip", zipped({"b.gz": zeros(size)}))).load_from_zip().decompress("gzip"),
}


def zeros(size: int) -> bytes:
    return gzip.compress(bytes(2**24)) * (size >> 24)


def tar_of_zeros(size: int) -> bytes:
    info = tarfile.TarInfo("zeros")
    info.size = size
    return gzip.compress(info.tobuf()) + zeros(size) + gzip.compress(bytes(1024))


@pytest.mark.parametrize("way", DEFAULT_WAYS)
@pytest.mark.filterwarnings("ignore:corrupted")
def test_by_default_a_gib_of_anything_passes_and_no_more_of_a_bomb(way: str) -> None:
    a_little_less, a_little_more = FREE_BY_DEFAULT - 2**24, FREE_BY_DEFAULT + 2**24  # a tar has headers, too
    assert sizes(DEFAULT_WAYS[way](a_little_less)) == [a_little_less]
    with pytest.raises(TooLarge, match=rf"a\.{way} grew to more than .* times as many; beyond 1024 MiB, at most 200"):
        sizes(DEFAULT_WAYS[way](a_little_more))


def test_a_size_takes_the_place_of_the_default_ratio() -> None:
    bomb = files(("a.gz", zeros(FREE_BY_DEFAULT + 2**24)))
    assert sizes(bomb.decompress(max_bytes=2**31)) == [FREE_BY_DEFAULT + 2**24]


def test_short_files_are_free_of_the_ratio() -> None:
    assert contents(files(("a.gz", gzip.compress(bytes(FREE)))).decompress(max_ratio=1)) == {"a.gz": bytes(FREE)}
