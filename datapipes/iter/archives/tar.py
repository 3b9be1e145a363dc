"""load_from_tar: the files in tar archives, plain or compressed."""

from __future__ import annotations

import io
import tarfile
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import MemberStream, StreamWrapper, unwrapped
from datapipes.errors import CorruptTar
from datapipes.io.archives.limits import MAX_RATIO, Unpacking
from datapipes.io.archives.ranges import MOST, Range, Shared
from datapipes.io.archives.tar_entries import SYMBOLIC_LINK, Entry, content_of, entries, plain_tar
from datapipes.iter.archives.members import (
    ArchiveMembers,
    ArchiveStage,
    irregular,
    origin_from_start,
    placed,
    stays_within,
)
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import given_length, needs
from datapipes.position.on_error import Tolerant

_CODECS = {"*": None, "": "", "gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "zstd"}
_MODES = {"r": "r:*", **{f"r{how}{codec}": f"r{how}{codec}" for how in ":|" for codec in _CODECS}}


@operator
class TarArchiveLoader(Tolerant, ArchiveStage):
    """``(path, stream)`` for each regular file in each tar archive, in order; folders are skipped.

    A path is the archive's path followed by the member's. If the archive can be sought, its streams may be read in any
    order, also after the last one; otherwise each is read before the next is requested. Links to other members are
    skipped, with a warning that counts them. A device, and a link or a name that leads outside the archive, are errors;
    the next element is the following member. A damaged header is an error. An archive without the end marker gives all
    its members and then an error, which ``on_error="skip"`` skips. Changed data in plain tar is undetectable, because
    tar has no checksum of the data. The limits apply to the whole output of one compressed archive. gzip is
    decompressed by isal if it is installed (``loader2[fast]``).

    Args:
        mode: ``"r:*"`` or ``"r"`` detects the compression of each archive. ``"r:gz"``, ``"r:bz2"``, ``"r:xz"``,
            ``"r:zst"`` and ``"r:"`` (none) set it for all. With ``|`` instead of ``:`` an archive is only read
            forward: each stream must be read before the next is requested.

    >>> import io, tarfile
    >>> from datapipes.iter import IterableWrapper
    >>> file = io.BytesIO()
    >>> with tarfile.open(fileobj=file, mode="w:gz") as archive:
    ...     archive.addfile(tarfile.TarInfo("one.txt"))
    >>> pipe = IterableWrapper([("a.tar.gz", io.BytesIO(file.getvalue()))], deepcopy=False).load_from_tar()
    >>> [(path, stream.read()) for path, stream in pipe]
    [('a.tar.gz/one.txt', b'')]
    """

    _fluent: ClassVar[str | None] = "load_from_tar"
    _kind: ClassVar[str] = "tarfile"
    _stream_key: ClassVar[tuple[type, ...] | None] = (str, int, int)

    datapipe: IterDataPipe[tuple[str, Any]]
    mode: str = "r:*"
    length: int | None = None
    _: KW_ONLY
    max_ratio: float | None = MAX_RATIO
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        needs(self.mode in _MODES, self, f"Invalid mode {self.mode!r}: choose one of {', '.join(_MODES)}")

    def _members(self, path: str, archive: StreamWrapper, isal: Any) -> ArchiveMembers:
        origin = origin_from_start(archive)
        shared = self._shared(path, unwrapped(archive), isal)
        return _TarMembers(self, path, archive, entries(shared), shared, origin)

    def _shared(self, path: str, file: Any, isal: Any) -> Shared:
        mode = _MODES[self.mode]
        if isinstance(file, tarfile.TarFile):
            content = content_of(file, path)
        else:
            unpacking = Unpacking(self.max_ratio, self.max_bytes, isal)
            content = plain_tar(file, path, unpacking, _CODECS[mode[2:]])
        return Shared(content, path, in_order=mode[1] == "|")

    __len__ = given_length


class SmallMember(io.BytesIO):
    """Content of a small member. A saved state has its place in the archive, unlike a ``BytesIO``."""

    __slots__ = ()


class _TarMembers(ArchiveMembers):
    links = 0  # number of links skipped so far

    def member(self, entry: Entry) -> tuple[str, StreamWrapper] | None:
        name, kind, start, size, target, _ = entry
        path = placed(self.path, name)
        if kind:
            # The target of a hard link is relative to the archive, that of a symbolic link to its folder.
            if not target or not stays_within(name if kind == SYMBOLIC_LINK else "", target):
                irregular(self.path, name, f"{kind} to {target!r:.80}" if target else kind)
            self.links += 1
            return None
        origin = self.origin
        if origin is not None:
            origin = self.label, (path, start, size), origin
        return path, MemberStream(self.archive, self, path, entry, origin)

    def ended(self) -> None:
        links, self.links = self.links, 0
        if links:
            warn(f"load_from_tar(): {self.path}: skipped {links} link(s) to other members of the archive")

    def whole(self, entry: Entry) -> bytes | None:
        """Return the data of a member, or None if its file must read it or raise an error."""
        _, _, start, size, _, data = entry
        if data is not None:
            return data
        if self.shared.seeks and size <= MOST and len(data := self.shared.read_at(start, size)) == size:
            return data
        return None

    def opened(self, entry: Entry, is_read: bool) -> io.BufferedIOBase:
        """Return the file of a member, at its end if ``is_read``."""
        name, _, start, size, _, data = entry
        if data is None:
            return self.content(placed(self.path, name), start, size, size if is_read else 0)
        file = SmallMember(data)
        file.seek(size if is_read else 0)
        return file

    def content(self, path: str, start: int, size: int, done: int = 0) -> io.BufferedReader:
        return io.BufferedReader(Range(self.shared, start, size, path, CorruptTar, done))
