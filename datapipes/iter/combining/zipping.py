"""zip, zip_longest, concat: rows of one element of each input, or one stream after another.

The inputs of a zip stay in step whatever happens: if one raises, the row under way is given up as a whole, so that no
element meets the partner of another. The inputs that the row had not reached yet give their elements of it before the
next row. Where an element may be late (``timeout``), the elements of the row under way are kept until it comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, chain, filterfalse, zip_longest
from typing import Any, ClassVar, TypeAlias, TypeVar

from datapipes.description import structure
from datapipes.description.indexed import Indexed, all_indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import StateError, consumes_element
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.position.cells import Cell, Counted, count, fields
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
    return at.cell(lambda: _Step(len(sources))).rows(sources, zipped, holds=at.may_be_late())


class _Step(Cell):
    """The inputs that still owe their element of a row that was given up, and what is there of a row that was not.

    Both are empty as long as nothing raises.
    """

    def __init__(self, number_of_inputs: int) -> None:
        self._number_of_inputs = number_of_inputs
        self._owing: list[int] = []
        self._held: dict[int, Any] = {}  # by input

    def rows(
        self, sources: list[Iterator[Any]], zipped: Callable[..., Iterator[Row]], holds: bool = False
    ) -> Iterator[Row]:
        """The rows of ``sources``, from the first one that is whole.

        ``holds``: keep the elements of a row that is not whole because one of them is late.
        """
        while self._owing:
            try:
                next(sources[self._owing[0]], None)
            except BaseException as error:
                if consumes_element(error):
                    del self._owing[0]
                raise
            del self._owing[0]
        ended: set[int] = set()
        columns = [
            Counted(chain([self._held[i]] if i in self._held else (), source, _noting(i, ended)))
            for i, source in enumerate(sources)
        ]
        row: deque[Any] = deque(maxlen=len(sources))  # the elements that were taken last
        elements = [column.elements for column in columns]
        if holds:
            elements = [filterfalse(row.append, each) for each in elements]  # it passes all, and calls no Python
        rows = zipped(*elements)
        try:
            for made in rows:
                self._held = {}
                yield made
                break
            # `yield from` would take an exception of the consumer's for one of an input.
            for made in rows:
                yield made
        except GeneratorExit:
            raise
        except BaseException as error:
            live = [i for i in range(len(columns)) if i not in ended]
            owing = _not_reached([columns[i].taken for i in live], live)
            reached = len(live) - len(owing)
            if consumes_element(error):
                self._owing, self._held = owing[1:], {}  # the one that raised has given its element all the same
            elif holds:
                self._held = dict(zip(live, list(row)[len(row) - reached :], strict=False))
            else:
                self._owing = owing if reached else []
            raise

    def save(self) -> list[int] | dict[str, bytes] | None:
        if self._held:
            return {"held": self.encode([[i, element] for i, element in self._held.items()])}
        return list(self._owing) or None

    def load(self, saved: Any) -> None:
        if isinstance(saved, dict):
            for entry in self.decode_list(*fields(saved, "held")):
                if type(entry) is not list or len(entry) != 2:
                    raise StateError(f"held: expected [input, element], found {entry!r:.80}")
                self._held[self._input(entry[0])] = entry[1]
        elif saved is not None and type(saved) is not list:
            raise StateError(f"expected a list of inputs, found {type(saved).__name__}")
        else:
            self._owing = [self._input(i) for i in saved or ()]

    def _input(self, saved: object) -> int:
        return count(saved, "input", most=self._number_of_inputs - 1)

    def close(self) -> None:
        StreamWrapper.close_streams(list(self._held.values()))
        self._held = {}


def _noting(i: int, ended: set[int]) -> Iterator[Any]:
    """No elements; asking for one, as ``chain`` does at the end of an input, notes that input."""
    ended.add(i)
    yield from ()


def _not_reached(taken: list[int], live: list[int]) -> list[int]:
    """Return the inputs from the one that raised on; ``taken`` is how many rows each has given its element to."""
    reached = sum(number > taken[-1] for number in taken) if len(set(taken)) > 1 else 0
    return live[reached:]


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
