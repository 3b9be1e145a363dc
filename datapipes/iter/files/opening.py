"""open_files, read_from_stream: a stream for each path, and the content of streams, whole or in chunks."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import Origin, StreamWrapper
from datapipes.errors import BadArgumentType, StateError
from datapipes.iter.files.contents import stream_of
from datapipes.operator_support.checks import given_length, needs
from datapipes.operator_support.flattening import Flattening
from datapipes.position.on_error import Tolerant
from datapipes.position.reopening import label
from datapipes.position.steps import Step

_MODES = {"b": "rb", "t": "rt", "r": "r", "rb": "rb", "rt": "rt"}


@operator
class FileOpener(Tolerant, IterDataPipe[tuple[str, StreamWrapper]]):
    """``(path, stream)`` for each path; a stream closes when it is read to its end, or no longer referenced.

    Args:
        mode: ``"r"``, ``"t"`` or ``"rt"`` for text, ``"rb"`` or ``"b"`` for bytes, which archives need.
        encoding: The encoding of text. ``None``: that of this machine's locale. Refused with a binary mode.

    >>> from datapipes.iter import IterableWrapper
    >>> [(path, stream.read(3)) for path, stream in IterableWrapper([__file__]).open_files("rb")][0][1]
    b'\"\"\"'
    """

    _fluent: ClassVar[str | None] = "open_files"
    _stream_key: ClassVar[tuple[type, ...] | None] = (str, int)

    datapipe: IterDataPipe[str]
    mode: str = "r"
    encoding: str | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        needs(self.mode in _MODES, self, f"Invalid mode {self.mode!r}: choose one of {', '.join(_MODES)}")
        super().__post_init__()
        needs(
            self.encoding is None or "b" not in self.mode, self, "a binary file has no encoding; use mode 'r' or 'rt'"
        )

    def _step(self) -> Step:
        mode, encoding, here = _MODES[self.mode], self.encoding, label(self)

        def opened(path: str) -> tuple[str, StreamWrapper]:
            if not isinstance(path, str):
                raise BadArgumentType(f"open_files() needs paths as str, got {type(path).__name__}: {path!r:.80}")
            file = open(path, mode, encoding=encoding)  # noqa: SIM115 - the wrapper closes it
            stream = StreamWrapper(file, name=path)
            if here is not None:
                stream.origin = partial(_origin, here, path, file)
            return path, stream

        return Step("map", opened)

    def _reopening(self, source: StreamWrapper | None) -> Callable[..., StreamWrapper]:
        step = self._step().fn

        def opened(path: str, size: int) -> StreamWrapper:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                raise StateError(
                    f"{path}: it has changed since the state was saved: it is no longer a file of {size} bytes"
                )
            stream: StreamWrapper = step(path)[1]
            return stream

        return opened

    __len__ = given_length


def _origin(stage: str, path: str, file: IO[Any]) -> Origin | None:
    """Return where an open file comes from. Return None if it is closed or not a regular file, such as a pipe."""
    if file.closed:
        return None
    found = os.fstat(file.fileno())
    return (stage, (path, found.st_size), None) if stat.S_ISREG(found.st_mode) else None


@operator
class StreamReader(Tolerant, Flattening[tuple[Any, Any]]):
    """``(label, content)`` of each ``(label, stream)``, whole or in pieces.

    An empty stream has no pieces. A stream is closed after its last piece.

    Args:
        chunk: Number of bytes or characters of a piece; the last may be shorter. ``None``: a whole stream.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a", io.BytesIO(b"12345"))], deepcopy=False).read_from_stream(2))
    [('a', b'12'), ('a', b'34'), ('a', b'5')]
    """

    _fluent: ClassVar[str | None] = "read_from_stream"

    datapipe: IterDataPipe[tuple[Any, Any]]
    chunk: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        needs(
            self.chunk is None or self.chunk == -1 or self.chunk > 0,
            self,
            "'chunk' is required to be a positive integer",
        )

    def _inner(self, element: Any) -> Iterator[tuple[Any, Any]]:
        label, stream = stream_of(element, "read_from_stream")
        size = -1 if self.chunk is None else self.chunk
        while piece := stream.read(size):
            yield label, piece
        stream.close()
