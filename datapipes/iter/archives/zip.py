"""load_from_zip: the files in zip archives."""

from __future__ import annotations

import io
import zipfile
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper, unwrapped
from datapipes.io.archives.limits import MAX_RATIO, Meter, Unpacking, meter_of
from datapipes.io.archives.ranges import seekable
from datapipes.io.archives.zip_entries import content, kind_of_member, zip_entries
from datapipes.iter.archives.members import (
    ArchiveMembers,
    ArchiveStage,
    ListedMembers,
    irregular,
    origin_from_start,
    placed,
)
from datapipes.operator_support.checks import given_length
from datapipes.position.on_error import Tolerant


@operator
class ZipArchiveLoader(Tolerant, ArchiveStage):
    """``(path, stream)`` for each file in each zip archive, in the order of its directory; folders are skipped.

    A path is the archive's path followed by the member's. Streams may be read in any order, also after the last one.
    The last bytes of a member are given after its checksum is verified. A member that is a link or a device, or whose
    name leads outside the archive, is an error; the next element is the following member. A stream that cannot be
    sought is copied first. The limits apply to the whole output of one archive. Deflated members are decompressed by
    isal if it is installed (``loader2[fast]``).

    >>> import io, zipfile
    >>> from datapipes.iter import IterableWrapper
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("one.txt", "1")
    >>> pipe = IterableWrapper([("a.zip", io.BytesIO(file.getvalue()))], deepcopy=False).load_from_zip()
    >>> [(path, stream.read()) for path, stream in pipe]
    [('a.zip/one.txt', b'1')]
    """

    _fluent: ClassVar[str | None] = "load_from_zip"
    _kind: ClassVar[str] = "zipfile"
    _stream_key: ClassVar[tuple[type, ...] | None] = (str, int)

    datapipe: IterDataPipe[tuple[str, Any]]
    length: int | None = None
    _: KW_ONLY
    max_ratio: float | None = MAX_RATIO
    max_bytes: int | None = None

    def _members(self, path: str, archive: StreamWrapper, isal: Any) -> ArchiveMembers:
        origin = origin_from_start(archive)
        file = unwrapped(archive)
        file = file.fp if isinstance(file, zipfile.ZipFile) else file
        meter = Meter(Unpacking(self.max_ratio, self.max_bytes, isal), path, meter_of(file))
        file, shared = seekable(file, path)
        return _ZipMembers(self, path, archive, zip_entries(file, path), shared, origin, meter)

    __len__ = given_length


class _ZipMembers(ListedMembers):
    def member(self, entry: zipfile.ZipInfo) -> tuple[str, StreamWrapper] | None:
        if kind := kind_of_member(entry):
            irregular(self.path, entry.filename, kind)
        path = placed(self.path, entry.orig_filename)
        file = self.data(entry, path)
        return None if entry.is_dir() else self.given(path, file, entry)

    def data(self, entry: zipfile.ZipInfo, path: str) -> io.BufferedReader:
        return content(self.shared, entry, path, self.meter)
