"""Reader of tar archives: the content, and the headers in ustar, GNU long names, pax and base 256.

Written by hand because Python's tarfile takes four to five times as long for each member. Of a file that can be read
anywhere at the same cost, headers and small members are read many at a time.

A header's checksum must match, and an archive must end with two blocks of zeros. After them there may be another
archive (`cat a.tar b.tar`), zeros or nothing. More zeros than any program pads with are an error: an interrupted
download leaves them in a file that was allocated at full size. Tar has no checksum of the data: a changed byte, or a
small hole of zeros that covers whole members, is undetectable unless the archive is compressed.
"""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import adler32

from datapipes.elements.streams import can_seek
from datapipes.errors import BadArgumentType, CorruptTar
from datapipes.io.archives.codecs import LONGEST_BEGINNING, codec_of
from datapipes.io.archives.inflating import inflated
from datapipes.io.archives.limits import Unpacking
from datapipes.io.archives.ranges import MOST, Shared

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_MOST_SIZE = 2**60
_MOST_ZEROS = 2**20
_BLANK_CHECKSUM = b" " * 8
_BLANK_SUM = sum(_BLANK_CHECKSUM)
_REGULAR = b"0", b"7", b"\0"
_NO_LINK = bytes(100)
_CHECKED = struct.Struct("148x8sc100s5s250x").unpack
_MARKS = b"ustar", b"\0\0\0\0\0"  # the zeros are in archives from before 1988
_FOLDERS = b"5", b"D"
_LINKS = b"1", b"2"
_WITHOUT_DATA = b"1", b"2", b"3", b"4", b"5", b"6"
_SMALL = 8 * 1024
_FEW = 4 * _BLOCK
_MOST_WINDOW = 128 * 1024

SYMBOLIC_LINK = "a symbolic link"

KINDS = {
    b"1": "a hard link",
    b"2": SYMBOLIC_LINK,
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a named pipe",
    b"S": "a sparse file",
    b"M": "a part of a file in several volumes",
}
"""Types of members that are not regular files."""


class Entry(NamedTuple):
    """Member as its header describes it: ``kind`` is empty for a regular file, ``target`` is set for a link.

    ``data`` is the content of a small file, if it was read together with its header.
    """

    name: str
    kind: str
    start: int
    size: int
    target: str = ""
    data: bytes | None = None


def entries(shared: Shared) -> Iterator[Entry]:
    """Yield the members that are not folders, in order. Raise CorruptTar if the archive is damaged or cut short."""
    at = 0
    zeros = 0  # number of zero bytes directly before `at`
    everywhere: dict[str, str] = {}  # values of a global pax header, for all members after it
    own: dict[str, str] = {}  # values of the headers before one member
    read_at, new = shared.read_at, tuple.__new__
    least, few = (_SMALL, _FEW) if shared.reads_anywhere else (0, _BLOCK)
    window, base, ahead = b"", 0, few  # bytes that were read, their offset, and the number of bytes to read next
    while True:
        block = window[at - base : at - base + _BLOCK]
        if len(block) < _BLOCK:
            window, base = read_at(at, ahead), at
            block = window[:_BLOCK]
        if block == _ZEROS or (zeros and not block.strip(b"\0")):
            if own:
                raise _corrupt(shared, at, "a long name belongs to no member")
            if zeros > _MOST_ZEROS:
                raise _corrupt(shared, at, f"there are {zeros} zeros before it, as in a file that was never filled")
            if len(block) < _BLOCK:
                if zeros < 2 * _BLOCK:
                    raise _cut_short(shared, at, len(block))
                return
            zeros, everywhere = zeros + _BLOCK, {}
            at += _BLOCK
            continue
        if len(block) < _BLOCK:
            raise _cut_short(shared, at, len(block))
        if not _is_sound(block) or zeros == _BLOCK:
            raise _corrupt(shared, at, "a header has a wrong checksum or mark")
        zeros = 0
        kind, size = block[156:157], _number(shared, at, block[124:136])
        start = at + _BLOCK
        if kind == b"0" and not own and not everywhere:
            data = None
            if size < least:
                ahead = min(2 * ahead, _MOST_WINDOW)
                data = window[start - base : start - base + size]
                if len(data) < size:
                    window, base = read_at(start, max(ahead, least)), start
                    data = window[:size] if len(window) >= size else None
            else:
                ahead = few
            yield new(Entry, (_name(block), "", start, size, "", data))
        elif kind in (b"x", b"X", b"g"):
            records = _pax(shared, at, _text_after(shared, start, size))
            (everywhere if kind == b"g" else own).update(records)
        elif kind in (b"L", b"K"):
            name = _text_after(shared, start, size).split(b"\0", 1)[0]
            own["path" if kind == b"L" else "linkpath"] = _decoded(name)
        else:
            said = {**everywhere, **own} if own or everywhere else own
            own = {}
            if said and "size" in said:
                size = _size_of(shared, at, said["size"])
            name_of = said.get("path") or _name(block)
            if kind in _REGULAR:
                if said and any(key.startswith("GNU.sparse.") for key in said):
                    yield Entry(name_of, KINDS[b"S"], start, size)
                elif kind != b"\0" or name_of[-1:] != "/":
                    ahead = few
                    yield Entry(name_of, "", start, size)
            elif kind in _WITHOUT_DATA:
                size = 0
            if kind in _LINKS:
                target = said.get("linkpath") or _decoded(block[157:257].split(b"\0", 1)[0])
                yield Entry(name_of, KINDS[kind], start, size, target)
            elif kind not in _REGULAR and kind not in _FOLDERS and kind != b"V":
                yield Entry(name_of, KINDS.get(kind) or f"of the unknown type {kind!r}", start, size)
        at = start + (size + _BLOCK - 1) // _BLOCK * _BLOCK


def _is_sound(block: bytes) -> bool:
    field, kind, link, mark = _CHECKED(block)
    if mark not in _MARKS:
        return False
    if kind in _REGULAR and link != _NO_LINK:  # a sum does not detect bytes that only moved
        return False
    # The lower half of Adler-32 is the sum of the bytes plus one, modulo 65521: a sum in one call of C.
    expected = (adler32(block) & 0xFFFF) - (adler32(field) & 0xFFFF) + _BLANK_SUM
    if field == b"%06o\0 " % expected:  # as nearly all programs write it
        return True
    try:
        claimed = int(field.replace(b"\0", b" ").split(b" ")[0] or field.strip(b" \0"), 8)
    except ValueError:
        return False
    if (claimed - expected) % 65521 == 0:
        return True
    signed = sum(byte - 256 if byte > 127 else byte for byte in block[:148] + _BLANK_CHECKSUM + block[156:])
    return claimed == signed  # as some old programs computed it


def _name(block: bytes) -> str:
    name = block[:100].split(b"\0", 1)[0]
    if block[345] and block[257:263] == b"ustar\0":
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    return name.decode("utf-8", "surrogateescape")


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _number(shared: Shared, at: int, field: bytes) -> int:
    """Return a header's number: octal digits, or, if the first bit is set, a binary integer."""
    try:
        size = int.from_bytes(field[1:], "big") if field[0] == 0x80 else int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        size = -1
    if not 0 <= size <= _MOST_SIZE:
        raise _corrupt(shared, at, f"a header's size is {field!r}")
    return size


def _size_of(shared: Shared, at: int, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _MOST_SIZE):
        raise _corrupt(shared, at, f"a pax header's size is {text!r:.40}")
    return int(text)


def _text_after(shared: Shared, start: int, size: int) -> bytes:
    """Return the data after a header that describes the next member."""
    if size > MOST:
        raise _corrupt(shared, start - _BLOCK, f"a header claims {size} bytes, which no name has")
    data = shared.read_at(start, size)
    if len(data) < size:
        raise _cut_short(shared, start, len(data))
    return data


def _pax(shared: Shared, at: int, data: bytes) -> dict[str, str]:
    """Return the records of a pax header. Each is ``length key=value`` and a newline."""
    records: dict[str, str] = {}
    done = 0
    while done < len(data):
        digits, space, _ = data[done : done + 20].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        key, equals, value = data[done + len(digits) + 1 : done + length].partition(b"=")
        if length < len(digits) + 4 or done + length > len(data) or not equals or value[-1:] != b"\n":
            raise _corrupt(shared, at, f"no record begins at byte {done} of a pax header")
        records[_decoded(key)] = _decoded(value[:-1])
        done += length
    return records


def _cut_short(shared: Shared, at: int, there: int) -> CorruptTar:
    what = "the file is empty" if not at and not there else f"it is cut short at byte {at + there} or before"
    return CorruptTar(f"{shared.label}: {what}: the marker of a tar archive's end is missing")


def _corrupt(shared: Shared, at: int, what: str) -> CorruptTar:
    return CorruptTar(f"{shared.label}: {what}; the header at byte {at} is damaged, or this is not a tar archive")


def plain_tar(file: Any, path: str, unpacking: Unpacking, codec: str | None) -> Any:
    """Return an archive's content, decompressed. If ``codec`` is None, the first bytes determine the compression."""
    head = b""
    if codec is None:
        while len(head) < LONGEST_BEGINNING and (more := file.read(LONGEST_BEGINNING - len(head))):
            head += more
        codec = codec_of(head)
    if not codec and can_seek(file):
        file.seek(-len(head), io.SEEK_CUR)
        return file
    return inflated(file, codec or "stored", path, unpacking, head)


def content_of(archive: tarfile.TarFile, path: str) -> Any:
    """Return the content of an archive that ``tarfile`` has opened, from its beginning."""
    if isinstance(archive, LazyTar) and not archive.is_open:
        return archive.content
    file: Any = archive.fileobj
    if not can_seek(file):
        raise BadArgumentType(f"load_from_tar(): {path} is open as a stream by tarfile, and was already read")
    first: Any = vars(archive)["firstmember"]
    file.seek(0 if first is None else first.offset)
    return file


class LazyTar(tarfile.TarFile):
    """``TarFile`` that reads nothing before its first use, so that other code can read the content from its start."""

    def __init__(self, content: Any, path: str) -> None:
        # TarFile's constructor is not called, because it reads the first header: see __getattr__.
        self.content = content
        self._path = path

    @property
    def is_open(self) -> bool:
        """Whether ``tarfile`` has begun to read."""
        return "members" in vars(self)

    def __getattr__(self, name: str) -> Any:
        if self.is_open or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        mode: Any = "r:" if can_seek(self.content) else "r|"
        archive = tarfile.open(self._path, mode, self.content)  # noqa: SIM115 - its attributes move into this object
        vars(self).update(vars(archive))
        return getattr(self, name)

    def close(self) -> None:
        if self.is_open:
            super().close()
        self.content.close()
