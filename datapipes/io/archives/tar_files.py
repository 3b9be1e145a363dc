"""A tar archive's content, decompressed by us, also for ``tarfile``: as an object that opens when it is first used."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from datapipes.elements.streams import can_seek
from datapipes.errors import BadArgumentType
from datapipes.io.archives.codecs import LONGEST_BEGINNING, codec_of
from datapipes.io.archives.inflating import inflated
from datapipes.io.archives.limits import Limits


def plain_tar(file: Any, path: str, limits: Limits, codec: str | None) -> Any:
    """An archive's content without compression; if ``codec`` is None, the first bytes tell which it has."""
    head = b""
    if codec is None:
        while len(head) < LONGEST_BEGINNING and (more := file.read(LONGEST_BEGINNING - len(head))):
            head += more
        codec = codec_of(head)
    if not codec and can_seek(file):
        file.seek(-len(head), io.SEEK_CUR)
        return file
    return inflated(file, codec or "stored", path, limits, head)


def content_of(archive: tarfile.TarFile, path: str) -> Any:
    """The content of an archive that ``tarfile`` has opened, from its beginning."""
    if isinstance(archive, LazyTar) and not archive.is_open:
        return archive.content
    file: Any = archive.fileobj
    if not can_seek(file):
        raise BadArgumentType(f"load_from_tar(): {path} is open as a stream by tarfile, and was read already")
    first: Any = vars(archive)["firstmember"]
    file.seek(0 if first is None else first.offset)
    return file


class LazyTar(tarfile.TarFile):
    """A ``TarFile`` that reads nothing before it is used, so that its content is there for others, from its start."""

    def __init__(self, content: Any, path: str) -> None:
        # Not the constructor of TarFile, which reads the first header: see __getattr__.
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
        archive = tarfile.open(self._path, mode, self.content)  # noqa: SIM115 - it is this object from here on
        vars(self).update(vars(archive))
        return getattr(self, name)

    def close(self) -> None:
        if self.is_open:
            super().close()
        self.content.close()
