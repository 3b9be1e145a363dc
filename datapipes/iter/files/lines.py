"""readlines: the lines of text or binary streams."""

from __future__ import annotations

from dataclasses import KW_ONLY
from itertools import repeat
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.iter.files.pairs import lines_of
from datapipes.iter.files.text_lines import Lines
from datapipes.operators.checks import needs_count
from datapipes.operators.flattening import Flattening
from datapipes.operators.flattening_position import Parts
from datapipes.position.on_error import Tolerant


@operator
class LineReader(Tolerant, Flattening[Any]):
    """``(path, line)`` for each line of each ``(path, stream)``, or the line alone.

    What a line holds is not looked at, NUL bytes included.

    Args:
        skip_lines: How many lines are passed over at the beginning of each file.
        strip_newline: Whether newlines and carriage returns are taken off both ends of a line.
        decode: Whether the lines of a binary stream become text. Those of a text stream are text already.
        encoding: The encoding of what is decoded.
        errors: What becomes of bytes that cannot be decoded: ``"strict"`` is an error, ``"ignore"`` drops them
            (torchdata did so by default), or anything else that ``bytes.decode`` takes.
        return_path: Whether the path stands before each line.

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

    def _inner(self, element: Any) -> Parts[Any]:
        path, stream = lines_of(element, "readlines")
        lines = Lines(path, stream, self.skip_lines, self.encoding if self.decode else None, self.errors)
        if self.strip_newline:
            lines.elements = map(_stripped, lines.elements)
        if self.return_path:
            lines.elements = zip(repeat(path), lines.elements)
        return lines


def _stripped(line: Any) -> Any:
    return line.strip(b"\r\n") if isinstance(line, bytes) else line.strip("\r\n")
