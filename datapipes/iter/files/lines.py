"""readlines, lines_to_paragraphs: the lines of streams, and lines joined; and the line source of other stages.

Lines are decoded while they are read, and every error names file and line. No line is lost without an error, and
counting and decoding lines needs no call in Python. A line that cannot be decoded costs no other line, in encodings
with a newline of one byte. A stream opened as text decodes many lines at a time and drops all of them after a bad one;
such a stream is not read further.
"""

from __future__ import annotations

import io
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY
from itertools import islice, repeat
from typing import Any, ClassVar, NamedTuple

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import StateError, consumes_element
from datapipes.iter.files.contents import lines_of
from datapipes.messages.file_errors import located, named
from datapipes.operator_support.checks import needs_callable, needs_count
from datapipes.operator_support.flattening import Flattening, Pieces
from datapipes.position.cells import Cell, Counted
from datapipes.position.on_error import Tolerant
from datapipes.position.opening import Opening


@operator
class LineReader(Tolerant, Flattening[Any]):
    """``(path, line)`` for each line of each ``(path, stream)``, or the line alone.

    The content of lines is not checked, not even for NUL bytes.

    Args:
        skip_lines: Number of lines to skip at the beginning of each file.
        strip_newline: Whether to remove newlines and carriage returns from both ends of a line.
        decode: Whether to decode the lines of a binary stream. Those of a text stream are already text.
        encoding: The encoding to decode.
        errors: Policy for bytes that cannot be decoded: ``"strict"`` raises, ``"ignore"`` drops them; any other value
            that ``bytes.decode`` takes is possible.
        return_path: Whether to give the path with each line.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.txt", io.StringIO("one\\ntwo\\n"))], deepcopy=False).readlines())
    [('a.txt', 'one'), ('a.txt', 'two')]
    """

    _fluent: ClassVar[str | None] = "readlines"

    source_datapipe: IterDataPipe[tuple[str, Any]]
    _: KW_ONLY
    skip_lines: int = 0
    strip_newline: bool = True
    decode: bool = False
    encoding: str = "utf-8"
    errors: str = "strict"
    return_path: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        needs_count(self, "skip_lines", 0, "'skip_lines' is required to be a positive integer")

    def _inner(self, element: Any) -> Pieces[Any]:
        path, stream = lines_of(element, "readlines")
        lines = CountedLines(path, stream, self.skip_lines, self.encoding if self.decode else None, self.errors)
        if self.strip_newline:
            lines.elements = map(_stripped, lines.elements)
        if self.return_path:
            lines.elements = zip(repeat(path), lines.elements)
        return lines


def _stripped(line: Any) -> Any:
    return line.strip(b"\r\n") if isinstance(line, bytes) else line.strip("\r\n")


class CountedLines(Pieces[Any]):
    """Counted lines of a stream; ``elements`` may be wrapped further."""

    def __init__(
        self, path: object, stream: Any, skip_lines: int = 0, encoding: str | None = None, errors: str = "strict"
    ) -> None:
        self._file = named(path)
        self._skipped = skip_lines
        self._source = source = source_of(stream, skip_lines, encoding, errors)
        self._counted: Counted[Any] = Counted(source.lines if source.one_by_one else _up_to_an_error(source.lines))
        self.elements = source.decoded(self._counted.elements)

    def __iter__(self) -> Iterator[Any]:
        return self.elements

    def locate(self, error: Exception) -> None:
        this_one = isinstance(error, ValueError) and (
            self._source.one_by_one or not isinstance(error, UnicodeDecodeError)
        )
        number = self._skipped + self._counted.taken
        located(error, f"{self._file}, {'line' if this_one else 'after line'} {number}")


class LineSource(NamedTuple):
    """Iterator over the lines of one file, and its decoding."""

    lines: Iterator[Any]
    decoded: Callable[[Iterator[Any]], Iterator[Any]]
    """Decodes the lines, unless they are already text."""
    one_by_one: bool
    """Whether only the line that cannot be decoded is lost. Otherwise no lines may be read after an error."""


def source_of(stream: Any, skip_lines: int, encoding: str | None, errors: str) -> LineSource:
    """Return the lines of a stream after the first ones, as text if the stream is text or ``encoding`` is given."""
    binary = not hasattr(stream, "encoding") and not hasattr(stream, "newlines")  # or a text stream without these
    wide = binary and encoding is not None and len("\n\n".encode(encoding)) - len("\n".encode(encoding)) > 1
    lines = _regrouped(stream, encoding or "", errors) if wide else iter(stream)
    if skip_lines:
        lines = islice(lines, skip_lines, None)
    decoded: Callable[[Iterator[Any]], Iterator[Any]] = iter
    if binary and encoding is not None and not wide:  # after the skipped lines, which may have any content
        file = stream.file_obj if isinstance(stream, StreamWrapper) else stream
        decode: Any = str if isinstance(file, io.IOBase) else _decoded  # `str` runs entirely in C

        def decoded(lines: Iterator[Any]) -> Iterator[Any]:
            return map(decode, lines, repeat(encoding), repeat(errors))

    return LineSource(lines, decoded, binary and not wide)


def _up_to_an_error(stream: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a text stream. After an error this generator has ended."""
    yield from stream


def _regrouped(parts: Iterable[bytes], encoding: str, errors: str) -> Iterator[str]:
    """Decode parts that end after each byte equal to a newline's, and split them at true newlines."""
    decode = getincrementaldecoder(encoding)(errors).decode
    rest = ""
    for part in parts:
        *whole, rest = (rest + decode(part)).split("\n")
        for line in whole:
            yield f"{line}\n"
    rest += decode(b"", True)
    if rest:
        yield rest


def _decoded(line: Any, encoding: str, errors: str) -> Any:
    return line.decode(encoding, errors) if isinstance(line, bytes) else line


@operator
class ParagraphAggregator(IterDataPipe[tuple[Any, Any]]):
    """``(file, paragraph)`` of adjacent ``(file, line)``; an empty line or another file ends a paragraph.

    Args:
        joiner: A function of the list of a paragraph's lines that returns the paragraph.

    >>> from datapipes.iter import IterableWrapper
    >>> lines = [("a", "Dear"), ("a", "reader"), ("a", ""), ("a", "Good bye"), ("b", "Hello")]
    >>> list(IterableWrapper(lines).lines_to_paragraphs(" ".join))
    [('a', 'Dear reader'), ('a', 'Good bye'), ('b', 'Hello')]
    """

    _fluent: ClassVar[str | None] = "lines_to_paragraphs"

    source_datapipe: IterDataPipe[tuple[Any, Any]]
    joiner: Callable[[list[Any]], Any] = "\n".join

    def __post_init__(self) -> None:
        needs_callable("lines_to_paragraphs", self.joiner)

    def _open(self, at: Opening) -> Iterator[tuple[Any, Any]]:
        return self._paragraphs(at, at.source(self.source_datapipe), at.cell(_ParagraphCell))

    def _paragraphs(
        self, at: Opening, source: Iterator[tuple[Any, Any]], at_hand: _ParagraphCell
    ) -> Iterator[tuple[Any, Any]]:
        for element in source:
            file, line = element
            if line and file == at_hand.file:
                at_hand.lines += [line]  # without a call: no signal can arrive in between
                continue
            rest = [line] if line else []
            try:
                ended = [(at_hand.file, self.joiner(at_hand.lines))] if at_hand.lines else []
            except BaseException as error:
                at.keep(element, error)
                if consumes_element(error):
                    at_hand.file, at_hand.lines = file, rest
                raise
            at_hand.file, at_hand.lines = file, rest
            yield from ended
        if at_hand.lines:
            try:
                last = at_hand.file, self.joiner(at_hand.lines)
            except Exception:
                at_hand.lines = []
                raise
            at_hand.lines = []
            yield last


class _ParagraphCell(Cell):
    """Lines of the current paragraph, and their file."""

    def __init__(self) -> None:
        self.file: Any = None
        self.lines: list[Any] = []

    def save(self) -> bytes | None:
        return self.encode([self.file, self.lines]) if self.lines else None

    def load(self, saved: Any) -> None:
        if saved is not None:
            match self.decode_list(saved):
                case [file, list() as lines]:
                    self.file, self.lines = file, lines
                case found:
                    raise StateError(f"expected a file and lines, found {found!r:.80}")

    def close(self) -> None:
        self.lines = []
