"""What a member of an archive may be called, and what is given for one: a path below the archive's, and a stream.

Nothing here writes, but the paths that are yielded may end as names of files elsewhere. So a name that leads outside
the archive is an error: an absolute one, one that climbs out by ``..`` (or would, where backslashes part names), an
empty one, one with a NUL in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from os.path import dirname, join, normpath
from typing import Any, ClassVar, NoReturn

from datapipes.archives.ranges import Shared
from datapipes.errors import BadArgumentType, Loader2Error, UnsafeMember
from datapipes.flattening import Flattening
from datapipes.pipe import IterDataPipe
from datapipes.streams import StreamWrapper, streams_of, unwrapped
from datapipes.warned import warn

_REMEDY = "on_error='skip' passes over it"


class ArchiveStage(Flattening[tuple[str, StreamWrapper]]):
    """A stage that takes ``(path, stream)`` apart; a stream closes with the last of those that came out of it."""

    datapipe: IterDataPipe[tuple[str, Any]]
    _kind: ClassVar[str]

    def _let_go(self, element: Any) -> None:
        for stream in streams_of(element):
            if isinstance(stream, StreamWrapper):
                stream.autoclose()


def opened(element: Any, method: str) -> tuple[str, StreamWrapper]:
    """An element of the source as a path and an open stream of bytes; TypeError if it is anything else."""
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


def placed(archive: str, name: str) -> str:
    """The path of a member; UnsafeMember if it would not be below that of the archive.

    >>> placed("data/a.tar", "./x/1.txt")
    'data/a.tar/x/1.txt'
    >>> placed("data/a.tar", "../b.txt")
    Traceback (most recent call last):
        ...
    datapipes.errors.UnsafeMember: data/a.tar: the member '../b.txt' leads outside the archive; ...
    """
    if name[:1] in ("/", "\\", "") or ".." in name or "\0" in name or not name.strip("./"):
        inner = _normal(name)
        if _is_outside(inner) or "\0" in name or inner == ".":
            raise UnsafeMember(f"{archive}: the member {name!r} leads outside the archive; {_REMEDY}")
    return normpath(join(archive, name))


def stays_within(name: str, target: str) -> bool:
    """Whether a link of this name, relative to its own folder, leads to a place in the same archive.

    >>> stays_within("train/1.txt", "../val/1.txt"), stays_within("1.txt", "../b.tar"), stays_within("1.txt", "/etc")
    (True, False, False)
    """
    return not _is_outside(_normal(join(dirname(name), target)))


def _normal(name: str) -> str:
    return normpath(name.replace("\\", "/"))


def _is_outside(inner: str) -> bool:
    return inner[:1] == "/" or inner.split("/", 1)[0] == ".."


def irregular(archive: str, name: str, what: str) -> NoReturn:
    """Refuse a member that is no regular file."""
    raise UnsafeMember(f"{archive}: the member {name!r} is {what}, and only regular files are read; {_REMEDY}")


class Members(Iterator[tuple[str, StreamWrapper]]):
    """The members of one archive, one by one; after one that is refused it goes on with the next.

    The archive is let go after the last, and with the streams that came out of it.
    """

    def __init__(
        self, pipe: ArchiveStage, path: str, archive: StreamWrapper, entries: Iterator[Any], shared: Shared
    ) -> None:
        self.pipe = pipe
        self.path = path
        self.archive = archive
        self.entries = entries
        self.shared = shared

    def member(self, entry: Any) -> tuple[str, Any] | None:
        """The path and the stream of one entry; None if nothing is given for it, as for a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no member")

    def ended(self) -> None:
        """Called after the last member; nothing by default."""

    def __next__(self) -> tuple[str, StreamWrapper]:
        try:
            for entry in self.entries:
                if (member := self.member(entry)) is not None:
                    path, file = member
                    return path, StreamWrapper(file, self.archive, path)
        except Exception as error:
            warn_of(self.pipe._kind, error, self.pipe)
            raise
        self.archive.autoclose()
        self.ended()
        raise StopIteration


def warn_of(kind: str, error: Exception, pipe: IterDataPipe[Any]) -> None:
    """The warning that torchdata gave before it raised; a filter that raises warnings does not hide the error.

    With another ``on_error`` there is a warning of its own.
    """
    if isinstance(error, Loader2Error) and pipe.on_error == "raise":
        with suppress(UserWarning):
            warn(f"corrupted {kind} stream: {error}")
