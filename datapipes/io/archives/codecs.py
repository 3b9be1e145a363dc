"""Decompressors of each kind of compression, found by a file's name or by its first bytes.

All have the interface of ``bz2.BZ2Decompressor``: input goes in once, output comes in pieces of at most the requested
length, and the end of a stream is detected. No call expands a small input to more than a few megabytes.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from datapipes.messages.extras import needed

MEMORY = 256 * 2**20
"""Bytes that an xz or zstd header may request; the strongest setting of the programs needs a quarter of this."""


class Codec(Protocol):
    """Decompressor of one compressed stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended and its checksum is verified."""

    @property
    def needs_input(self) -> bool:
        """Whether more output needs more input."""

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the stream."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return the next output of at most ``max_length`` bytes; it may be empty."""


class _Zlib:
    """Decompressor of deflate data, in the frame that ``wbits`` selects, by zlib or by isal's module of the same API.

    isal decodes up to 64 KiB of output ahead, so it raises an error earlier than zlib, and the output is lost.
    """

    def __init__(self, wbits: int, library: Any = zlib) -> None:
        self._error = library.error
        self._inner = library.decompressobj(wbits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused_data(self) -> bytes:
        unused: bytes = self._inner.unused_data
        return unused

    def decompress(self, data: bytes, max_length: int) -> bytes:
        tail = self._inner.unconsumed_tail
        try:
            made: bytes = self._inner.decompress(tail + data if tail else data, max_length)
        except self._error as error:
            raise zlib.error(str(error)) from error
        self.needs_input = not self._inner.unconsumed_tail and len(made) < max_length
        return made


class _Zstd:
    """Decompressor of zstd. It feeds little input at a time to bound the output: 4 bytes may stand for 128 KiB."""

    _FED = 1024

    def __init__(self) -> None:
        zstandard = needed("zstandard", "zstd")
        self._inner = zstandard.ZstdDecompressor(max_window_size=MEMORY // 2).decompressobj()
        self._input = memoryview(b"")
        self._made = b""

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof) and not self._made

    @property
    def needs_input(self) -> bool:
        return not self._made and not self._input and not self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data) + bytes(self._input)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._input = memoryview(bytes(self._input) + data)
        while not self._made and self._input and not self._inner.eof:
            fed, self._input = self._input[: self._FED], self._input[self._FED :]
            self._made = self._inner.decompress(fed)
        made, self._made = self._made[:max_length], self._made[max_length:]
        return made


class _Lzma1:
    """Decompressor of LZMA as in zip archives: after four bytes and the properties. Its end may be unmarked."""

    def __init__(self) -> None:
        self._head = b""
        self._inner: lzma.LZMADecompressor | None = None

    @property
    def eof(self) -> bool:
        return self._inner is not None and self._inner.eof

    @property
    def needs_input(self) -> bool:
        return self._inner is None or self._inner.needs_input

    @property
    def unused_data(self) -> bytes:
        return b"" if self._inner is None else self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._inner is None:
            self._head = data = self._head + data
            if len(data) < 9:
                return b""
            rest, lc = divmod(data[4], 9)
            pb, lp = divmod(rest, 5)
            size = int.from_bytes(data[5:9], "little")
            if data[2:4] != b"\5\0" or size > MEMORY:
                raise lzma.LZMAError(f"properties {data[:9]!r}")
            filters = [{"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": size}]
            self._inner = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
            self._head, data = b"", data[9:]
        return self._inner.decompress(data, max_length)


class _Stored:
    """Codec of data without compression; it ends where the data does."""

    eof = False
    needs_input = True
    unused_data = b""

    def __init__(self) -> None:
        self._held = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        held = self._held + data if self._held else data
        made, self._held = held[:max_length], held[max_length:]
        self.needs_input = not self._held
        return made


WBITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": -zlib.MAX_WBITS}
"""Kinds that isal decompresses, with their frames."""

_CODECS: dict[str, Callable[[], Codec]] = {
    "bz2": bz2.BZ2Decompressor,
    "lzma": lambda: lzma.LZMADecompressor(memlimit=MEMORY),
    "zstd": _Zstd,
    "lzma1": _Lzma1,
    "stored": _Stored,
}


def new_codec(name: str, isal: Any = None, beginning: bytes = b"") -> Codec:
    """Return a decompressor of one kind of compression.

    Args:
        name: The kind.
        isal: The module that decompresses gzip and deflate. ``None``: zlib does it.
        beginning: First bytes of the stream. isal needs the whole header of a gzip stream at once, otherwise it reads
            the stream wrongly. zlib reads a stream whose header is not whole in these bytes.
    """
    if name not in WBITS:
        return _CODECS[name]()
    fits = isal is not None and (name != "gzip" or _has_whole_header(beginning))
    return _Zlib(WBITS[name], isal if fits else zlib)


def _has_whole_header(data: bytes) -> bool:
    """Return whether a gzip header ends in these bytes. Return False for unknown flags, which isal ignores."""
    flags = data[3] if len(data) > 3 else 0xFF
    end = 10
    if flags & 0x04:  # an extra field
        end += 2 + int.from_bytes(data[10:12], "little")
    for text in (0x08, 0x10):  # a name, a comment
        if flags & text:
            end = data.find(b"\0", end) + 1 or len(data) + 1
    return flags < 0x20 and end + (flags & 0x02) <= len(data)


UNMARKED = {"lzma1", "stored"}
"""Kinds that may end wherever the data does; only a known size proves that they are complete."""

_BEGINNINGS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "lzma",
    b"\x5d\0\0": "lzma",
    b"\x28\xb5\x2f\xfd": "zstd",
}
LONGEST_BEGINNING = max(map(len, _BEGINNINGS))
MARKED = frozenset(_BEGINNINGS.values())
"""Kinds with a signature. It must be checked: otherwise a file of zeros would be an empty LZMA stream."""


def codec_of(beginning: bytes) -> str | None:
    """Return the compression that a file's first bytes indicate, or None.

    >>> codec_of(b"BZh91AY&SY"), codec_of(b"plain text")
    ('bz2', None)
    """
    if beginning[1:4] == b"\x2a\x4d\x18" and beginning[0] >> 4 == 5:
        return "zstd"  # a skippable frame
    return next((name for mark, name in _BEGINNINGS.items() if beginning.startswith(mark)), None)


_ENDINGS = {
    "tar": ".tar .tar.gz .tgz .taz .tar.bz2 .tbz2 .tbz .tb2 .tar.xz .txz .tar.lzma .tlz .tar.zst .tzst",
    "zip": ".zip",
    "gzip": ".gz",
    "bz2": ".bz2",
    "lzma": ".xz .lzma",
    "zstd": ".zst .zstd",
}


def kind_of(path: str) -> str | None:
    """Return the kind of file that a path's ending indicates, ignoring case, or None.

    >>> kind_of("v1.0.tar.gz"), kind_of("A.TBZ2"), kind_of("b.gz"), kind_of("c.txt")
    ('tar', 'tar', 'gzip', None)
    """
    name = path.lower()
    return next((kind for kind, endings in _ENDINGS.items() if name.endswith(tuple(endings.split()))), None)


def extension(path: str) -> str:
    """Return the ending of a path, without its dot.

    >>> extension("a/b.seg.jpg"), extension("README")
    ('jpg', '')
    """
    return os.path.splitext(path)[1][1:]
