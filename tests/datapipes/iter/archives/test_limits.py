"""How much may come out of a file: a ratio and a size, while streaming, through all levels, with bounded memory."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from datapipes.errors import TooLarge
from datapipes.graph import Pipe
from datapipes.io.archives.limits import FREE
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
        with pytest.raises(TooLarge, match=rf"a\.{kind}: .*`max_ratio` sets that limit"):
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
        return members.decompress("gzip", max_ratio=None).decompress("gzip")

    with pytest.raises(TooLarge, match=r"bytes of a\.tar\.gz grew to more than"):
        sizes(inside())
    assert len(ZEROS) / len(gzip.compress(ZEROS)) > 900  # so each level by itself would have passed


def test_what_many_members_come_to_is_added_up() -> None:
    data = nested(2)
    pipe = files(("a.zip", data)).load_from_zip().load_from_zip()
    with pytest.raises(TooLarge, match=r"bytes of a\.zip grew"):
        sizes(pipe)


def test_reading_again_is_not_counted_twice() -> None:
    ((_, stream),) = files(("a.gz", gzip.compress(bytes(6000)))).decompress(max_bytes=6000)
    for _ in range(3):
        stream.seek(0)
        assert len(stream.read()) == 6000


def test_short_files_are_free_of_the_ratio() -> None:
    assert contents(files(("a.gz", gzip.compress(bytes(FREE)))).decompress(max_ratio=1)) == {"a.gz": bytes(FREE)}
