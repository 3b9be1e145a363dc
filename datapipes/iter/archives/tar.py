"""load_from_tar: the files in tar archives, plain or compressed."""

from __future__ import annotations

import io
import tarfile
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper, unwrapped
from datapipes.errors import CorruptTar
from datapipes.io.archives.limits import MAX_RATIO, Limits
from datapipes.io.archives.ranges import Range, Shared
from datapipes.io.archives.tar_entries import SYMBOLIC_LINK, Entry, content_of, entries, plain_tar
from datapipes.iter.archives.members import (
    ArchiveStage,
    Members,
    irregular,
    origin_from_start,
    placed,
    stays_within,
)
from datapipes.messages.warnings import warn
from datapipes.operators.checks import given_length, needs
from datapipes.position.on_error import Tolerant

_CODECS = {"*": None, "": "", "gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "zstd"}
_MODES = {"r": "r:*", **{f"r{how}{codec}": f"r{how}{codec}" for how in ":|" for codec in _CODECS}}


@operator
class TarArchiveLoader(Tolerant, ArchiveStage):
    """``(path, stream)`` for each regular file in each tar archive, in order; folders are passed over.

    The path is that of the archive and then that of the member. Where the archive is a file that can be sought,
    streams may be read in any order, also after the last; otherwise one by one as they come. Links to other members
    are passed over, with a warning that counts them. A link that leads outside the archive, a name that does, and a
    device are errors, and the next element is the member after it. Archives must end with their marker: one that was
    written without it gives all its members, and then an error, which ``on_error="skip"`` passes over. A damaged header
    is an error too (torchdata ended there without a word). Of plain tar no reader can notice changed data, because it
    has no checksum. The limits are for all that comes out of one compressed archive.

    Args:
        mode: ``"r:*"`` or ``"r"`` finds out how each archive is compressed; with ``"r:gz"``, ``"r:bz2"``, ``"r:xz"`` or
            ``"r:zst"`` all are compressed so, with ``"r:"`` none is. With ``|`` in place of ``:`` an archive is only
            read forward: each stream has to be read before the next is asked for.

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

    def _members(self, path: str, archive: StreamWrapper) -> Members:
        origin = origin_from_start(archive)
        shared = self._shared(path, unwrapped(archive))
        return _TarMembers(self, path, archive, entries(shared), shared, origin)

    def _shared(self, path: str, file: Any) -> Shared:
        mode = _MODES[self.mode]
        if isinstance(file, tarfile.TarFile):
            content = content_of(file, path)
        else:
            content = plain_tar(file, path, Limits(self.max_ratio, self.max_bytes), _CODECS[mode[2:]])
        return Shared(content, path, in_order=mode[1] == "|")

    __len__ = given_length


class _TarMembers(Members):
    links = 0  # passed over so far

    def member(self, entry: Entry) -> tuple[str, io.BufferedReader] | None:
        name, kind, start, size, target = entry
        path = placed(self.path, name)
        if kind:
            # A hard link is named from the top of the archive, a symbolic one from the folder that it is in.
            if not target or not stays_within(name if kind == SYMBOLIC_LINK else "", target):
                irregular(self.path, name, f"{kind} to {target!r:.80}" if target else kind)
            self.links += 1
            return None
        return path, self.content(path, start, size)

    def ended(self) -> None:
        links, self.links = self.links, 0
        if links:
            warn(f"load_from_tar(): {self.path}: passed over {links} link(s) to other members of the archive")

    def key(self, entry: Entry) -> tuple[int, int]:
        return entry.start, entry.size

    def content(self, path: str, start: int, size: int) -> io.BufferedReader:
        return io.BufferedReader(Range(self.shared, start, size, path, CorruptTar))
