"""enumerate, add_index, header, repeat, set_length: stages that count elements or set their number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, ClassVar, TypeVar

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.errors import LengthUnknown
from datapipes.operator_support.checks import length_of, needs_count, same_length, source_length
from datapipes.position.cells import Cell, CountCell, count, fields
from datapipes.position.opening import Opening
from datapipes.rewriting.gathering import RowStream, rows_of

T_co = TypeVar("T_co", covariant=True)


@operator
class Enumerator(IterDataPipe[tuple[int, T_co]]):
    """``(index, element)`` for each element.

    Args:
        starting_index: The index of the first element.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").enumerate(starting_index=1))
    [(1, 'a'), (2, 'b')]
    """

    _fluent: ClassVar[str | None] = "enumerate"

    source_datapipe: IterDataPipe[T_co]
    starting_index: int = 0

    def _open(self, at: Opening) -> Iterator[tuple[int, T_co]]:
        return at.cell(_NumberCell).numbering(at.source(self.source_datapipe), self.starting_index)

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        return None if source is None else source.giving(partial(self._pair, source.at))

    def _pair(self, at: Callable[[int], T_co], i: int) -> tuple[int, T_co]:
        return i + self.starting_index, at(i)

    __len__ = same_length


@operator
class IndexAdder(IterDataPipe[dict[Any, Any]]):
    """Each element, which is a dict, with its number stored in it.

    Args:
        index_name: The key for the number, which counts from 0. The dict itself is changed; an existing value under
            this key is replaced.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([{"x": "a"}, {"x": "b"}]).add_index("number"))
    [{'x': 'a', 'number': 0}, {'x': 'b', 'number': 1}]
    """

    _fluent: ClassVar[str | None] = "add_index"

    source_datapipe: IterDataPipe[dict[Any, Any]]
    index_name: str = "index"

    def _open(self, at: Opening) -> Iterator[dict[Any, Any]]:
        return self._elements(at, at.source(self.source_datapipe), at.cell(CountCell))

    def _elements(self, at: Opening, source: Iterator[Any], given: CountCell) -> Iterator[dict[Any, Any]]:
        for number, row in enumerate(given.counting(source), given.given()):
            try:
                made = self._with_index(number, row)
            except BaseException as error:
                at.keep(row, error)
                given.take_again(error)
                raise
            yield made

    def _with_index(self, number: int, row: Any) -> dict[Any, Any]:
        if not isinstance(row, dict):
            raise NotImplementedError(
                f"We only support adding index to row or batch in dict type, got {type(row).__name__}: {row!r:.80}"
            )
        row[self.index_name] = number
        return row

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        return None if source is None else source.giving(partial(self._at, source.at))

    def _at(self, at: Callable[[int], Any], i: int) -> dict[Any, Any]:
        return self._with_index(i, at(i))

    __len__ = same_length


@operator
class Header(IterDataPipe[T_co]):
    """The first elements; further ones are not taken from the source.

    Args:
        limit: Number of elements; 0 or less for none. ``None``: all of them.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(100)).header(3))
    [0, 1, 2]
    """

    _fluent: ClassVar[str | None] = "header"

    source_datapipe: IterDataPipe[T_co]
    limit: int | None = 10

    def __post_init__(self) -> None:
        needs_count(self, "limit", or_none=True)

    def _open(self, at: Opening) -> Iterator[T_co]:
        source = at.source(self.source_datapipe)
        if self.limit is None:
            return source
        given = at.cell(CountCell)
        left = max(self.limit - given.given(), 0)
        return islice(given.counting(source), left)

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        if source is None or self.limit is None:
            return source
        return Indexed(max(min(source.length, self.limit), 0), source.at)

    def _positions(self) -> RowStream | None:
        above = rows_of(self.source_datapipe)
        return None if above is None else above.below(self)

    def __len__(self) -> int:
        try:
            length = length_of(self.source_datapipe)
        except LengthUnknown as unknown:
            if self.limit is None:
                message = f"The length of {stage(self)} cannot be determined: {unknown}"
                raise LengthUnknown(message, unknown.stage) from None
            warnings.warn(
                f"The length of {stage(self)} is inferred to be equal to its limit; "
                "the actual value may be smaller if the source has fewer elements",
                stacklevel=2,
            )
            return max(self.limit, 0)
        return length if self.limit is None else max(min(length, self.limit), 0)


@operator
class Repeater(IterDataPipe[T_co]):
    """Each element several times in succession, always the same object.

    Args:
        times: Number of times, at least 2.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").repeat(2))
    ['a', 'a', 'b', 'b']
    """

    _fluent: ClassVar[str | None] = "repeat"

    source_datapipe: IterDataPipe[T_co]
    times: int

    def __post_init__(self) -> None:
        needs_count(self, "times", 2, f"The number of repetition must be > 1, got {self.times}")

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.source(self.source_datapipe), at.cell(_RepeatCell))

    def _elements(self, source: Iterator[T_co], again: _RepeatCell) -> Iterator[T_co]:
        while True:
            while again.left > 0:
                again.left -= 1
                yield again.element
            again.element = None
            for again.element in source:
                again.left = self.times
                break
            else:
                return

    def __len__(self) -> int:
        return self.times * source_length(self, self.source_datapipe)


class _NumberCell(Cell):
    """Number of the next element. The position is read from the ``enumerate`` object."""

    def __init__(self) -> None:
        self._behind = 0
        self._first = 0
        self._pairs: enumerate[Any] | None = None

    def numbering(self, source: Iterator[T_co], starting_index: int) -> Iterator[tuple[int, T_co]]:
        """Return pairs of a number and an element."""
        self._behind = self.save()
        self._first = starting_index
        self._pairs = enumerate(source, start=starting_index + self._behind)
        return self._pairs

    def save(self) -> int:
        if self._pairs is None:
            return self._behind
        reduced: Any = self._pairs.__reduce__()
        _, (_, following) = reduced  # (enumerate, (iterator, number of the next element))
        return int(following - self._first)

    done = save

    def load(self, saved: Any) -> None:
        self._behind = count(saved)

    def close(self) -> None:
        self._behind, self._pairs = self.save(), None  # `enumerate` keeps the last pair to reuse its tuple


class _RepeatCell(Cell):
    """Current element, and how often it will be given again."""

    def __init__(self) -> None:
        self.element: Any = None
        self.left = 0

    def save(self) -> Any:
        return {"left": self.left, "element": self.encode([self.element])} if self.left else None

    def load(self, saved: Any) -> None:
        if saved is not None:
            left, element = fields(saved, "left", "element")
            self.left, (self.element,) = count(left, "left"), self.decode_list(element)

    def close(self) -> None:
        self.left, self.element = 0, None


@operator
class LengthSetter(IterDataPipe[T_co]):
    """The same elements with a given length, which is not checked.

    Args:
        length: The result of ``len()``, at least 0.

    >>> from datapipes.iter import IterableWrapper
    >>> len(IterableWrapper(range(10)).filter(lambda x: x < 5).set_length(5))
    5
    """

    _fluent: ClassVar[str | None] = "set_length"
    _commutes: ClassVar[bool] = True
    _passes_through: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    length: int

    def __post_init__(self) -> None:
        needs_count(self, "length", 0, f"length must be a non-negative number, got {self.length}")

    def _open(self, at: Opening) -> Iterator[Any]:
        return at.source(self.source_datapipe)

    def __len__(self) -> int:
        return self.length
