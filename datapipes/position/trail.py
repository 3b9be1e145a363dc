"""Trail, where a source was: for whoever reads ahead of what it hands on.

Looking at a position costs something, so it is done as long as that takes a small share of the time in which elements
are made. What a look costs is all that it costs: whoever packs a position and sends it counts that, too. It is paid for
before it is taken: another will cost as much as the last one, and the first as much as one of a few stages, so that
none is free.

A place in the stream is thus a position that was looked at, and how many elements were handed on since, which are made
again on resume. Where they are not to be made again, or nobody may look because somebody else reads above as well, what
waits is saved instead: the elements, and the texts of errors in their places.

There are no threads here; but one may look while another asks where it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from datapipes.errors import GraphError, Loader2Error, StateError, consumes_element
from datapipes.position.cells import Cell
from datapipes.position.on_error import LeftOut

T = TypeVar("T")

_SHARE: Final = 0.05
"""The share of the time of making elements that may go into looking at positions."""
_TOLD: Final = "told"
_UNKNOWN: Final = 1e-4
"""Seconds that a look is taken to cost as long as none was taken."""


class Looking:
    """The rule of when to look at a position, and what looking has cost so far."""

    def __init__(self) -> None:
        self.making = 0.0
        """Seconds in which elements were made: who makes them adds to it."""
        self.cost = _UNKNOWN
        """Seconds that another look is taken to cost."""
        self._looking = self._last = 0.0

    def is_cheap(self) -> bool:
        """Whether there is time for another look."""
        return self._looking + self.cost <= _SHARE * self.making

    def took(self, seconds: float) -> None:
        """Count what a look has cost, all of it."""
        self.cost = min(self._last, seconds) if self._looking else seconds  # one may have been held up by something
        self._last = seconds
        self._looking += seconds


class Trail(Generic[T]):
    """Positions of a source, each with the number of elements that it had given by then.

    >>> trail: Trail[str] = Trail()
    >>> trail.mark(4, "a position", handed_on=0)
    >>> trail.after(3), trail.after(4), trail.after(9)
    ((None, 3), ('a position', 0), ('a position', 5))
    """

    def __init__(self) -> None:
        self.looking = Looking()
        self.refusal: str | None = None
        """What the last look met in place of a position. It is an error only when somebody saves, who asks again."""
        self._marks: deque[tuple[int, T]] = deque()

    def made(self, seconds: float, upto: int, handed_on: int, look: Callable[[], T] | None, must: bool = False) -> bool:
        """Count what was made, and look where the source is if that is cheap; returns whether it is known.

        Args:
            seconds: How long it took to make the elements since the last call.
            upto: How many elements the source has given.
            handed_on: How many of these were handed on, or fewer: positions before that are forgotten.
            look: A function that looks at the position. ``None``: nobody may. It is not kept, since it leads to the
                session, whose cells keep trails.
            must: Whether to look in any case.
        """
        looking = self.looking
        looking.making += seconds
        if look is None or not (must or looking.is_cheap()):
            return False
        started = perf_counter()
        try:
            self.mark(upto, look(), handed_on)
            self.refusal = None
        except Exception as error:  # of a user's state_dict(), say
            self.refusal = told(error)
        finally:
            looking.took(perf_counter() - started)
        return self.refusal is None

    def mark(self, upto: int, position: T, handed_on: int) -> None:
        """Keep a position, behind all others; those that nobody will ask for any more are forgotten."""
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= handed_on:
            marks.popleft()
        marks.append((upto, position))

    def after(self, handed_on: int) -> tuple[T | None, int]:
        """The last position at or before an element, and how many elements come after that; None for the start."""
        marks = list(self._marks)
        known = bisect_right(marks, handed_on, key=itemgetter(0))
        upto, position = marks[known - 1] if known else (0, None)
        return position, handed_on - upto

    def just_after(self, handed_on: int) -> T | None:
        """The position after an element, if somebody has looked there."""
        position, since = self.after(handed_on)
        return None if since else position


class Lost:
    """Stand-in, among elements that wait, for one that could not be made; it is never on disk."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


def saved_waiting(cell: Cell, waiting: Iterable[Any]) -> bytes | None:
    """What waits to be handed on, as data: pairs of a kind and an element; and exceptions, of which the texts are.

    An exception that has cost no element is left out.
    """
    kept = (each for each in waiting if not isinstance(each, BaseException) or consumes_element(each))
    saved = [["lost", told(each)] if isinstance(each, BaseException) else each for each in kept]
    return cell.encode(saved) if saved else None


def loaded_waiting(cell: Cell, saved: Any, *kinds: str) -> Iterator[tuple[str, Any]]:
    """Pairs of a kind, one of those given or ``lost``, and an element or an exception, of what was saved."""
    for entry in [] if saved is None else cell.decode_list(saved):
        match entry:
            case ["lost", str() as text]:
                yield "lost", lost(cell, text)
            case [str() as kind, element] if kind in kinds:
                yield kind, element
            case _:
                raise StateError(f"ahead: expected an error or one of {kinds}, found {entry!r:.80}")


def told(error: BaseException) -> str:
    """The text by which an exception that waits is saved; that of one which was saved before, and was not met since."""
    text: str = vars(error).get(_TOLD, f"{type(error).__name__}: {error}")
    return text


def lost(cell: Cell, text: str) -> Loader2Error:
    """The error in place of one that was saved; a call that was left out is left out still."""
    if text.startswith(f"{LeftOut.__name__}: "):
        error: Loader2Error = LeftOut(f"{text:.500}")
    else:
        error = GraphError(f"{cell.label} met an error before its position was saved: {text:.500}")
    vars(error)[_TOLD] = text
    return error
