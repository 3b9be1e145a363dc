"""zip, zip_longest, concat: rows of one element of each input, or one stream after another.

The inputs of a zip stay in step whatever happens: if one raises, the row under way is given up as a whole, so that no
element meets the partner of another. The inputs that the row had not reached yet give their elements of it before the
next row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, chain, zip_longest
from typing import Any, ClassVar, TypeAlias, TypeVar

from datapipes.description import structure
from datapipes.description.indexed import Indexed, all_indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import StateError
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.position.cells import Cell, Counted, count
from datapipes.position.opening import Opening
from datapipes.rewriting.pushdown import Part

Row: TypeAlias = tuple[Any, ...]

T_co = TypeVar("T_co", covariant=True)


@operator
class Zipper(IterDataPipe[Row]):
    """Tuples of one element of each input, up to the end of the shortest.

    Args:
        *datapipes: The inputs, in this order; as a method, those after the stream that it is called on.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").zip(IterableWrapper(range(9))))
    [('a', 0), ('b', 1)]
    """

    _fluent: ClassVar[str | None] = "zip"

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        self.datapipes = datapipes
        needs_streams(self, datapipes)

    def _open(self, at: Opening) -> Iterator[Row]:
        return _rows(self.datapipes, at, zip)

    def _indexed(self) -> Indexed | None:
        columns = all_indexed(self.datapipes)
        if columns is None:
            return None
        return Indexed(min(column.length for column in columns), partial(self._row, [column.at for column in columns]))

    def _part(self, part: Part) -> IterDataPipe[Row]:
        zipped: Zipper = structure.with_parents(self, part.of)
        return zipped

    def _row(self, columns: list[Callable[[int], Any]], i: int) -> Row:
        return tuple([at(i) for at in columns])

    def __len__(self) -> int:
        return min(lengths(self, self.datapipes))


@operator
class ZipperLongest(IterDataPipe[Row]):
    """Tuples of one element of each input, up to the end of the longest.

    Args:
        *datapipes: The inputs, in this order; as a method, those after the stream that it is called on.
        fill_value: What stands for the elements of inputs that have ended.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").zip_longest(IterableWrapper([1]), fill_value=0))
    [('a', 1), ('b', 0)]
    """

    _fluent: ClassVar[str | None] = "zip_longest"

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: IterDataPipe[Any], fill_value: Any = None) -> None:
        self.datapipes = datapipes
        self.fill_value = fill_value
        needs_streams(self, datapipes)

    def _open(self, at: Opening) -> Iterator[Row]:
        return _rows(self.datapipes, at, partial(zip_longest, fillvalue=self.fill_value))

    def __len__(self) -> int:
        return max(lengths(self, self.datapipes))


def _rows(inputs: tuple[IterDataPipe[Any], ...], at: Opening, zipped: Callable[..., Iterator[Row]]) -> Iterator[Row]:
    sources = [at.source(pipe) for pipe in inputs]
    return at.cell(lambda: _Step(len(sources))).rows(sources, zipped)


class _Step(Cell):
    """The inputs that still owe their element of a row that was given up; none, as long as nothing raises."""

    def __init__(self, number_of_inputs: int) -> None:
        self._number_of_inputs = number_of_inputs
        self._owing: list[int] = []

    def rows(self, sources: list[Iterator[Any]], zipped: Callable[..., Iterator[Row]]) -> Iterator[Row]:
        """The rows of ``sources``, from the first one that is whole."""
        while self._owing:
            # Struck off first: an input that raises here has given its element all the same.
            next(sources[self._owing.pop(0)], None)
        ended: set[int] = set()
        columns = [Counted(chain(source, _noting(i, ended))) for i, source in enumerate(sources)]
        try:
            # `yield from` would take an exception of the consumer's for one of an input.
            for row in zipped(*[column.elements for column in columns]):  # noqa: UP028
                yield row
        except GeneratorExit:
            raise
        except BaseException:
            self._owing = _not_reached([column.taken for column in columns], ended)
            raise

    def save(self) -> list[int] | None:
        return list(self._owing) or None

    def load(self, saved: Any) -> None:
        if saved is not None and type(saved) is not list:
            raise StateError(f"expected a list of inputs, found {type(saved).__name__}")
        self._owing = [count(i, "input", most=self._number_of_inputs - 1) for i in saved or ()]


def _noting(i: int, ended: set[int]) -> Iterator[Any]:
    """No elements; asking for one, as ``chain`` does at the end of an input, notes that input."""
    ended.add(i)
    yield from ()


def _not_reached(taken: list[int], ended: set[int]) -> list[int]:
    """The inputs behind the one that raised; ``taken`` is how many rows each has given its element to."""
    live = [i for i in range(len(taken)) if i not in ended]
    raised = next((i for i in live if taken[i] < taken[live[0]]), live[0])
    return [i for i in live if i > raised]


@operator
class Concater(IterDataPipe[T_co]):
    """All of the first input, then all of the next.

    Args:
        *datapipes: The inputs, in this order; as a method, those after the stream that it is called on.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").concat(IterableWrapper("c")))
    ['a', 'b', 'c']
    """

    _fluent: ClassVar[str | None] = "concat"

    datapipes: tuple[IterDataPipe[T_co], ...]

    def __init__(self, *datapipes: IterDataPipe[T_co]) -> None:
        self.datapipes = datapipes
        needs_streams(self, datapipes)

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(
            [at.source(pipe) for pipe in self.datapipes], at.cell(lambda: _Which(len(self.datapipes)))
        )

    def _elements(self, sources: list[Iterator[T_co]], which: _Which) -> Iterator[T_co]:
        while which.index < len(sources):
            yield from sources[which.index]
            which.index += 1

    def _indexed(self) -> Indexed | None:
        parts = all_indexed(self.datapipes)
        if parts is None:
            return None
        ends = list(accumulate(part.length for part in parts))
        return Indexed(ends[-1], partial(self._at, ends, [part.at for part in parts]))

    def _at(self, ends: list[int], parts: list[Callable[[int], T_co]], i: int) -> T_co:
        which = bisect_right(ends, i)
        return parts[which](i - (ends[which - 1] if which else 0))

    def __len__(self) -> int:
        return sum(lengths(self, self.datapipes))


class _Which(Cell):
    """Index of the input that is being read."""

    def __init__(self, inputs: int) -> None:
        self.index = 0
        self._inputs = inputs

    def save(self) -> int:
        return self.index

    def load(self, saved: Any) -> None:
        self.index = count(saved, "input", most=self._inputs)
