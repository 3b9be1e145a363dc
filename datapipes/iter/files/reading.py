"""read_from_stream: the content of streams, whole or in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.iter.files.pairs import stream_of
from datapipes.operators.checks import needs
from datapipes.operators.flattening import Flattening
from datapipes.position.on_error import Tolerant


@operator
class StreamReader(Tolerant, Flattening[tuple[Any, Any]]):
    """``(label, content)`` of each ``(label, stream)``, whole or in pieces.

    An empty stream has no pieces. A stream is closed after its last piece.

    Args:
        chunk: How many bytes or characters a piece has; the last may have fewer. ``None``: all of a stream at once.

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
