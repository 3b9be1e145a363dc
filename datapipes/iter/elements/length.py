"""set_length: a length that the user knows, for a stream that does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.checks import needs_count
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


@operator
class LengthSetter(IterDataPipe[T_co]):
    """The same elements, with a length that you know; nobody counts them.

    Args:
        length: What ``len()`` says, 0 or more.

    >>> from datapipes.iter import IterableWrapper
    >>> len(IterableWrapper(range(10)).filter(lambda x: x < 5).set_length(5))
    5
    """

    _fluent: ClassVar[str | None] = "set_length"
    _commutes: ClassVar[bool] = True
    _hands_on: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    length: int

    def __post_init__(self) -> None:
        needs_count(self, "length", 0, f"length must be a non-negative number, got {self.length}")

    def _open(self, at: Opening) -> Iterator[Any]:
        return at.source(self.source_datapipe)

    def __len__(self) -> int:
        return self.length
