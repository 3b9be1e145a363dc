"""load_from_rar: the files in RAR archives."""

from __future__ import annotations

import io
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import Origin, StreamWrapper, unwrapped
from datapipes.io.archives.limits import MAX_RATIO, Limits, Meter, meter_of
from datapipes.io.archives.ranges import Shared
from datapipes.io.archives.rar_entries import RarData, content, rar_entries
from datapipes.io.archives.spool import seekable
from datapipes.iter.archives.members import ArchiveStage, Members, irregular, origin_from_start, placed, the_one
from datapipes.messages.extras import needed
from datapipes.operators.checks import given_length
from datapipes.position.on_error import Tolerant


@operator
class RarArchiveLoader(Tolerant, ArchiveStage):
    """``(path, stream)`` for each file in each RAR archive, in order; folders are passed over.

    Stored members are read directly. Others need a program, one of `unrar`, `unar`, `7z` and `bsdtar`; where there is
    none, reading such a member is an error (torchdata refused to build the pipe). Otherwise as `load_from_zip`.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> data = "526172211a070100c51a3332030100008f6ddf1e130202020402a403ac2a93d8000105612e747874686919b23a3503050000"
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

    def _members(self, path: str, archive: StreamWrapper) -> Members:
        origin = origin_from_start(archive)
        file = unwrapped(archive)
        if isinstance(getattr(file, "raw", None), RarData):
            raise ValueError(f"Nested RAR archive is not supported: {path}")
        meter = Meter(Limits(self.max_ratio, self.max_bytes), path, meter_of(file))
        file, shared = seekable(file, path)
        return _RarMembers(self, path, archive, rar_entries(file, shared), shared, origin, meter)

    __len__ = given_length


class _RarMembers(Members):
    def __init__(
        self,
        pipe: ArchiveStage,
        path: str,
        archive: StreamWrapper,
        found: list[Any],
        shared: Shared,
        origin: Origin | None,
        meter: Meter,
    ) -> None:
        super().__init__(pipe, path, archive, iter(found), shared, origin)
        self.found = found
        self.meter = meter

    def member(self, entry: Any) -> tuple[str, io.BufferedReader] | None:
        if entry.is_dir():
            return None
        if not entry.is_file():
            irregular(self.path, entry.filename, "a link or a device")
        path = placed(self.path, entry.filename)
        return path, content(self.shared, entry, path, self.meter)

    def key(self, entry: Any) -> tuple[int]:
        return (entry.header_offset,)

    def content(self, path: str, offset: int) -> io.BufferedReader:
        return content(self.shared, the_one(self.found, lambda entry: entry.header_offset == offset), path, self.meter)
