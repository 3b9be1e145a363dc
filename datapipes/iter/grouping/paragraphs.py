"""lines_to_paragraphs: lines of one file joined, up to an empty one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import StateError
from datapipes.operators.checks import needs_callable
from datapipes.position.cells import Cell
from datapipes.position.opening import Opening


@operator
class ParagraphAggregator(IterDataPipe[tuple[Any, Any]]):
    """``(file, paragraph)`` of neighbouring ``(file, line)``; an empty line or another file ends a paragraph.

    Args:
        joiner: A function that makes a paragraph of the list of its lines.

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
        return self._paragraphs(at.source(self.source_datapipe), at.cell(_Paragraph))

    def _paragraphs(self, source: Iterator[tuple[Any, Any]], at_hand: _Paragraph) -> Iterator[tuple[Any, Any]]:
        for file, line in source:
            ended = at_hand.file, at_hand.lines
            if not line or file != at_hand.file:
                at_hand.file, at_hand.lines = file, []
            if line:
                at_hand.lines.append(line)
            if ended[1] and ended[1] is not at_hand.lines:
                yield ended[0], self.joiner(ended[1])
        if at_hand.lines:
            lines, at_hand.lines = at_hand.lines, []
            yield at_hand.file, self.joiner(lines)


class _Paragraph(Cell):
    """The lines of the paragraph at hand, and the file that they are from."""

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
