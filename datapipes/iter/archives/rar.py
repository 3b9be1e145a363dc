"""load_from_rar: the files in RAR archives, found by the package ``rarfile``, and their data.

This module reads stored data and checks it against its CRC. ``rarfile`` and one of the programs that it knows read
other data, and check it as well. Every reader has its own view of the archive.
"""

from __future__ import annotations

import io
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper, unwrapped
from datapipes.errors import CorruptData, Loader2Error
from datapipes.io.archives.inflating import Expected, Inflating
from datapipes.io.archives.limits import MAX_RATIO, Meter, Metered, Unpacking, meter_of
from datapipes.io.archives.ranges import Range, Shared, seekable
from datapipes.iter.archives.members import (
    ArchiveMembers,
    ArchiveStage,
    ListedMembers,
    irregular,
    origin_from_start,
    placed,
)
from datapipes.messages.extras import needed
from datapipes.operator_support.checks import given_length
from datapipes.position.on_error import Tolerant

_STORED = 0x30
_BLOCK_OF_END = 0x7B
_SPLIT = 0x01 | 0x02  # the member extends over several volumes


@operator
class RarArchiveLoader(Tolerant, ArchiveStage):
    """``(path, stream)`` for each file in each RAR archive, in order; folders are skipped.

    Stored members are read directly. Others need one of the programs `unrar`, `unar`, `7z` and `bsdtar`; without one,
    reading such a member is an error. Otherwise as `load_from_zip`.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> data = (
    ...     "526172211a070100c51a3332030100008f6ddf1e130202020402"
    ...     "a403ac2a93d8000105612e747874686919b23a3503050000"
    ... )
    >>> pipe = IterableWrapper([("a.rar", io.BytesIO(bytes.fromhex(data)))], deepcopy=False).load_from_rar()
    >>> [(path, stream.read()) for path, stream in pipe]
    [('a.rar/a.txt', b'hi')]
    """

    _fluent: ClassVar[str | None] = "load_from_rar"
    _kind: ClassVar[str] = "rarfile"
    _stream_key: ClassVar[tuple[type, ...] | None] = (str, int)

    datapipe: IterDataPipe[tuple[str, Any]]
    _: KW_ONLY
    length: int | None = None
    max_ratio: float | None = MAX_RATIO
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        needed("rarfile", "rar", "load_from_rar")
        super().__post_init__()

    def _members(self, path: str, archive: StreamWrapper, isal: Any) -> ArchiveMembers:
        origin = origin_from_start(archive)
        file = unwrapped(archive)
        if isinstance(getattr(file, "raw", None), RarData):
            raise ValueError(f"Nested RAR archive is not supported: {path}")
        meter = Meter(Unpacking(self.max_ratio, self.max_bytes), path, meter_of(file))
        file, shared = seekable(file, path)
        return _RarMembers(self, path, archive, rar_entries(file, shared), shared, origin, meter)

    __len__ = given_length


class _RarMembers(ListedMembers):
    def member(self, entry: Any) -> tuple[str, StreamWrapper] | None:
        if entry.is_dir():
            return None
        if not entry.is_file():
            irregular(self.path, entry.filename, "a link or a device")
        path = placed(self.path, entry.filename)
        return self.given(path, self.data(entry, path), entry)

    def data(self, entry: Any, path: str) -> io.BufferedReader:
        return content(self.shared, entry, path, self.meter)


def rar_entries(file: Any, shared: Shared) -> list[Any]:
    """Return the directory of an archive, folders included. Set the archive's size on each entry."""
    size = file.seek(0, io.SEEK_END)
    blocks: list[int] = []
    archive = _parsed(shared, size, lambda block: blocks.append(block.type))
    if _BLOCK_OF_END not in blocks[-1:]:
        raise CorruptData(f"{shared.label}: it ends at byte {size}, without the end block of a RAR archive")
    found = list(archive.infolist())
    for entry in found:
        entry.archive_size = size
    return found


def _parsed(shared: Shared, size: int, callback: Any = None) -> Any:
    rarfile = needed("rarfile", "rar")
    view = io.BufferedReader(Range(shared, 0, size, shared.label, CorruptData))
    try:
        return rarfile.RarFile(view, errors="strict", info_callback=callback)
    except Loader2Error:
        raise
    except MemoryError:
        raise
    except Exception as error:
        raise CorruptData(f"{shared.label}: it is damaged, cut short, or not a RAR archive: {error}") from error


def content(shared: Shared, entry: Any, path: str, meter: Meter) -> io.BufferedReader:
    """Open the data of a member, which is checked against its checksum."""
    if entry.needs_password():
        raise CorruptData(f"{path}: it is encrypted, and passwords are not supported")
    if entry.flags & _SPLIT:
        raise CorruptData(f"{path}: it continues in another volume, and archives of several volumes are not supported")
    raw: RarData = (
        StoredMember(shared, entry, path, meter) if _is_stored(entry) else CompressedMember(shared, entry, path, meter)
    )
    return io.BufferedReader(raw)


def _is_stored(entry: Any) -> bool:
    return entry.compress_type == _STORED and entry.CRC is not None


class RarData(Metered):
    """Data of a member of a RAR archive."""


class StoredMember(RarData, Inflating):
    """Data of a member that is not compressed."""

    def __init__(self, shared: Shared, entry: Any, path: str, meter: Meter) -> None:
        source = Range(shared, entry.data_offset, entry.compress_size, path, CorruptData)
        expected = Expected(entry.file_size, entry.CRC)
        super().__init__(source, "stored", path, meter, b"", expected, CorruptData)


class CompressedMember(RarData):
    """Data of a member that a program unpacks. The first read starts the program."""

    def __init__(self, shared: Shared, entry: Any, path: str, meter: Meter) -> None:
        self._shared = shared
        self._entry = entry
        self._path = path
        self._meter = self.meter = meter
        self._file: Any = None
        self._given = 0

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: Any) -> int:
        rarfile = needed("rarfile", "rar")
        try:
            if self._file is None:
                self._file = _parsed(self._shared, self._entry.archive_size).open(self._entry.filename)
                self._meter.took(self._entry.compress_size)
            data = self._file.read(len(buffer))
        except rarfile.RarCannotExec as error:
            error.add_note(f"{self._path} is compressed: install one of the programs unrar, unar, 7z, bsdtar")
            raise
        except (rarfile.Error, EOFError) as error:
            raise CorruptData(f"{self._path}: after {self._given} bytes: {error}") from error
        self._given += len(data)
        self._meter.gave(len(data))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._file is not None and not self.closed:
            self._file.close()
        super().close()
