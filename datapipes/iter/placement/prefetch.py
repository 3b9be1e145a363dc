"""prefetch: the stages above run ahead, in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.ahead import Ahead
from datapipes.operators.checks import needs_count, same_length
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class Prefetcher(IterDataPipe[T_co]):
    """The same elements, made beforehand by a thread.

    Args:
        buffer_size: How many elements are made beforehand: more bridge longer waits for one of them, and take more
            memory.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).prefetch(2))
    [0, 1, 2, 3, 4]
    """

    _fluent: ClassVar[str | None] = "prefetch"
    _commutes: ClassVar[bool] = True
    _hands_on: ClassVar[bool] = True
    _runs_ahead: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    buffer_size: int = 10

    def __post_init__(self) -> None:
        needs_count(self, "buffer_size", 1, "'buffer_size' is required to be a positive integer")

    def _open(self, at: Opening) -> Iterator[T_co]:
        mark = at.above().now if at.is_private() else None
        return at.cell(lambda: Ahead(self.buffer_size)).elements(at.source(self.source_datapipe), mark)

    __len__ = same_length
