"""take, skip: the first elements of a stream, and all elements after them.

``skip`` selects elements by their position, like ``sharding_filter``, and is rewritten for a run by the same rules
(``datapipes.rewriting.pushdown``). It moves above stages that make one element of each, so that these do not make
skipped elements; a source that can be read by position starts at the first one needed. Otherwise the elements are taken
from the source and dropped. In each case an element that cannot be made counts as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

from datapipes.description.indexed import range_of
from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.errors import consumes_element
from datapipes.iter.elements.numbering import Header
from datapipes.operator_support.checks import needs, needs_count
from datapipes.position.cells import CountCell
from datapipes.position.opening import Opening
from datapipes.position.seeds import Run
from datapipes.rewriting import pushdown

T_co = TypeVar("T_co", covariant=True)


@composed
def Taker(source_datapipe: IterDataPipe[T_co], n: int) -> Header[T_co]:
    """The first ``n`` elements: ``header(n)`` under the name that other libraries use.

    Args:
        n: Number of elements, at least 0. Further ones are not taken from the source.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(100)).take(3))
    [0, 1, 2]
    """
    taken = Header(source_datapipe, n)
    needs(n >= 0, taken, f"take({n}): the number of elements is 0 or more; leave take() out for all of them")
    return taken


@operator
class Skipper(pushdown.Selecting[T_co]):
    """All elements but the first ``n``.

    The skipped elements are not made where possible: stages above that make one element of each begin with the first
    one needed, and a source that can be read by position is read from there. An element that raises counts as one of
    the ``n``.

    Args:
        n: Number of elements to skip, at least 0.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).skip(3))
    [3, 4]
    """

    _fluent: ClassVar[str | None] = "skip"

    source_datapipe: IterDataPipe[T_co]
    n: int

    def __post_init__(self) -> None:
        needs_count(self, "n", 0, f"Expected a number of elements not below 0, got {self.n}")

    def _rewritten_for_run(self, run: Run) -> Any:
        return pushdown.pushed(self)

    def _open(self, at: Opening) -> Iterator[Any]:
        numbers = range_of(self) if self._of_range else None
        if numbers is not None:
            return at.cell(CountCell).following(numbers)
        source = at.source(self.source_datapipe)
        return chain(at.cell(_SkipCell).over(source, self.n), source)

    def _slice(self) -> slice:
        return slice(self.n, None)


class _SkipCell(CountCell):
    """Number of elements that were skipped."""

    def over(self, source: Iterator[Any], n: int) -> Iterator[Any]:
        """Skip the rest of the first ``n`` elements. Yield nothing."""
        try:
            for _ in self.counting(islice(source, n - self.given())):
                pass
            yield from ()
        except Exception as error:
            self.go_to(self.given() + consumes_element(error))
            raise

    def done(self) -> None:
        """Return None: this cell does not count the elements handed on."""
