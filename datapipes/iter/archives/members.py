"""Members of archives as paths and streams; each path is checked to be below the archive's.

This module writes no files, but the paths that it yields may become file names. Therefore a name that leads outside the
archive is an error: an absolute name, one that leaves the archive by ``..`` (also with backslashes as separators), an
empty name, or one that contains NUL.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from os.path import dirname, join, normpath
from typing import Any, ClassVar, Literal, NoReturn, cast

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import Origin, StreamWrapper, can_seek, streams_of, unwrapped
from datapipes.errors import BadArgumentType, Loader2Error, StateError, UnsafeMember
from datapipes.io.archives.limits import Meter
from datapipes.io.archives.ranges import Shared
from datapipes.io.fast import fast_library
from datapipes.messages.warnings import warn
from datapipes.operator_support.flattening import Flattening
from datapipes.position.reopening import label

_PLAIN = re.compile(r"[\w-][\w. -]*(?:/[\w-][\w. -]*)*", re.ASCII).fullmatch  # normal, and safe below any path
_REMEDY = "on_error='skip' skips it"


@operator
class ArchiveStage(Flattening[tuple[str, StreamWrapper]]):
    """Stage that unpacks archives, ``(path, stream)``; each closes with the last stream that was opened from it."""

    datapipe: IterDataPipe[tuple[str, Any]]
    _out_of_streams: ClassVar[Literal["", "one of each", "several of each"]] = "several of each"
    _kind: ClassVar[str]

    def _inner_of_opening(self) -> Callable[[Any], ArchiveMembers]:
        return partial(self._members_of, fast_library("isal.isal_zlib"))

    def _members_of(self, isal: Any, element: Any) -> ArchiveMembers:
        path, archive = opened(element, str(self._fluent))
        try:
            return self._members(path, archive, isal)
        except Exception as error:
            warn_of(self._kind, error, self)
            raise

    def _members(self, path: str, archive: StreamWrapper, isal: Any) -> ArchiveMembers:
        """Return the members of an archive that was not read yet. ``isal`` is the module, if it is used."""
        raise NotImplementedError(f"{type(self).__name__} has no _members")

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        archive = cast("StreamWrapper", source)
        return self._members(archive.name or "", archive, fast_library("isal.isal_zlib")).again

    def _let_go(self, element: Any) -> None:
        for stream in streams_of(element):
            if isinstance(stream, StreamWrapper):
                stream.autoclose()


def opened(element: Any, method: str) -> tuple[str, StreamWrapper]:
    """Return an element of the source as a path and an open stream of bytes. Raise BadArgumentType otherwise."""
    if not isinstance(element, tuple) or len(element) != 2:
        raise BadArgumentType(f"{method}() needs tuples (path, stream), got {type(element).__name__}: {element!r:.80}")
    path, stream = element
    if not isinstance(path, str):
        raise BadArgumentType(f"{method}() needs a path as str, got {type(path).__name__}: {path!r:.80}")
    if not isinstance(stream, StreamWrapper | io.IOBase):
        raise BadArgumentType(
            f"{method}() needs an open file or a StreamWrapper, got {type(stream).__name__}: {stream!r:.80}"
        )
    if isinstance(unwrapped(stream), io.TextIOBase):
        raise BadArgumentType(f"{method}() needs bytes, and {path!r} is open as text: use open_files(mode='b')")
    return path, stream if isinstance(stream, StreamWrapper) else StreamWrapper(stream, name=path)


def origin_from_start(stream: StreamWrapper) -> Origin | None:
    """Return the origin of a stream. Return None if it was partly read: its content cannot be opened again."""
    file = unwrapped(stream)
    begun = isinstance(file, io.IOBase) and can_seek(file) and file.tell() != 0
    return None if begun else stream.origin


def placed(archive: str, name: str) -> str:
    """Return the path of a member. Raise UnsafeMember if it would not be below that of the archive.

    >>> placed("data/a.tar", "./x/1.txt")
    'data/a.tar/x/1.txt'
    >>> placed("data/a.tar", "../b.txt")
    Traceback (most recent call last):
        ...
    datapipes.errors.UnsafeMember: data/a.tar: the member '../b.txt' leads outside the archive; ...
    """
    if _PLAIN(name):
        return _below(archive) + name
    if name[:1] in ("/", "\\", "") or ".." in name or "\0" in name or not name.strip("./"):
        inner = _normal(name)
        if _is_outside(inner) or "\0" in name or inner == ".":
            raise UnsafeMember(f"{archive}: the member {name!r} leads outside the archive; {_REMEDY}")
    return normpath(join(archive, name))


@lru_cache(maxsize=16)
def _below(archive: str) -> str:
    """Return what the path of each member begins with."""
    return normpath(join(archive, "x"))[:-1]


def stays_within(name: str, target: str) -> bool:
    """Return whether a link of this name, relative to its own folder, leads to a place in the same archive.

    >>> stays_within("train/1.txt", "../val/1.txt"), stays_within("1.txt", "../b.tar"), stays_within("1.txt", "/etc")
    (True, False, False)
    """
    return not _is_outside(_normal(join(dirname(name), target)))


def _normal(name: str) -> str:
    return normpath(name.replace("\\", "/"))


def _is_outside(inner: str) -> bool:
    return inner[:1] == "/" or inner.split("/", 1)[0] == ".."


def irregular(archive: str, name: str, what: str) -> NoReturn:
    """Refuse a member that is not a regular file."""
    raise UnsafeMember(f"{archive}: the member {name!r} is {what}, and only regular files are read; {_REMEDY}")


class ArchiveMembers(Iterator[tuple[str, StreamWrapper]]):
    """Iterator over the members of one archive; after a refused one it continues with the next.

    The archive closes after the last member and the last stream that was opened from it.
    """

    def __init__(
        self,
        pipe: ArchiveStage,
        path: str,
        archive: StreamWrapper,
        entries: Iterator[Any],
        shared: Shared,
        origin: Origin | None,
    ) -> None:
        self.pipe = pipe
        self.path = path
        self.archive = archive
        self.entries = entries
        self.shared = shared
        self.label = label(pipe) or ""
        self.origin = origin if shared.seeks and self.label else None

    def member(self, entry: Any) -> tuple[str, StreamWrapper] | None:
        """Return the path and the stream of an entry, or None for an entry without output, such as a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no member")

    def ended(self) -> None:
        """Finish after the last member; does nothing by default."""

    def content(self, path: str, *key: Any) -> Any:
        """Open the data of the entry with this path and key."""
        raise NotImplementedError(f"{type(self).__name__} has no content")

    def again(self, path: str, *key: Any) -> StreamWrapper:
        """Open an entry again that was given before."""
        return StreamWrapper(self.content(path, *key), self.archive, path)

    def __next__(self) -> tuple[str, StreamWrapper]:
        try:
            for entry in self.entries:
                if (member := self.member(entry)) is not None:
                    return member
        except Exception as error:
            warn_of(self.pipe._kind, error, self.pipe)
            raise
        self.archive.autoclose()
        self.ended()
        raise StopIteration


class ListedMembers(ArchiveMembers):
    """Members of an archive that has a directory; the offset of its header identifies an entry."""

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

    def data(self, entry: Any, path: str) -> io.BufferedReader:
        """Open the data of an entry."""
        raise NotImplementedError(f"{type(self).__name__} has no data")

    def given(self, path: str, file: Any, entry: Any) -> tuple[str, StreamWrapper]:
        """Return the path and the stream of an entry."""
        stream = StreamWrapper(file, self.archive, path)
        if self.origin is not None:
            stream.origin = self.label, (path, entry.header_offset), self.origin
        return path, stream

    def content(self, path: str, offset: int) -> io.BufferedReader:
        entry = next((entry for entry in self.found if entry.header_offset == offset), None)
        if entry is None or entry.is_dir():
            raise StateError("the archive no longer has such a member")
        return self.data(entry, path)


def warn_of(kind: str, error: Exception, pipe: IterDataPipe[Any]) -> None:
    """Warn before the error is raised, as torchdata did. A filter that raises warnings does not hide the error.

    Another ``on_error`` has its own warning.
    """
    if isinstance(error, Loader2Error) and pipe.on_error == "raise":
        with suppress(UserWarning):
            warn(f"corrupted {kind} stream: {error}")
