"""zip, zip_longest, concat: rows of one element of each input, or one stream after another.

The inputs of a zip stay aligned: if one raises, the whole row is dropped, so that no element meets the partner of
another. The inputs that the row had not reached give their elements of it before the next row. An interruption, or a
late element (``timeout``), drops nothing: the elements of the current row are kept.
"""

from __future__ import annotations

import linecache
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import accumulate, chain, islice
from typing import Any, ClassVar, TypeAlias, TypeVar

from datapipes.description.indexed import Indexed, all_indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import StateError, consumes_element
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.position.cells import Cell, count, fields
from datapipes.position.opening import Opening

Row: TypeAlias = tuple[Any, ...]

T_co = TypeVar("T_co", covariant=True)


@operator
class Zipper(IterDataPipe[Row]):
    """Tuples of one element of each input, up to the end of the shortest.

    Args:
        *datapipes: The inputs, in this order; as a method, those after this stream.

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
        return _rows(self.datapipes, at)

    def _indexed(self) -> Indexed | None:
        columns = all_indexed(self.datapipes)
        if columns is None:
            return None
        return Indexed(min(column.length for column in columns), partial(self._row, [column.at for column in columns]))

    def _row(self, columns: list[Callable[[int], Any]], i: int) -> Row:
        return tuple([at(i) for at in columns])

    def __len__(self) -> int:
        return min(lengths(self, self.datapipes))


@operator
class ZipperLongest(IterDataPipe[Row]):
    """Tuples of one element of each input, up to the end of the longest.

    Args:
        *datapipes: The inputs, in this order; as a method, those after this stream.
        fill_value: Replaces the elements of inputs that have ended.

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
        return _rows(self.datapipes, at, longest=True, fill=self.fill_value)

    def __len__(self) -> int:
        return max(lengths(self, self.datapipes))


def _rows(inputs: tuple[IterDataPipe[Any], ...], at: Opening, longest: bool = False, fill: Any = None) -> Iterator[Row]:
    sources = [at.source(pipe) for pipe in inputs]
    return at.cell(lambda: _ZipCell(len(sources))).rows(sources, longest, fill)


class _ZipCell(Cell):
    """The inputs that still owe their element of a dropped row; empty unless an input raises.

    It also keeps the elements of a row that was not dropped, because its exception costs no element.
    """

    def __init__(self, number_of_inputs: int) -> None:
        self._number_of_inputs = number_of_inputs
        self._owing: list[int] = []
        self.row: list[Any] = []
        self._filled: set[int] = set()

    def rows(self, sources: list[Iterator[Any]], longest: bool, fill: Any) -> Iterator[Row]:
        """Return the rows of ``sources``, from the next complete one on."""
        one_by_one = self._one_by_one(sources, longest, fill)
        if self._filled or len(sources) > _MOST:
            return one_by_one
        rows = _compiled(len(sources), longest)(self, *sources)
        if self.row or self._owing:  # complete the current row first
            rows = chain(islice(self._one_by_one(sources, longest, fill), 1), rows)
        return chain(rows, one_by_one) if longest else rows

    def _one_by_one(self, sources: list[Iterator[Any]], longest: bool = False, fill: Any = None) -> Iterator[Row]:
        while self._owing:
            try:
                for _ in sources[self._owing[0]]:
                    break
                del self._owing[0]
            except Exception as error:
                if consumes_element(error):  # the input has given its element nevertheless
                    del self._owing[0]
                raise
        row, filled = self.row, self._filled
        while True:
            while len(row) < len(sources):
                i = len(row)
                try:
                    for element in sources[i] if i not in filled else ():
                        row.append(element)
                        break
                    else:
                        if not longest:
                            return
                        filled.add(i)
                        if len(filled) == len(sources):
                            return
                        row.append(fill)
                except Exception as error:
                    if consumes_element(error):
                        self._owing = [j for j in range(i + 1, len(sources)) if j not in filled]
                        row.clear()
                    raise
            whole = tuple(row)
            del row[:]  # without a call: no signal can arrive in between
            yield whole

    def given_up(self, error: BaseException, elements: Row) -> None:
        """Note the rest of a row after an exception; ``elements`` are those of the first inputs."""
        assert error.__traceback__ is not None
        reached = error.__traceback__.tb_lineno - _FIRST
        if 0 <= reached < self._number_of_inputs:  # otherwise it was raised where a row is handed on
            if consumes_element(error):
                self._owing = list(range(reached + 1, self._number_of_inputs))
            else:
                self.row = list(elements[:reached])

    def save(self) -> Any:
        if self.row:
            return {"held": self.encode([[i, element] for i, element in enumerate(self.row)])}
        return list(self._owing) or None

    def load(self, saved: Any) -> None:
        if type(saved) is dict:
            for entry in self.decode_list(*fields(saved, "held")):
                if type(entry) is not list or len(entry) != 2 or entry[0] != len(self.row):
                    raise StateError(f"held: expected [input, element], found {entry!r:.80}")
                self.row.append(entry[1])
            if len(self.row) > self._number_of_inputs:
                raise StateError(f"held: found {len(self.row)} elements of {self._number_of_inputs} inputs")
            return
        if saved is not None and type(saved) is not list:
            raise StateError(f"expected a list of inputs, found {type(saved).__name__}")
        self._owing = [count(i, "input", most=self._number_of_inputs - 1) for i in saved or ()]

    def close(self) -> None:
        StreamWrapper.close_streams(self.row)
        self.row = []


_MOST = 16  # Python nests 20 blocks
_FIRST = 4  # the line of the first input


@cache
def _compiled(inputs: int, longest: bool) -> Callable[..., Iterator[Row]]:
    """Return the loop over the rows, with a `for` for each input: an exception's line tells which input raised it.

    An interruption of the built-in ``zip`` would lose the elements of a row. The loop ends with the shortest input. For
    the longest, it leaves the elements taken for the next row to the other loop.
    """
    names = [f"x{i}" for i in range(inputs)]
    lines = [
        f"def rows(step, {', '.join(f's{i}' for i in range(inputs))}):",
        f"    {' = '.join(names)} = None",
        "    try:",
    ]
    lines += [f"{'    ' * (i + 2)}for x{i} in s{i}:" for i in range(inputs)]
    lines += [f"{'    ' * (inputs + 2)}yield {', '.join(names)},"]
    for i in reversed(range(1, inputs)):
        taken = f"step.row = [{', '.join(names[:i])}]; " if longest else ""
        lines += [f"{'    ' * (i + 3)}break", f"{'    ' * (i + 2)}else:", f"{'    ' * (i + 3)}{taken}return"]
    lines += ["    except GeneratorExit:", "        raise", "    except BaseException as error:"]
    lines += [f"        step.given_up(error, ({', '.join(names)},))", "        raise"]
    name = f"<loop of zip{'_longest' * longest}, {inputs} inputs>"
    linecache.cache[name] = (0, None, [f"{line}\n" for line in lines], name)
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), name, "exec"), scope)
    rows: Callable[..., Iterator[Row]] = scope["rows"]
    return rows


@operator
class Concater(IterDataPipe[T_co]):
    """All elements of the first input, then all of the next.

    Args:
        *datapipes: The inputs, in this order; as a method, those after this stream.

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
            [at.source(pipe) for pipe in self.datapipes], at.cell(lambda: _ConcatCell(len(self.datapipes)))
        )

    def _elements(self, sources: list[Iterator[T_co]], which: _ConcatCell) -> Iterator[T_co]:
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


class _ConcatCell(Cell):
    """Index of the input that is being read."""

    def __init__(self, inputs: int) -> None:
        self.index = 0
        self._inputs = inputs

    def save(self) -> int:
        return self.index

    def load(self, saved: Any) -> None:
        self.index = count(saved, "input", most=self._inputs)
