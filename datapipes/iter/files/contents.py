"""Names and data of files, as stages that read and write them take them: pairs, pieces of data, and a running hash.

The data of a file to write is bytes, text, an open stream, or an iterable of pieces. Streams are read in pieces of
bounded size, so that a file of any size passes without being in memory. If handling the pieces fails, the stream goes
back to its position, or is closed if it cannot: a retry reads all of it or raises, and never reads only the rest.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import GeneratorType
from typing import Any

from datapipes.elements.streams import can_seek
from datapipes.errors import BadArgumentType, HashMismatch
from datapipes.iter.files.atomic import replacing
from datapipes.messages.long_work import with_progress
from datapipes.messages.short import shortened

_SIZE = 1 << 20  # bytes or characters

HASH_TYPES = ("sha256", "md5")


@contextmanager
def pieces_of(data: Any) -> Iterator[Iterator[Any]]:
    """Provide an iterator over the pieces of data, for one reader."""
    if isinstance(data, str | bytes | bytearray | memoryview):
        yield iter([data])
        return
    read = getattr(data, "read", None)
    if not callable(read):
        if isinstance(data, GeneratorType) and inspect.getgeneratorstate(data) == inspect.GEN_CLOSED:
            raise ValueError("these pieces come from a generator that was read before or has failed; make a new one")
        if not isinstance(data, Iterable):
            raise BadArgumentType(
                f"a file cannot be made of {type(data).__name__}: give bytes, text, a stream or pieces"
            )
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
        raise BlockingIOError("the stream has no data yet, although it has not ended; open it in blocking mode")


def put(path: str, mode: str, data: Any, hashed: Hashed | None = None) -> None:
    """Write data to a file, completely or not at all; text as UTF-8. Check the expected hash, if there is one."""
    with replacing(path, mode, None if "b" in mode else "utf-8") as file, pieces_of(data) as pieces:
        for piece in with_progress("saving", path, _fitting(pieces, path, mode)):
            if hashed is not None:
                hashed.update(piece)
            file.write(piece)
        if hashed is not None:
            hashed.must_match()


def whole(path: str, mode: str, data: Any) -> Any:
    """Return all of the data, as bytes or text, for a writer that takes no pieces."""
    with pieces_of(data) as pieces:
        found = list(_fitting(pieces, path, mode))
    return b"".join(found) if "b" in mode else "".join(found)


def _fitting(pieces: Iterator[Any], path: str, mode: str) -> Iterator[Any]:
    """Yield the pieces, and check that they are bytes or text as the mode requires."""
    is_text = "b" not in mode
    for piece in pieces:
        if isinstance(piece, str) is not is_text:
            raise BadArgumentType(
                f"mode {mode!r} writes {'text' if is_text else 'bytes'}, but the data for {shortened(path)} is or "
                f"has {type(piece).__name__}: use mode {'wb' if is_text else 'w'!r}"
            )
        yield piece


def pair_of(element: Any, method: str) -> tuple[Any, Any]:
    """Return the name and the data of an element."""
    if not isinstance(element, tuple | list) or len(element) != 2:
        raise BadArgumentType(f"{method}() needs pairs of a name and its data, got {shortened(element)}")
    name, data = element
    return name, data


def stream_of(element: Any, method: str) -> tuple[Any, Any]:
    """Return the name and the open file of an element.

    >>> stream_of("a.json", "parse_json_files")
    Traceback (most recent call last):
    datapipes.errors.BadArgumentType: parse_json_files() needs pairs of a path and an open file, got 'a.json': ...
    """
    return _opened(element, method, lambda stream: hasattr(stream, "read"))


def lines_of(element: Any, method: str) -> tuple[Any, Any]:
    """Return the name of an element, and its open file or another iterable of lines."""
    return _opened(element, method, lambda lines: isinstance(lines, Iterable) and not isinstance(lines, str | bytes))


def _opened(element: Any, method: str, is_open: Any) -> tuple[Any, Any]:
    if isinstance(element, tuple | list) and len(element) == 2 and is_open(element[1]):
        path, stream = element
        return path, stream
    raise BadArgumentType(
        f"{method}() needs pairs of a path and an open file, got {shortened(element)}: open files by open_files()"
    )


class Hashed:
    """Running hash of named data, with the expected one."""

    def __init__(self, name: str, hash_dict: Mapping[str, str], hash_type: str) -> None:
        if name not in hash_dict:
            raise HashMismatch(f"Unspecified hash for file {shortened(name)}: hash_dict has no entry for it")
        self._name = name
        self._expected = hash_dict[name]
        self._hash = hashlib.new(hash_type, usedforsecurity=False)  # it detects damage and authenticates no author

    def update(self, piece: Any) -> None:
        """Add a piece of the data."""
        self._hash.update(piece.encode() if isinstance(piece, str) else piece)

    def must_match(self) -> None:
        """Raise HashMismatch unless all pieces together have the expected hash."""
        found = self._hash.hexdigest()
        if not hmac.compare_digest(found.encode(), self._expected.lower().encode()):
            raise HashMismatch(
                f"The computed hash {found} of {shortened(self._name)} does not match the expected one, "
                f"{self._expected}: the data is damaged or was replaced"
            )
