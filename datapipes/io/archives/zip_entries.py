"""Reader of zip archives: the directory as ``zipfile`` reads it, checked against the archive.

The directory must have as many entries as the archive's end record claims, and each must agree with the header before
the member's data. Members that overlap are refused: a small archive claims petabytes in that way.

``zipfile`` does not read the data: fuzzing showed that it gives empty members for damaged sizes. It decompresses bz2
without a bound, 853 bytes to 2 GB of memory for the first kilobyte. It takes 1.5 to 5 times as long, and reads zstd
only from Python 3.14 on.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from itertools import pairwise
from typing import Any

from datapipes.errors import CorruptZip, Loader2Error
from datapipes.io.archives.codecs import new_codec
from datapipes.io.archives.inflating import Expected, Inflating
from datapipes.io.archives.limits import Meter, Metered
from datapipes.io.archives.ranges import Range, Shared

_CODECS = {0: "stored", 8: "deflate", 12: "bz2", 14: "lzma1", 93: "zstd"}
_ENCRYPTED, _UTF8 = 0x1, 0x800
_HEADER = struct.Struct("<4s2xHH4xIIIHH")  # mark, flags, method, CRC, two sizes, lengths of name and extra field
_SIZES_FOLLOW = 0x8
_ELSEWHERE = 0xFFFFFFFF
_LONGEST_END = 22 + 0xFFFF
_UNIX = 3
_SMALL = 256 * 1024


def open_zip(file: Any, label: str) -> zipfile.ZipFile:
    """Open an archive with ``zipfile``."""
    try:
        return zipfile.ZipFile(file)
    except (Loader2Error, MemoryError):
        raise
    except Exception as error:
        raise CorruptZip(f"{label}: it is damaged, cut short, or not a zip archive: {error}") from error


def zip_entries(file: Any, label: str) -> list[zipfile.ZipInfo]:
    """Return the directory of an archive, folders included."""
    found = open_zip(file, label).infolist()
    claimed = _claimed(file, label)
    if claimed is not None and claimed != len(found):
        raise CorruptZip(f"{label}: its end claims {claimed} members, but its directory has {len(found)}")
    in_place = sorted(found, key=lambda info: info.header_offset)
    for one, other in pairwise(in_place):
        if one.header_offset + _HEADER.size + one.compress_size > other.header_offset:
            raise CorruptZip(f"{label}: the members {one.filename!r} and {other.filename!r} overlap")
    return found


def _claimed(file: Any, label: str) -> int | None:
    """Return the number of members that the archive's end record claims, or None if it has none."""
    size = file.seek(0, io.SEEK_END)
    file.seek(-min(size, _LONGEST_END + 76), io.SEEK_END)
    end = file.read(_LONGEST_END + 76)
    at = end.rfind(b"PK\x05\x06")
    (number,) = struct.unpack_from("<H", end, at + 10)
    if number == 0 and size - len(end) + at > 0:
        raise CorruptZip(f"{label}: its end claims that there are no members, but there is more data")
    if number < 0xFFFF:
        return int(number)
    if at >= 76 and end[at - 76 : at - 72] == b"PK\x06\x06":
        return int(struct.unpack_from("<Q", end, at - 76 + 32)[0])
    return None


def kind_of_member(info: zipfile.ZipInfo) -> str:
    """Return the kind of a member that is neither a regular file nor a folder; otherwise an empty string."""
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "" if stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR) else "a device"


def content(shared: Shared, info: zipfile.ZipInfo, path: str, meter: Meter) -> io.BufferedReader:
    """Open the data of a member, which is checked against its CRC."""
    at = info.header_offset
    header = shared.read_at(at, _HEADER.size + 4 * len(info.orig_filename))
    if len(header) < _HEADER.size or header[:4] != b"PK\x03\x04":
        raise CorruptZip(f"{path}: there is no member header at byte {at} of {shared.label}")
    _, flags, method, crc, packed, size, name_size, extra_size = _HEADER.unpack_from(header)
    name = header[_HEADER.size : _HEADER.size + name_size]  # cut off if it is longer than claimed, so it differs
    claimed = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437")
    if name != claimed or method != info.compress_type or (flags ^ info.flag_bits) & (_ENCRYPTED | _UTF8):
        raise CorruptZip(f"{path}: the header at byte {at} of {shared.label} is for {name!r}, or of another kind")
    if not flags & _SIZES_FOLLOW and (
        crc != info.CRC or packed not in (info.compress_size, _ELSEWHERE) or size not in (info.file_size, _ELSEWHERE)
    ):
        raise CorruptZip(f"{path}: the header at byte {at} of {shared.label} does not agree with the directory")
    if info.flag_bits & _ENCRYPTED:
        raise CorruptZip(f"{path}: it is encrypted, and passwords are not supported")
    if method not in _CODECS:
        raise CorruptZip(f"{path}: its compression method {method} is unknown")
    if info.is_dir() and info.file_size:
        raise CorruptZip(f"{path}: it is a folder but has {info.file_size} bytes of data")
    start = at + _HEADER.size + name_size + extra_size
    return io.BufferedReader(_Data(shared, start, info, path, meter))


class _Data(Metered):
    """Data of a member. A small member that is read whole is decompressed in one call."""

    def __init__(self, shared: Shared, start: int, info: zipfile.ZipInfo, path: str, meter: Meter) -> None:
        self._shared = shared
        self._start = start
        self._info = info
        self._path = path
        self._meter = self.meter = meter
        self._stream: Inflating | None = None
        self._is_over = False  # the data was read in one call

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._inflating().seek(offset, whence)

    def tell(self) -> int:
        if self._stream is not None:
            return self._stream.tell()
        return self._info.file_size if self._is_over else 0

    def readinto(self, buffer: Any) -> int:
        return self._inflating().readinto(buffer)

    def readall(self) -> bytes:
        if self._stream is None and not self._is_over and self._info.file_size <= _SMALL and (data := self._at_once()):
            return data
        return self._inflating().readall()

    def _inflating(self) -> Inflating:
        if self._stream is None:
            info = self._info
            source = Range(self._shared, self._start, info.compress_size, self._path, CorruptZip)
            expected = Expected(info.file_size, info.CRC)
            codec = _CODECS[info.compress_type]
            self._stream = Inflating(source, codec, self._path, self._meter, b"", expected, CorruptZip)
            if self._is_over:
                self._stream.went_through(info.compress_size, info.file_size)
        return self._stream

    def _at_once(self) -> bytes:
        """Read the whole member in one call. Return no bytes after any fault: the stream then raises the error."""
        info = self._info
        data = made = self._shared.read_at(self._start, info.compress_size, self._path)
        if info.compress_type == zipfile.ZIP_DEFLATED:
            codec = new_codec("deflate", self._meter.isal)
            try:
                made = codec.decompress(data, info.file_size + 1)
            except zlib.error:
                return b""
            if not codec.eof or codec.unused_data:
                return b""
        elif info.compress_type != zipfile.ZIP_STORED:
            return b""
        if len(data) != info.compress_size or len(made) != info.file_size or zlib.crc32(made) != info.CRC:
            return b""
        self._meter.took(len(data))
        self._meter.gave(len(made))
        self._is_over = True
        return made
