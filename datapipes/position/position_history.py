"""The position history of a source that is read ahead, and the snapshot budget.

A stage that runs ahead keeps snapshots of its source, each with the count at which it was taken. A position is then a
snapshot and the number of elements handed on since. A resume makes these elements again. If they must not be made
again, or another stage reads the source as well, the stage saves the waiting elements and the texts of errors instead.

Snapshots take at most 5 % of the time spent on making elements. A snapshot is charged in full, including the time to
pack and send it. It is charged at its last price before it is taken, and the first one at an assumed price.

There are no threads here, but one thread may add a snapshot while another reads the history.
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
"""The share of the time spent on making elements that snapshots may take."""
_TEXT: Final = "saved_text"
"""The attribute of a loaded exception with the text of the exception that was saved first."""
_UNKNOWN: Final = 1e-4
"""The assumed price of the first snapshot, in seconds."""


class SnapshotBudget:
    """Budget for snapshots: at most 5 % of the time spent on making elements."""

    def __init__(self) -> None:
        self.making = 0.0
        """Seconds spent on making elements. The maker of the elements adds to it."""
        self.cost = _UNKNOWN
        """Expected price of the next snapshot, in seconds."""
        self._looking = self._last = 0.0

    def is_cheap(self) -> bool:
        """Return whether the budget allows another snapshot."""
        return self._looking + self.cost <= _SHARE * self.making

    def took(self, seconds: float) -> None:
        """Charge a snapshot with the seconds that it has taken."""
        self.cost = min(self._last, seconds) if self._looking else seconds  # a single one may have been delayed
        self._last = seconds
        self._looking += seconds


class PositionHistory(Generic[T]):
    """Snapshots of a source, each with the count at which it was taken.

    >>> trail: PositionHistory[str] = PositionHistory()
    >>> trail.mark(4, "a position", handed_on=0)
    >>> trail.after(3), trail.after(4), trail.after(9)
    ((None, 3), ('a position', 0), ('a position', 5))
    """

    def __init__(self) -> None:
        self.looking = SnapshotBudget()
        self.refusal: str | None = None
        """Why the last snapshot failed, or None. Saving tries again, and only then it is an error."""
        self._marks: deque[tuple[int, T]] = deque()

    def made(self, seconds: float, upto: int, handed_on: int, look: Callable[[], T] | None, must: bool = False) -> bool:
        """Add the time spent on elements, and take a snapshot if the budget allows it. Return whether one was taken.

        Args:
            seconds: The time that it took to make the elements since the last call.
            upto: The number of elements that the source has given.
            handed_on: The number of these that were handed on, or fewer. Older snapshots are dropped.
            look: A function that takes the snapshot. ``None``: it must not be taken. The function is not kept, since it
                refers to the session, whose cells keep histories.
            must: Whether to take the snapshot in any case.
        """
        looking = self.looking
        looking.making += seconds
        if look is None or not (must or looking.is_cheap()):
            return False
        started = perf_counter()
        try:
            self.mark(upto, look(), handed_on)
            self.refusal = None
        except Exception as error:  # for example of a user's state_dict()
            self.refusal = error_text(error)
        finally:
            looking.took(perf_counter() - started)
        return self.refusal is None

    def mark(self, upto: int, position: T, handed_on: int) -> None:
        """Add a snapshot after all others. Drop those that are not needed any more."""
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= handed_on:
            marks.popleft()
        marks.append((upto, position))

    def after(self, handed_on: int) -> tuple[T | None, int]:
        """Return the last snapshot up to an element, or None for the start, and the number of elements after it."""
        marks = list(self._marks)
        known = bisect_right(marks, handed_on, key=itemgetter(0))
        upto, position = marks[known - 1] if known else (0, None)
        return position, handed_on - upto

    def just_after(self, handed_on: int) -> T | None:
        """Return the snapshot taken right after an element, or None if there is none."""
        position, since = self.after(handed_on)
        return None if since else position


class Lost:
    """Stand-in for a waiting element that could not be made. It is never saved itself."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


def saved_waiting(cell: Cell, waiting: Iterable[Any]) -> bytes | None:
    """Return the waiting elements as data: pairs of a kind and an element, and the texts of exceptions, or None.

    An exception that has consumed no element is left out.
    """
    kept = (each for each in waiting if not isinstance(each, BaseException) or consumes_element(each))
    saved = [["lost", error_text(each)] if isinstance(each, BaseException) else each for each in kept]
    return cell.encode(saved) if saved else None


def loaded_waiting(cell: Cell, saved: Any, *kinds: str) -> Iterator[tuple[str, Any]]:
    """Yield what ``saved_waiting`` saved: pairs of one of ``kinds`` and an element, or of ``lost`` and an exception."""
    for entry in [] if saved is None else cell.decode_list(saved):
        match entry:
            case ["lost", str() as text]:
                yield "lost", lost(cell, text)
            case [str() as kind, element] if kind in kinds:
                yield kind, element
            case _:
                raise StateError(f"ahead: expected an error or one of {kinds}, found {entry!r:.80}")


def error_text(error: BaseException) -> str:
    """Return the text by which a waiting exception is saved. A loaded exception keeps the text of the first one."""
    text: str = vars(error).get(_TEXT, f"{type(error).__name__}: {error}")
    return text


def lost(cell: Cell, text: str) -> Loader2Error:
    """Return the error for a text that ``error_text`` made. The error of a call that was left out stays a LeftOut."""
    if text.startswith(f"{LeftOut.__name__}: "):
        error: Loader2Error = LeftOut(f"{text:.500}")
    else:
        error = GraphError(f"{cell.label} met an error before its position was saved: {text:.500}")
    vars(error)[_TEXT] = text
    return error
