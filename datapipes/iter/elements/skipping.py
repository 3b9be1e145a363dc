"""take, skip: the first elements of a stream, and those behind them.

``skip`` is a filter that knows by position what passes, as ``sharding_filter`` is one, and is rewritten for a run by
the same rules (``datapipes.rewriting.pushdown``): it goes above stages that make one element of each, so that these
make nothing that is passed over, and what can be read by position begins where it is told to. All else is taken from
the source and let go. In each case an element that cannot be made is one of those that are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

from datapipes.description.indexed import range_of
from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.errors import consumes_element
from datapipes.iter.elements.numbering import Header
from datapipes.operators.checks import needs, needs_count
from datapipes.position.cells import Given
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run
from datapipes.rewriting import pushdown

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
class Skipper(pushdown.Selecting[T_co]):
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

    source_datapipe: IterDataPipe[T_co]
    n: int

    def __post_init__(self) -> None:
        needs_count(self, "n", 0, f"Expected a number of elements that is not below 0, got {self.n}")

    def _in_run(self, run: Run) -> Any:
        return pushdown.pushed(self)

    def _open(self, at: Opening) -> Iterator[Any]:
        numbers = range_of(self) if self._of_range else None
        if numbers is not None:
            return at.cell(Given).following(numbers)
        source = at.source(self.source_datapipe)
        return chain(at.cell(_Passed).over(source, self.n), source)

    def _slice(self) -> slice:
        return slice(self.n, None)


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
