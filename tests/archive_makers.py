"""Small archives for tests, the same bytes whenever they are made; RAR ones without a program that packs them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from zlib import crc32

import zstandard

FILES: Mapping[str, bytes] = {"1.txt": b"one", "in/2.bin": bytes(range(64)) * 9, "in/3.txt": b"", "4.txt": b"the last"}
SAMPLES: Mapping[str, bytes] = {
    "a/1.jpg": b"an image", "a/1.cls": b"7", "a/2.jpg": b"another", "a/2.cls": b"8", "b/1.cls": b"9",
}  # fmt: skip

COMPRESSIONS: Mapping[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}


def header(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member of a tar archive, any field of whose header may be given."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def tar_of(members: Iterable[tuple[tarfile.TarInfo, bytes]], form: Any = tarfile.GNU_FORMAT) -> bytes:
    """A tar archive, padded no more than it must be, and not with zeros, which are the marker of its end."""
    file = io.BytesIO()
    for info, data in members:
        file.write(info.tobuf(form) + data + b"-" * (-len(data) % 512))
    return file.getvalue() + bytes(1024)


def tar(files: Mapping[str, bytes] = FILES, form: Any = tarfile.GNU_FORMAT) -> bytes:
    return tar_of((header(name, data) for name, data in files.items()), form)


def zipped(files: Mapping[str, bytes] = FILES, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, data)
    return file.getvalue()


def rar(files: Mapping[str, bytes] = FILES, compressed: frozenset[str] = frozenset()) -> bytes:
    """A RAR archive (version 5) of stored files; those that are said to be ``compressed`` only claim it."""
    blocks = [_block(1, 0, _vint(0))]
    for name, data in files.items():
        method = 3 << 7 if name in compressed else 0
        path = name.encode()
        fields = [_vint(4), _vint(len(data)), _vint(0o644), crc32(data).to_bytes(4, "little"), _vint(method), _vint(1)]
        blocks.append(_block(2, 2, _vint(len(data)) + b"".join(fields) + _vint(len(path)) + path) + data)
    return b"Rar!\x1a\x07\x01\x00" + b"".join(blocks) + _block(5, 0, _vint(0))


def _block(kind: int, flags: int, rest: bytes) -> bytes:
    body = _vint(kind) + _vint(flags) + rest
    sized = _vint(len(body)) + body
    return crc32(sized).to_bytes(4, "little") + sized


def _vint(number: int) -> bytes:
    made = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        made.append(low | (0x80 if number else 0))
        if not number:
            return bytes(made)
