"""Data of a file to be written, piece by piece: bytes, a text, an open stream, or an iterable of pieces.

Streams are read in pieces of bounded size, so a file of any size passes through without being in memory. If handling
the pieces fails, the stream goes back to where it was, or is closed if it cannot: whoever tries again reads all of it
or gets an error, and never just the rest.
"""

from __future__ import annotations

import inspect
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import GeneratorType
from typing import Any

from datapipes.elements.streams import can_seek
from datapipes.errors import BadArgumentType
from datapipes.iter.files.atomic import replacing
from datapipes.iter.files.hashed import Hashed
from datapipes.messages.short import shortened

_SIZE = 1 << 20  # bytes or characters


@contextmanager
def pieces_of(data: Any) -> Iterator[Iterator[Any]]:
    """The pieces, for one reader."""
    if isinstance(data, str | bytes | bytearray | memoryview):
        yield iter([data])
        return
    read = getattr(data, "read", None)
    if not callable(read):
        if isinstance(data, GeneratorType) and inspect.getgeneratorstate(data) == inspect.GEN_CLOSED:
            raise ValueError("these pieces come from a generator that was read before, or has failed; make a new one")
        if not isinstance(data, Iterable):
            raise BadArgumentType(f"no file can be made of {type(data).__name__}: give bytes, text, a stream or pieces")
        yield iter(data)
        return
    start = data.tell() if can_seek(data) else None
    try:
        yield _read(read)
    except BaseException:
        _take_back(data, start)
        raise


def _take_back(stream: Any, start: int | None) -> None:
    if start is not None:
        with suppress(OSError, ValueError, tarfile.StreamError):
            stream.seek(start)
            return
    stream.close()


def _read(read: Callable[[int], Any]) -> Iterator[Any]:
    while piece := read(_SIZE):
        yield piece
    if piece is None:
        raise BlockingIOError("the stream has no data yet, though it has not ended; open it in blocking mode")


def put(path: str, mode: str, data: Any, hashed: Hashed | None = None) -> None:
    """Make a file of data, completely or not at all; a text in UTF-8. It must have the expected hash, if any."""
    with replacing(path, mode, None if "b" in mode else "utf-8") as file, pieces_of(data) as pieces:
        for piece in _fitting(pieces, path, mode):
            if hashed is not None:
                hashed.update(piece)
            file.write(piece)
        if hashed is not None:
            hashed.must_match()


def whole(path: str, mode: str, data: Any) -> Any:
    """All of the data at once, as bytes or as text, for those who take no pieces."""
    with pieces_of(data) as pieces:
        found = list(_fitting(pieces, path, mode))
    return b"".join(found) if "b" in mode else "".join(found)


def _fitting(pieces: Iterator[Any], path: str, mode: str) -> Iterator[Any]:
    """The pieces, checked to be bytes or text as the mode writes."""
    is_text = "b" not in mode
    for piece in pieces:
        if isinstance(piece, str) is not is_text:
            raise BadArgumentType(
                f"mode {mode!r} writes {'text' if is_text else 'bytes'}, and the data for {shortened(path)} is or "
                f"has {type(piece).__name__}: use mode {'wb' if is_text else 'w'!r}"
            )
        yield piece
