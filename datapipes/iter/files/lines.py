"""readlines: the lines of text or binary streams."""

from __future__ import annotations

import io
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import Any, ClassVar

from datapipes.checks import needs
from datapipes.flattening import Flattening
from datapipes.on_error import OnError, check_policy
from datapipes.pipe import IterDataPipe
from datapipes.streams import StreamWrapper


class LineReader(Flattening[Any]):
    """``(path, line)`` for each line of each ``(path, stream)``, or the line alone.

    Undecodable bytes are an error; ``errors="ignore"`` drops them (torchdata did so by default).

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.txt", io.StringIO("one\\ntwo\\n"))], deepcopy=False).readlines())
    [('a.txt', 'one'), ('a.txt', 'two')]
    """

    _fluent: ClassVar[str | None] = "readlines"

    def __init__(
        self,
        source_datapipe: IterDataPipe[tuple[str, Any]],
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = "utf-8",
        errors: str = "strict",
        return_path: bool = True,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.skip_lines = skip_lines
        self.strip_newline = strip_newline
        self.decode = decode
        self.encoding = encoding
        self.errors = errors
        self.return_path = return_path
        self.on_error = on_error
        self.max_errors = max_errors
        check_policy(self)
        needs(skip_lines >= 0, self, "'skip_lines' is required to be a positive integer")

    def _sources(self) -> tuple[IterDataPipe[Any]]:
        return (self.source_datapipe,)

    def _inner(self, element: Any) -> Iterable[Any]:
        path, stream = element
        lines: Iterator[Any] = (
            decoded_lines(stream, self.skip_lines, self.encoding, self.errors)
            if self.decode and is_binary(stream)
            else lines_of(stream, self.skip_lines)
        )
        if self.strip_newline:
            lines = map(_stripped, lines)
        return zip(repeat(path), lines) if self.return_path else lines


def is_binary(stream: Any) -> bool:
    """Whether a stream gives bytes; one that does not say so is taken for one that might."""
    return not hasattr(stream, "encoding") and not hasattr(stream, "newlines")


def lines_of(stream: Iterable[Any], skip_lines: int) -> Iterator[Any]:
    """The lines of a stream as they are, without the first ones."""
    return islice(stream, skip_lines, None) if skip_lines else iter(stream)


def decoded_lines(stream: Any, skip_lines: int, encoding: str, errors: str) -> Iterator[str]:
    """The lines of a binary stream as text.

    Each line is decoded by itself, so one that cannot be costs no other, and those that are skipped may hold anything.
    That goes for encodings in which a newline is one byte; a stream in any other has to be decoded as a whole.
    """
    if len("\n\n".encode(encoding)) - len("\n".encode(encoding)) > 1:
        return islice(_regrouped(stream, encoding, errors), skip_lines, None)
    lines = lines_of(stream, skip_lines)
    file = stream.file_obj if isinstance(stream, StreamWrapper) else stream
    if isinstance(file, io.IOBase):
        return map(str, lines, repeat(encoding), repeat(errors))  # all of it in C
    return map(_decoded, lines, repeat(encoding), repeat(errors))


def _regrouped(stream: Iterable[bytes], encoding: str, errors: str) -> Iterator[str]:
    """Decode what was cut behind every byte that looks like a newline, and cut it behind those that are one."""
    decode = getincrementaldecoder(encoding)(errors).decode
    rest = ""
    for part in stream:
        *whole, rest = (rest + decode(part)).split("\n")
        for line in whole:
            yield f"{line}\n"
    rest += decode(b"", True)
    if rest:
        yield rest


def _decoded(line: Any, encoding: str, errors: str) -> Any:
    return line.decode(encoding, errors) if isinstance(line, bytes) else line


def _stripped(line: Any) -> Any:
    return line.strip(b"\r\n") if isinstance(line, bytes) else line.strip("\r\n")
