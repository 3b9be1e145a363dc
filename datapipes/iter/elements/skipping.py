"""take, skip: the first elements of a stream, and those behind them.

``skip`` is a filter that knows by position what passes, as ``sharding_filter`` is one, and is rewritten for a run by
the same rules (``datapipes.rewriting.pushdown``): it goes above stages that make one element of each, so that these
make nothing that is passed over, and what can be read by position begins where it is told to. All else is taken from
the source and let go. In each case an element that cannot be made is one of those that are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

from datapipes.description import structure
from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.errors import consumes_element
from datapipes.iter.elements.numbering import Header
from datapipes.operators.checks import needs, needs_count, source_length
from datapipes.position.cells import Given
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run
from datapipes.rewriting import pushdown
from datapipes.rewriting.gathering import Rows, rows_of
from datapipes.rewriting.pushdown import Part

T_co = TypeVar("T_co", covariant=True)


@composed
def Taker(source_datapipe: IterDataPipe[T_co], n: int) -> Header[T_co]:
    """The first ``n`` elements: ``header(n)`` by the name that other libraries have for it.

    Args:
        n: How many, 0 or more. No more than these are taken from the source.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(100)).take(3))
    [0, 1, 2]
    """
    taken = Header(source_datapipe, n)
    needs(n >= 0, taken, f"take({n}): the number of elements is 0 or more; without take() there are all of them")
    return taken


@operator
class Skipper(IterDataPipe[T_co]):
    """The elements behind the first ``n``.

    Those are not made where that can be avoided: stages above that make one element of each begin with the first one
    that is handed on, and what can be read by position is read from there on. They are counted as they were to come:
    one that raises is one of the ``n``.

    Args:
        n: How many are passed over, 0 or more.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).skip(3))
    [3, 4]
    """

    _fluent: ClassVar[str | None] = "skip"
    _hands_on: ClassVar[bool] = True

    source_datapipe: IterDataPipe[T_co]
    n: int

    def __post_init__(self) -> None:
        needs_count(self, "n", 0, f"Expected a number of elements that is not below 0, got {self.n}")

    def _in_run(self, run: Run) -> Any:
        return pushdown.pushed(self)

    def _open(self, at: Opening) -> Iterator[T_co]:
        source = at.source(self.source_datapipe)
        return chain(at.cell(_Passed).over(source, self.n), source)

    def _slice(self, whole: structure.Pipe, place: int, base: range | None) -> Rest:
        """The positions behind the first ones of a stream that can be read by position, or what ``base`` has there."""
        new: Rest = object.__new__(Rest)
        structure.fill(new, self, lambda parent: whole)
        new.base = new.base if base is None else base
        new.__dict__["_place"] = place
        return new

    def _positions(self) -> Rows | None:
        above = rows_of(self.source_datapipe)
        return None if above is None else above.below(self)

    def _indexed(self) -> Indexed | None:
        source = indexed(self.source_datapipe)
        if source is None:
            return None
        at, n = source.at, self.n
        return Indexed(max(source.length - n, 0), lambda i: at(n + i))

    def __len__(self) -> int:
        return max(source_length(self, self.source_datapipe) - self.n, 0)


class _Passed(Given):
    """The number of elements that were passed over."""

    def over(self, source: Iterator[Any], n: int) -> Iterator[Any]:
        """Pass over what is left of the first ``n``; nothing is given."""
        try:
            for _ in self.counting(islice(source, n - self.save())):
                pass
            yield from ()
        except Exception as error:
            self._behind, self._counted = self.save() + consumes_element(error), None
            raise

    def done(self) -> None:
        """Nothing: what is handed on is counted by nobody here."""


class Rest(Skipper[int]):
    """The numbers in ``base`` behind the first ones, of which there are as many as a stream has elements."""

    _fluent: ClassVar[str | None] = "skip"
    _parents: ClassVar[tuple[str, ...] | None] = ()
    base: range = range(sys.maxsize)

    def _in_run(self, run: Run) -> IterDataPipe[int]:
        return self

    def _numbers(self) -> range:
        whole = indexed(self.source_datapipe)
        return self.base[: 0 if whole is None else whole.length][self.n :]

    def _open(self, at: Opening) -> Iterator[int]:
        return at.cell(Given).following(self._numbers())

    def _indexed(self) -> Indexed:
        numbers = self._numbers()
        return Indexed(len(numbers), numbers.__getitem__, numbers)

    def _part(self, part: Part) -> Any:
        return part.numbers(structure.place_of(self), self._numbers())

    def _is_free(self) -> bool:
        return True
