"""Cells: the position of one stage, saved as plain data and loaded again.

A stage with a position keeps all of it in its cell. The cell is complete whenever the stage is suspended, at a
``yield`` or between two ``next``. Saving reads the cells, and resuming opens the stages with the cells filled in. A
saved cell is plain data: None, bool, int, str, bytes, and lists, tuples and dicts of these. ``load`` checks its data,
because it comes from a file. A table maps the places of a graph to saved cells.

Some stages hold an input that cannot be saved (an open file) or run ahead. Their cells *carry* a table of an earlier
moment, which replaces the live positions above them. Most positions are a count. ``Counted`` counts without a Python
call for each element: ``compress`` pulls an element and then a mark from a ``repeat``, which knows how many are left.
An element is counted when it has been handed on, so an exception of the source counts nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import compress, islice, repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from datapipes.description.printing import stage as printed
from datapipes.elements import decode, encode
from datapipes.elements.streams import rewound
from datapipes.errors import StateError, UnsavableElement, consumes_element
from datapipes.position.reopening import StreamReopener, StreamStages

if TYPE_CHECKING:
    from datapipes.position.on_error import ToleratedErrors


Table: TypeAlias = dict[int, Any]

Completion: TypeAlias = tuple[int, int]
"""Completion: the number of elements so far, and at the end."""

_PUT_BACK = -(1 << 40)

AT_START = "start"
"""Saved position of a stage that has not begun."""

T = TypeVar("T")
B = TypeVar("B", bound=Sized)


class Cell:
    """The position of one stage."""

    carries: ClassVar[bool] = False
    saves_without_user_code: ClassVar[bool] = True  # whether saving calls no code of a user's class, and waits for none
    stage: object = None  # the stage of this position
    faults: ToleratedErrors | None = None  # the errors that the stage has tolerated, if its policy tolerates any
    reopening: StreamStages | None = None  # the stages of the graph that open streams
    origin: Callable[[int], tuple[object, Any]] | None = None
    """Returns the source of the n-th element, and its key, if the stage reads a source by key. Errors name the two."""
    above: ExitStack | None = None  # closes the stages above, if the thread of this cell has to do it

    @property
    def label(self) -> str:
        """The stage as it prints, for errors."""
        return printed(self.stage)

    def save(self) -> Any:
        """Return the position as plain data. It does not change with the stage afterwards."""
        raise NotImplementedError

    def load(self, saved: Any) -> None:
        """Restore a saved position."""
        raise NotImplementedError

    def at_start(self) -> Any:
        """Return the position that the stage has at the start of its session."""
        return AT_START

    def carried(self) -> Table | None:
        """Return a table that replaces the live positions of the stages above, or None."""
        return None

    def freeze_above(self) -> AbstractContextManager[object]:
        """Stop the stages above from moving while their live positions are saved."""
        return nullcontext()

    def done(self) -> int | None:
        """Return the number of elements that the stage has given, or None. Errors name an element by it."""
        return None

    def part(self) -> Completion | None:
        """Return the stage's completion if it knows its number of elements, although it has no length, or None."""
        return None

    def in_step(self) -> bool:
        """Return whether the last element from above is the one at hand below. Otherwise errors cannot number it."""
        return True

    def holds(self) -> int:
        """Return how many elements the stage keeps in memory. An error names such stages when memory has run out."""
        return 0

    @property
    def raises_again(self) -> bool:
        """Whether the stage meets the error that has ended it again when it is restarted."""
        return False

    @property
    def is_replayed(self) -> bool:
        """Whether the position, or one within it, is that of a plain class, which a resume runs again."""
        return False

    def saved_errors(self) -> list[int] | None:
        """Return the counts of the errors that the stage has tolerated, or None if its policy tolerates none."""
        return None if self.faults is None else self.faults.save()

    def load_errors(self, saved: Any) -> None:
        """Restore the result of ``saved_errors``."""
        if self.faults is not None:
            self.faults.load(saved)
        elif saved is not None:
            raise StateError("errors: saved with another on_error")

    def settle(self) -> None:
        """Wait until no thread moves the stages above, before they are started again."""

    def close(self) -> None:
        """Release threads and files."""

    def encode(self, elements: object) -> bytes:
        """Return buffered elements as bytes that are safe to load."""
        places = (
            StreamReopener(self.reopening.stages) if self.reopening is not None and not _without_streams.get() else None
        )
        what, most, only_trying = f"the elements buffered by {self.label}", _at_most.get(), _only_trying.get()
        some = elements if most is None and not only_trying else _some_of(elements)
        data = encode(some, what=what, places=places)
        if most is not None and len(data) * _times(elements) > most:
            raise SnapshotTooLarge(f"{what} have more than {most:,} bytes, by an estimate from a few of them")
        return data if only_trying or some is elements else encode(elements, what=what, places=places)

    def decode_list(self, data: object) -> list[Any]:
        """Return the elements of a list that ``encode`` saved."""
        places = None if self.reopening is None else StreamReopener(self.reopening.stages)
        elements = decode(data, what=f"the elements buffered by {self.label}", places=places)
        if type(elements) is not list:
            raise StateError(f"expected a list of buffered elements, found {type(elements).__name__}")
        return elements


_without_streams: ContextVar[bool] = ContextVar("without_streams", default=False)


def without_streams() -> AbstractContextManager[None]:
    """Treat buffers of open streams as unsavable, to find out whether there is a cheap position above."""
    return _setting(_without_streams, True)


class SnapshotTooLarge(UnsavableElement):
    """The limit of ``at_most`` is exceeded by buffered elements."""


_at_most: ContextVar[int | None] = ContextVar("at_most", default=None)


def at_most(size: int) -> AbstractContextManager[None]:
    """Raise SnapshotTooLarge for a buffer of more than ``size`` bytes, before most of it is encoded."""
    return _setting(_at_most, size)


_only_trying: ContextVar[bool] = ContextVar("only_trying", default=False)


def is_trial() -> bool:
    """Return whether positions are saved only to find out if that is possible. They lack most buffered elements."""
    return _only_trying.get()


def unsavable(cells: Sequence[tuple[int, Cell]]) -> str | None:
    """Return why these positions cannot be saved, or None. Only a few of the buffered elements are tried."""
    try:
        with _setting(_only_trying, True):
            table_of(cells)
    except UnsavableElement as error:
        return str(error)  # the error itself would keep the elements alive
    return None


@contextmanager
def _setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    before = variable.get()
    try:  # Ctrl-C may come as soon as it is set
        variable.set(value)
        yield
    finally:
        variable.set(before)


def _some_of(elements: Any, depth: int = 0) -> Any:
    """Return the first two elements, and the first two of each list among them."""
    if type(elements) is not list or depth > 2:
        return elements
    return [_some_of(element, depth + 1) for element in elements[:2]]


def _times(elements: Any, depth: int = 0) -> float:
    """Return the factor by which there are more elements than ``_some_of`` returns."""
    if type(elements) is not list or not elements or depth > 2:
        return 1.0
    some = elements[:2]
    return len(elements) / len(some) * max(_times(element, depth + 1) for element in some)


def table_of(cells: Sequence[tuple[int, Cell]]) -> Table:
    """Save cells, given in the order in which their stages were opened: sources first.

    Cells are read from the end of the graph, so that a carried table is there before the live positions that it
    replaces. These are not read: another thread may move them.
    """
    table: Table = {}
    carrying: set[int] = set()
    with ExitStack() as still:
        for place, cell in reversed(cells):
            if place not in table and not (isinstance(cell, PutBackCell) and cell.below & carrying):
                if cell.carries:
                    still.enter_context(cell.freeze_above())
                    if (carried := cell.carried()) is not None:
                        carrying.add(place)
                        table.update(carried)
                table[place] = cell.save() if cell.saves_without_user_code or not _only_trying.get() else None
    return table


def held_in(saved: Table | None) -> dict[int, bool]:
    """Return the places whose saved positions hold elements, and whether all these elements are numbers.

    A graph may be rewritten so that a stage holds the numbers of rows in place of the rows themselves.
    """
    held = {}
    for place, cell in (saved or {}).items():
        data = cell.get("elements") if type(cell) is dict else cell
        if type(data) is bytes:
            try:
                elements = decode(data, what="")
            except StateError:  # such as open streams: the stage that loads the position raises the error
                elements = None
            held[place] = type(elements) is list and all(type(element) is int for element in elements)
    return held


def together(parts: Sequence[Completion | None]) -> Completion | None:
    """Return the completion of several streams together, or None if it is unknown for one of them."""
    known = [part for part in parts if part is not None]
    return (sum(done for done, _ in known), sum(of for _, of in known)) if len(known) == len(parts) else None


def count(saved: object, what: str = "position", most: int | None = None) -> int:
    """Return a saved number of elements. Raise StateError if it is none, or more than ``most``."""
    if type(saved) is not int or saved < 0:
        raise StateError(f"{what}: expected a count, found {saved!r:.80}")
    if most is not None and saved > most:
        raise StateError(f"{what}: {saved} is past the end, there are {most}")
    return saved


def fields(saved: object, *names: str) -> list[Any]:
    """Return the values of a saved dict by name. Raise StateError unless it has these fields and no others."""
    if type(saved) is not dict or set(saved) != set(names):
        found = sorted(map(str, saved))[:8] if isinstance(saved, dict) else type(saved).__name__
        raise StateError(f"expected the fields {sorted(names)}, found {found}")
    return [saved[name] for name in names]


def without_errors(saved: Any) -> tuple[Any, Counter[str]]:
    """Split the counts of tolerated errors off a saved dict. A state without such errors lacks the field."""
    if not isinstance(saved, dict):
        return saved, Counter()
    rest = {name: saved[name] for name in saved if name != "errors"}
    return rest, Counter(error_counts(saved.get("errors", {})))


def error_counts(saved: Any) -> dict[str, int]:
    """Return saved counts of tolerated errors by stage. Raise StateError if they are none."""
    if type(saved) is not dict or not all(type(stage) is str for stage in saved):
        raise StateError(f"errors: expected counts by stage, found {saved!r:.80}")
    return {stage: count(number, "errors") for stage, number in saved.items()}


def table(saved: object) -> Table | None:
    """Return a saved table, or None. Raise StateError unless its keys are places."""
    if saved is not None and not (type(saved) is dict and all(type(key) is int for key in saved)):
        raise StateError(f"expected positions by place, found {type(saved).__name__}")
    return saved


class Counted(Generic[T]):
    """An iterator, ``elements``, and the number of its elements that were taken, ``taken``.

    >>> letters = Counted("abc", start=10)
    >>> next(letters.elements), letters.taken
    ('a', 11)
    """

    __slots__ = ("_marks", "elements")

    def __init__(self, source: Iterable[T] = (), start: int = 0) -> None:
        self._marks = repeat(True, sys.maxsize - start)  # one object; a range would make a number for each element
        self.elements: Iterator[T] = compress(source, self._marks)

    def __reduce__(self) -> tuple[Any, ...]:
        return Counted, ((), self.taken)  # the count alone: Python 3.14 pickles no iterators of itertools

    @property
    def taken(self) -> int:
        return sys.maxsize - length_hint(self._marks)


def skip(iterator: Iterator[object], count: int) -> int:
    """Skip up to ``count`` elements. Return how many were skipped."""
    counted = Counted(islice(iterator, count))
    for _ in counted.elements:
        pass
    return counted.taken


class PutBackCell(Cell):
    """Elements that a stage had taken and not used when an interruption came.

    They are taken again before the next elements of the source. Only an interrupted stage has this cell.
    """

    def __init__(self) -> None:
        self.below: set[int] = set()  # places of the stages that read these elements, directly or not
        self._elements: list[Any] = []
        self._gone = ""  # why the elements cannot be taken again
        self._counted: Counted[Any] = Counted()

    @staticmethod
    def key(place: int) -> int:
        """Return the key, in a table, of the elements that the stage at ``place`` has put back."""
        return _PUT_BACK - place

    def add(self, element: Any) -> None:
        """Put an element before the others. Rewind the streams in it, which may be half read."""
        if not rewound(element):
            self._gone = f"a stream in {element!r:.200} was being read when the iteration was interrupted"
        self._elements, self._counted = [element, *self._left()], Counted()

    def again(self) -> Iterator[Any]:
        """Return the elements and count them. Those that are taken are removed."""
        if self._gone:
            raise StateError(f"{self.label}: {self._gone}, and cannot be read again from its start")
        self._elements = self._left()
        self._counted = Counted(self._elements)
        return self._counted.elements

    def _left(self) -> list[Any]:
        return self._elements[self._counted.taken :]

    def save(self) -> bytes | None:
        left = self._left()
        if left and self._gone:
            raise UnsavableElement(f"{self.label}: {self._gone}, and cannot be read again from its start")
        return self.encode(left) if left else None

    def load(self, saved: Any) -> None:
        self._elements = [] if saved is None else self.decode_list(saved)

    def close(self) -> None:
        self._elements, self._counted = [], Counted()


class CountCell(Cell):
    """The position of a stage that is only a count of its elements."""

    def __init__(self) -> None:
        self._counted: Counted[Any] = Counted()

    def given(self) -> int:
        """Return the number of elements that were handed on."""
        return self._counted.taken

    def go_to(self, given: int) -> None:
        """Set the number of elements that were handed on."""
        self._counted = Counted(start=given)

    def counting(self, source: Iterable[T]) -> Iterator[T]:
        """Return an iterator that counts the elements of an iterable, which begins at this position."""
        self._counted = Counted(source, start=self.given())
        return self._counted.elements

    def following(self, sequence: Sequence[T]) -> Iterator[T]:
        """Return an iterator that counts the elements of a sequence, from this position on."""
        return self.counting(self.left_of(sequence))

    def take_again(self, error: BaseException) -> None:
        """Take the last element again, if ``error``, which was raised while it was made, consumes no element."""
        if not (consumes_element(error) or isinstance(error, GeneratorExit)):
            self.go_to(self.given() - 1)

    def left_of(self, sequence: Sequence[T]) -> Sequence[T]:
        """Return the rest of a sequence from this position on. Raise StateError if it is too short."""
        if self.given() > len(sequence):
            raise StateError(f"{self.label}: {self.given()} elements were given, and there are {len(sequence)}")
        return sequence[self.given() :]

    def counting_blocks(self, blocks: Iterable[B]) -> Iterator[B]:
        """Return blocks of elements, which begin at this position, and count their elements."""
        for block in blocks:
            self.go_to(self.given() + len(block))
            yield block

    def save(self) -> Any:
        return self.given()

    def done(self) -> int | None:
        return self.given()

    def load(self, saved: Any) -> None:
        self.go_to(count(saved))
