"""gzip and deflate by isal: the pieces, the errors and their places are those of zlib."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from isal import isal_zlib

from datapipes.errors import CorruptStream, CorruptZip
from datapipes.graph import Pipe
from datapipes.io.archives import inflating
from datapipes.io.archives.codecs import new_codec
from datapipes.io.archives.inflating import Inflating, inflated
from datapipes.io.archives.limits import Meter, Unpacking
from datapipes.iter.formats.sample_decoders import decoded, decoders_of
from datapipes.messages.switches import FAST
from tests.archive_makers import tar, zipped
from tests.datapipes.iter.files.given import OneWay, files

STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED)
TEXT = b"".join(b'{"id": %d, "x": %d}\n' % (i, i * i) for i in range(9000))

Seed = random.Random


def content(chance: Seed) -> bytes:
    size = chance.choice((0, 1, 3000, 65536, 200_000))
    match chance.randrange(5):
        case 0:
            return chance.randbytes(size)
        case 1:
            return bytes(size)
        case 2:
            return b"".join(b'{"id": %d, "x": %f}\n' % (i, chance.random()) for i in range(size // 25))
        case 3:
            return b"some text and\nmore of it\n" * (size // 25)
    return bytes(chance.choices(b"aaab \n", k=size))


def packed(chance: Seed) -> bytes:
    """One gzip stream, of any strategy, with blocks that end early, and sometimes with all fields in its header."""
    data, half = content(chance), chance.randrange(3)
    codec = zlib.compressobj(chance.choice((0, 1, 6, 9)), zlib.DEFLATED, 31, 8, chance.choice(STRATEGIES))
    at = len(data) * half // 2
    made = codec.compress(data[:at]) + codec.flush(chance.choice((zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH)))
    made += codec.compress(data[at:]) + codec.flush()
    if chance.random() < 0.7:
        return made
    header = made[:3] + b"\x1e" + made[4:10] + b"\x03\x00abcname\0comment\0"
    return header + (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little") + made[10:]


def flipped(data: bytearray, start: int, end: int, chance: Seed) -> bytes:
    data[chance.randrange(start, end)] ^= 1 << chance.randrange(8)
    return bytes(data)


DAMAGES: dict[str, Callable[[bytes, Seed], bytes]] = {
    "sound": lambda data, chance: data,
    "cut": lambda data, chance: data[: chance.randrange(len(data))],
    "flip in the header": lambda data, chance: flipped(bytearray(data), 0, 12, chance),
    "flip": lambda data, chance: flipped(bytearray(data), 0, len(data), chance),
    "flip at the end": lambda data, chance: flipped(bytearray(data), len(data) - 12, len(data), chance),
    "zeros": lambda data, chance: data + bytes(700),
    "garbage": lambda data, chance: data + chance.choice((b"garbage", b"\x1f", b"\x1f\x8b\x08", bytes(700) + b"x")),
    "missing bytes": lambda data, chance: data[: (at := chance.randrange(len(data)))] + data[at + 1 + at % 9 :],
}


def lines(data: bytes, isal: Any, one_way: bool) -> tuple[list[bytes], str]:
    """The lines before an error, and the error."""
    source: Any = OneWay(data) if one_way else io.BytesIO(data)
    found: list[bytes] = []
    try:
        found.extend(inflated(source, "gzip", "a.gz", Unpacking(isal=isal)))
    except CorruptStream as error:
        return found, str(error)
    return found, ""


@pytest.mark.parametrize("damage", DAMAGES)
def test_lines_and_errors_are_those_of_zlib(damage: str) -> None:
    for seed in range(24):
        chance = Seed(f"{damage}/{seed}")
        data = b"".join(packed(chance) for _ in range(chance.choice((1, 1, 2, 3))))
        data = DAMAGES[damage](data, chance)
        one_way = seed % 3 == 0
        assert lines(data, isal_zlib, one_way) == lines(data, None, one_way), f"seed {seed}"


def test_the_codec_keeps_its_interface_however_the_data_comes() -> None:
    for seed in range(60):
        chance = Seed(seed)
        data, after = packed(chance), chance.choice((b"", b"more", bytes(9)))
        expected, made, at = gzip.decompress(data), [], chance.choice((1, 20, 100))
        more, data = data[:at], data + after
        at = len(more)
        codec = new_codec("gzip", isal_zlib, more)
        while not codec.eof:
            most = chance.choice((1, 100, 5000, 65536)) if len(expected) < 5000 else 65536
            made.append(codec.decompress(more, most))
            assert len(made[-1]) <= most
            wants = codec.needs_input and not codec.eof
            more = data[at : at + chance.choice((1, 7, 1000, 65536))] if wants else b""
            at += len(more)
        assert b"".join(made) == expected
        assert codec.unused_data + data[at:] == after


@pytest.mark.parametrize("flags", range(0x20))
def test_a_header_that_comes_in_pieces_is_read(flags: int) -> None:
    body = gzip.compress(TEXT[:500], mtime=0)
    header = body[:3] + bytes([flags]) + body[4:10]
    header += b"\x03\x00abc" * (flags >> 2 & 1) + b"name\0" * (flags >> 3 & 1) + b"comment\0" * (flags >> 4 & 1)
    header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little") * (flags >> 1 & 1)
    data = header + body[10:]
    assert new_codec("gzip", isal_zlib, data).decompress(data, 9999) == TEXT[:500]
    for at in range(1, len(header) + 2):
        codec = new_codec("gzip", isal_zlib, data[:at])
        assert codec.decompress(data[:at], 9999) + codec.decompress(data[at:], 9999) == TEXT[:500]
        assert codec.eof


def test_errors_have_the_type_of_zlib_s() -> None:
    data = gzip.compress(TEXT)[:-5] + b"\x55" + bytes(4)
    with pytest.raises(zlib.error, match="checksum"):
        new_codec("gzip", isal_zlib, data).decompress(data, 10**6)
    with pytest.raises(CorruptStream, match=r"^a\.gz: the gzip data is damaged: Error -3 .*incorrect data check"):
        inflated(OneWay(data), "gzip", "a.gz", Unpacking(isal=isal_zlib)).read()


def test_isal_s_own_error_is_raised_when_the_data_cannot_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflating, "FREE", 1000)
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 1
    file = inflated(OneWay(bytes(data)), "gzip", "a.gz", Unpacking(isal=isal_zlib))
    for _ in range(2):
        with pytest.raises(CorruptStream, match=r"^a\.gz: the gzip data is damaged: .*checksum"):
            file.read()


class Breaking(io.RawIOBase):
    """A source that breaks once, after some bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self.file, self.at = io.BytesIO(data), at

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self.file.tell() == self.at:
            self.at = -1
            raise ConnectionResetError("once")
        return self.file.read(min(size, self.at - self.file.tell()) if self.at > 0 else size)


@pytest.mark.parametrize("isal", [None, isal_zlib])
def test_an_error_of_the_source_comes_after_the_bytes_before_it(isal: Any) -> None:
    data = gzip.compress(TEXT)
    raw = Inflating(Breaking(data, 9000), "gzip", "a.gz", Meter(Unpacking(isal=isal), "a.gz"))
    first = raw.read(10**6)
    assert first
    assert TEXT.startswith(first)
    with pytest.raises(ConnectionResetError, match="once"):
        raw.read(10**6)
    assert first + raw.readall() == TEXT


@pytest.mark.parametrize("most", [1 << 16, 1 << 20])
def test_members_of_zip_archives_are_those_of_zlib(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    members = {f"{i}.txt": content(Seed(i)) for i in range(9)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)

    def read(data: bytes) -> list[bytes | str]:
        found: list[bytes | str] = []
        for _, stream in files(("a.zip", data)).load_from_zip():
            try:
                found.extend(iter(partial(stream.read, most), b""))
            except CorruptZip as error:
                found.append(str(error))
        return found

    for at in (None, 40, 5000, 100_000, 200_000):
        damaged = bytearray(file.getvalue())
        if at is not None:
            damaged[at] ^= 4
        monkeypatch.delenv(FAST, raising=False)
        fast = read(bytes(damaged))
        monkeypatch.setenv(FAST, "0")
        assert fast == read(bytes(damaged)), f"byte {at}"


PACKED = gzip.compress(tar())
STAGES: dict[str, Callable[[Pipe], Pipe]] = {
    "decompress": lambda pipe: pipe.decompress("gzip"),
    "load_from_tar": lambda pipe: pipe.load_from_tar(),
    "load_from_zip": lambda pipe: pipe.load_from_zip(),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("now", "later", "expected"), [("1", "0", isal_zlib), ("0", "1", None)])
def test_the_library_is_chosen_when_the_stage_is_opened(
    monkeypatch: pytest.MonkeyPatch, stage: str, now: str, later: str, expected: Any
) -> None:
    used: list[Any] = []

    def noted(*which: Any) -> Any:
        used.append(which[1])
        return new_codec(*which)

    monkeypatch.setattr(inflating, "new_codec", noted)
    data = zipped() if stage == "load_from_zip" else PACKED
    monkeypatch.setenv(FAST, now)
    stream = iter(STAGES[stage](files(("a", data), ("b", data))))
    assert next(stream)[1].read(1)
    monkeypatch.setenv(FAST, later)
    for _, file in stream:
        file.read(1)
    assert len(used) > 1
    assert set(used) == {expected}


@pytest.mark.parametrize(
    "data",
    [gzip.compress(TEXT), gzip.compress(TEXT) + gzip.compress(b"more") + bytes(7), gzip.compress(TEXT)[:-1], b"none"],
    ids=["one stream", "two streams", "cut", "none"],
)
def test_samples_are_decompressed_as_by_gzip(data: bytes) -> None:
    def read(isal: Any) -> Any:
        try:
            return decoded({"__key__": "a", ".txt.gz": data}, decoders_of("rgb"), isal)
        except Exception as error:
            return type(error), str(error)

    assert read(isal_zlib) == read(None)
