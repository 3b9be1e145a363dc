"""Open files in a saved state: one in memory by its content, any other by its origin and position.

Invariants: bytes never name a file to open. They name a stage of the graph and the element that it was given. The
caller passes the stages as ``places``; without them a stream is refused. A stream is saved as its name, its origin and
its position, and a closed stream as a closed one.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import Any, Final, Protocol

from datapipes.elements.streams import Origin, StreamWrapper, in_memory, unwrapped

OPENED: Final = "opened stream"  # the kind of streams that are opened again

_REMEDY: Final = "read it in a map() before this stage, or let the stage buffer paths"


class StreamOpener(Protocol):
    """Protocol for reopening the streams of a graph."""

    def knows(self, origin: Origin) -> bool:
        """Return whether one of the graph's stages opened a stream of this origin."""

    def open(self, origin: Any, name: Any, at: Any) -> StreamWrapper:
        """Open the stream again, at a position. Only stages of the graph open anything; the arguments are checked."""

    def close(self) -> None:
        """Close the streams that were opened, after reading the state has failed."""


def stream_parts(stream: StreamWrapper, places: StreamOpener | None) -> tuple[Any, ...]:
    """Return the kind of a stream and its parts. Raise TypeError if it cannot be saved."""
    name = stream.name if type(stream.name) is str else None
    if stream.closed:
        return "StreamWrapper", name, None
    if in_memory(stream):
        return "StreamWrapper", name, unwrapped(stream)
    if places is None or stream.origin is None or not places.knows(stream.origin):
        raise TypeError(f"an open file that no stage of this graph can open again cannot be saved: {_REMEDY}")
    return OPENED, stream.origin, name, _position(stream)


def make_wrapper(name: str | None, file: io.BytesIO | io.StringIO | None) -> StreamWrapper:
    """Make a stream in memory, or a closed one if there is no file."""
    stream = StreamWrapper(io.BytesIO() if file is None else file, name=name)
    if file is None:
        stream.close()
    return stream


def file_parts(file: Any) -> tuple[Any, ...]:
    """Return the content of a file in memory, and its position."""
    if file.closed:
        raise TypeError("it is closed, and its content is gone")
    return file.getvalue(), file.tell()


def make_bytes_file(content: bytes, at: int) -> io.BytesIO:
    """Make a file in memory from bytes."""
    file = io.BytesIO(content)
    file.seek(at)
    return file


def make_text_file(content: str, at: int) -> io.StringIO:
    """Make a file in memory from text."""
    file = io.StringIO(content)
    file.seek(at)
    return file


def _position(stream: StreamWrapper) -> int | None:
    """Return the position of a stream. Return None for an archive that was opened whole: it has none."""
    file = unwrapped(stream)
    if isinstance(file, tarfile.TarFile | zipfile.ZipFile):
        if "members" in vars(file):
            raise TypeError(f"tarfile has begun to read it and does not tell the position: {_REMEDY}")
        return None
    try:
        return int(file.tell())
    except (OSError, ValueError) as error:
        raise TypeError(f"its position is unknown ({error}): {_REMEDY}") from error
