"""Open files in a saved state: one in memory by its content, any other by its origin and position.

What this file keeps true: nothing is opened by what bytes say. They name a stage of the graph and what that stage was
given; whoever reads them brings the stages along (``StreamOpener``), and without these a stream is refused. A stream is
saved as the name that it was given, its origin and its position; a closed one as a closed one.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import Any, Final, Protocol

from datapipes.elements.streams import Origin, StreamWrapper, in_memory, unwrapped

OPENED: Final = "opened stream"  # the kind of those that are opened again

_REMEDY: Final = "read it in a map() before this stage, or have the stage wait for paths instead"


class StreamOpener(Protocol):
    """Protocol for reopening the streams of a graph."""

    def knows(self, origin: Origin) -> bool:
        """Whether one of the graph's stages opened this."""

    def open(self, origin: Any, name: Any, at: Any) -> StreamWrapper:
        """The stream again, at a position; its parts are checked, and nothing is opened but by the graph's stages."""

    def close(self) -> None:
        """Close what was opened, because reading the state has failed."""


def stream_parts(stream: StreamWrapper, places: StreamOpener | None) -> tuple[Any, ...]:
    """The kind of a stream and the parts that it is made of again; TypeError if it cannot be."""
    name = stream.name if type(stream.name) is str else None
    if stream.closed:
        return "StreamWrapper", name, None
    if in_memory(stream):
        return "StreamWrapper", name, unwrapped(stream)
    if places is None or stream.origin is None or not places.knows(stream.origin):
        raise TypeError(f"an open file that no stage of this graph can open again is no data: {_REMEDY}")
    return OPENED, stream.origin, name, _position(stream)


def make_wrapper(name: str | None, file: io.BytesIO | io.StringIO | None) -> StreamWrapper:
    """A stream in memory, or a closed one."""
    stream = StreamWrapper(io.BytesIO() if file is None else file, name=name)
    if file is None:
        stream.close()
    return stream


def file_parts(file: Any) -> tuple[Any, ...]:
    """The content of a file in memory, and its position."""
    if file.closed:
        raise TypeError("it is closed, and its content is gone")
    return file.getvalue(), file.tell()


def make_bytes_file(content: bytes, at: int) -> io.BytesIO:
    """A file in memory of bytes."""
    file = io.BytesIO(content)
    file.seek(at)
    return file


def make_text_file(content: str, at: int) -> io.StringIO:
    """A file in memory of text."""
    file = io.StringIO(content)
    file.seek(at)
    return file


def _position(stream: StreamWrapper) -> int | None:
    """Read position of a stream; None for an archive that was opened whole, which has none of its own."""
    file = unwrapped(stream)
    if isinstance(file, tarfile.TarFile | zipfile.ZipFile):
        if "members" in vars(file):
            raise TypeError(f"tarfile has begun to read it, and does not say how far: {_REMEDY}")
        return None
    try:
        return int(file.tell())
    except (OSError, ValueError) as error:
        raise TypeError(f"it does not say how far it was read ({error}): {_REMEDY}") from error
