"""decompress, extract, load_from_bz2, load_from_xz: whole and sound content, or an error."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
from pathlib import Path
from zlib import crc32

import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, CorruptStream, CorruptZip
from datapipes.iter import Decompressor, IterableWrapper
from datapipes.iter.archives.decompress import CompressionType
from tests.archive_makers import COMPRESSIONS, FILES, tar, zipped
from tests.datapipes.iter.files.given import OneWay, contents, files

TEXT = b"".join(b"line %d\n" % i for i in range(9000))


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("ending", ["a.{}", "A.B.{}", "a.tar/b.{}"])
def test_the_ending_tells(kind: str, ending: str) -> None:
    data = COMPRESSIONS[kind](TEXT)
    for path in (ending.format(kind), ending.format(kind.upper())):
        assert contents(files((path, data)).decompress()) == {path: TEXT}
        assert contents(files((path, OneWay(data))).extract()) == {path: TEXT}


@pytest.mark.parametrize(
    ("path", "kind"),
    [("v1.0.tar.gz", "gz"), ("a.tgz", "gz"), ("a.tar.bz2", "bz2"), ("a.TBZ2", "bz2"), ("a.txz", "xz"),
     ("a.tar.xz", "xz"), ("a.tar.zst", "zst"), ("a.tar", "gz")],
)  # fmt: skip
@pytest.mark.parametrize("one_way", [False, True])
def test_a_tar_archive_is_opened(path: str, kind: str, one_way: bool) -> None:
    data = COMPRESSIONS[kind](tar())
    ((name, archive),) = files((path, OneWay(data) if one_way else data)).decompress()
    assert name == path
    assert isinstance(archive.file_obj, tarfile.TarFile)
    members = {info.name: archive.extractfile(info).read() for info in archive}
    assert members == FILES
    archive.close()


def test_a_zip_archive_is_opened() -> None:
    ((_, archive),) = files(("a.ZIP", zipped())).decompress()
    assert isinstance(archive.file_obj, zipfile.ZipFile)
    assert archive.namelist() == list(FILES)


@pytest.mark.parametrize("file_type", ["gzip", "GZIP", CompressionType.GZIP])
def test_the_type_may_be_given(file_type: str | CompressionType) -> None:
    assert contents(files(("a.bin", gzip.compress(TEXT))).decompress(file_type)) == {"a.bin": TEXT}


def test_an_unknown_type_is_an_error() -> None:
    with pytest.raises(BadArgument, match="'rar' is not a valid CompressionType"):
        files().decompress("rar")
    with pytest.raises(RuntimeError, match=r"'a\.txt' indicates no known compression"):
        list(files(("a.txt", b"")).decompress())
    assert Decompressor.types.ZSTD.value == "zstd"


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_joined_streams_and_zeros_behind_them_are_read(kind: str) -> None:
    pack = COMPRESSIONS[kind]
    assert contents(files((f"a.{kind}", pack(TEXT) + pack(b"more") + bytes(700))).decompress()) == {
        f"a.{kind}": TEXT + b"more"
    }


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "flip at the end", "zeros", "another kind"])
def test_what_is_damaged_is_an_error_each_time_it_is_read(kind: str, damage: str) -> None:
    data = COMPRESSIONS[kind](TEXT)
    flip = {"gz": 6, "bz2": 2, "xz": 14, "zst": 2}[kind]
    data = {
        "empty": b"",
        "cut": data[:-3],
        "garbage": data + b"garbage",
        "flip at the end": data[:-flip] + bytes([data[-flip] ^ 0x55]) + data[1 - flip :],
        "zeros": bytes(len(data)),
        "another kind": COMPRESSIONS["gz" if kind != "gz" else "xz"](TEXT),
    }[damage]
    ((_, stream),) = files((f"a.{kind}", data)).decompress()
    for _ in range(2):
        with pytest.raises(CorruptStream, match=rf"^a\.{kind}: .*byte \d+ of the compressed data, after \d+") as raised:
            stream.read()
    assert isinstance(raised.value, OSError | EOFError)


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_content_can_be_sought_and_read_by_lines(kind: str) -> None:
    ((_, stream),) = files((f"a.{kind}", COMPRESSIONS[kind](TEXT))).decompress()
    assert list(stream) == TEXT.splitlines(keepends=True)
    for at in (70_000, 3, len(TEXT) + 5):
        stream.seek(at)
        assert stream.read(9) == TEXT[at : at + 9]
    assert stream.tell() == len(TEXT)


def test_the_file_closes_with_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT))
    file = StreamWrapper((tmp_path / "a.gz").open("rb"))
    ((_, stream),) = IterableWrapper([("a.gz", file)], deepcopy=False).decompress()
    assert not file.closed
    stream.close()
    assert file.closed


@pytest.mark.parametrize(
    ("path", "expected"),
    [("abz.bz2", "abz"), ("fizz.xz", "fizz"), ("A.BZ2", "A"), ("x.XZ", "x"), ("plain", "plain")],
)
def test_single_files_lose_their_ending_and_no_more(path: str, expected: str) -> None:
    if "z2" in path.lower():
        pipe = files((path, bz2.compress(TEXT))).load_from_bz2()
    else:
        pipe = files((path, lzma.compress(TEXT))).load_from_xz()
    assert contents(pipe) == {expected: TEXT}


def test_lengths_are_as_said() -> None:
    assert len(files().load_from_bz2(3)) == len(files().load_from_xz(length=3)) == 3
    with pytest.raises(TypeError, match="XzFileLoader instance doesn't have valid length"):
        len(files().load_from_xz())


def test_what_is_no_archive_is_named() -> None:
    with pytest.raises(CorruptZip, match=r"^a\.gz: .* not a zip archive"):
        list(files(("a.gz", gzip.compress(b"text"))).decompress("zip"))


def test_damage_shows_where_it_is_read() -> None:
    pipe = files(("a.xz", lzma.compress(TEXT)[:-9])).load_from_xz()
    ((path, stream),) = pipe
    assert path == "a"
    with pytest.raises(EOFError, match=r"a\.xz: it ends in the middle of its data"):
        stream.read()


def test_a_dictionary_of_gigabytes_is_refused() -> None:
    data = bytearray(lzma.compress(b"x"))
    assert data[14:16] == b"\x21\x01"  # LZMA2, with one byte that tells the size of its dictionary
    end = 12 + (data[12] + 1) * 4 - 4
    data[16] = 40
    data[end : end + 4] = crc32(data[12:end]).to_bytes(4, "little")
    with pytest.raises(CorruptStream, match="Memory usage limit"):
        contents(files(("a.xz", bytes(data))).decompress())
