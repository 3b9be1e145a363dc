"""Names and data of files, as stages that read and write them take them: pairs, pieces of data, and a running hash.

Data of a file to be written is bytes, a text, an open stream, or an iterable of pieces. Streams are read in pieces of
bounded size, so a file of any size passes through without being in memory. If handling the pieces fails, the stream
goes back to where it was, or is closed if it cannot: whoever tries again reads all of it or gets an error, and never
just the rest.
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
from datapipes.messages.long_work import told
from datapipes.messages.short import shortened

_SIZE = 1 << 20  # bytes or characters

HASH_TYPES = ("sha256", "md5")


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
        for piece in told("saving", path, _fitting(pieces, path, mode)):
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


def pair_of(element: Any, method: str) -> tuple[Any, Any]:
    """The name and the data of an element."""
    if not isinstance(element, tuple | list) or len(element) != 2:
        raise BadArgumentType(f"{method}() needs pairs of a name and its data, got {shortened(element)}")
    name, data = element
    return name, data


def stream_of(element: Any, method: str) -> tuple[Any, Any]:
    """The name and the open file of an element.

    >>> stream_of("a.json", "parse_json_files")
    Traceback (most recent call last):
    datapipes.errors.BadArgumentType: parse_json_files() needs pairs of a path and an open file, got 'a.json': ...
    """
    return _opened(element, method, lambda stream: hasattr(stream, "read"))


def lines_of(element: Any, method: str) -> tuple[Any, Any]:
    """The name of an element, and its open file or any other iterable of lines."""
    return _opened(element, method, lambda lines: isinstance(lines, Iterable) and not isinstance(lines, str | bytes))


def _opened(element: Any, method: str, is_open: Any) -> tuple[Any, Any]:
    if isinstance(element, tuple | list) and len(element) == 2 and is_open(element[1]):
        path, stream = element
        return path, stream
    raise BadArgumentType(
        f"{method}() needs pairs of a path and an open file, got {shortened(element)}: open files by open_files()"
    )


class Hashed:
    """Running hash of named data, and the expected one."""

    def __init__(self, name: str, hash_dict: Mapping[str, str], hash_type: str) -> None:
        if name not in hash_dict:
            raise HashMismatch(f"Unspecified hash for file {shortened(name)}: hash_dict has no entry for it")
        self._name = name
        self._expected = hash_dict[name]
        self._hash = hashlib.new(hash_type, usedforsecurity=False)  # files are told apart, nobody is authenticated

    def update(self, piece: Any) -> None:
        """Take in some more."""
        self._hash.update(piece.encode() if isinstance(piece, str) else piece)

    def must_match(self) -> None:
        """Raise unless all that was seen has the expected hash."""
        found = self._hash.hexdigest()
        if not hmac.compare_digest(found.encode(), self._expected.lower().encode()):
            raise HashMismatch(
                f"The computed hash {found} of {shortened(self._name)} does not match the expected one, "
                f"{self._expected}: the data is damaged or was replaced"
            )
