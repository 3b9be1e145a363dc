"""DataChunk, the list type of batches, distinct from a user's own lists.

``DataChunk`` has no attributes and no ``__init__`` in Python, so making one costs as much as making a list. It equals,
prints, indexes and pickles as the list of its elements. Its raw elements do not depend on ``__iter__``: a subclass that
iterates over something finer (the rows of frames) still holds its raw elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class DataChunk(list[T]):
    """Elements of one batch.

    >>> chunk = DataChunk("ab")
    >>> chunk, chunk == ["a", "b"], chunk.as_str()
    (['a', 'b'], True, '[a, b]')
    """

    @property
    def items(self) -> list[T]:
        """A new plain list of the raw elements.

        >>> DataChunk(range(3)).items
        [0, 1, 2]
        """
        return self[:]

    def raw_iterator(self) -> Iterator[T]:
        """Iterate over the raw elements, even where a subclass overrides ``__iter__``.

        >>> list(DataChunk(range(3)).raw_iterator())
        [0, 1, 2]
        """
        return super().__iter__()

    def as_str(self, indent: str = "") -> str:
        """Return the elements as text, after an indentation.

        >>> DataChunk([1, "a"]).as_str(indent="  ")
        '  [1, a]'
        """
        return f"{indent}[{', '.join(map(str, self))}]"
