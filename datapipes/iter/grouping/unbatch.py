"""unbatch: the elements of batches, one by one."""

from __future__ import annotations

from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.operators.flattening import Flattening


@operator
class UnBatcher(Flattening[Any]):
    """The elements of batches, one by one.

    Args:
        unbatch_level: How many levels of lists are taken apart; -1 for all of them. A batch that has fewer is an
            ``IndexError``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(4)).batch(2).batch(2).unbatch(2))
    [0, 1, 2, 3]
    """

    _fluent: ClassVar[str | None] = "unbatch"

    datapipe: IterDataPipe[Any]
    unbatch_level: int = 1

    def _inner(self, element: Any) -> list[Any]:
        level = self.unbatch_level
        if level < -1:
            raise ValueError(f"unbatch_level must be -1 or more, got {level}")
        elements, depth = [element], 0
        while depth != level and (level > 0 or any(isinstance(x, list) for x in elements)):
            if level > 0 and not all(isinstance(x, list) for x in elements):
                raise IndexError(f"unbatch_level {level} exceeds the depth of the batch, which is {depth}")
            elements = [y for x in elements for y in (x if isinstance(x, list) else [x])]
            depth += 1
        return elements
