"""flatmap, shuffled_flatmap: the elements of an iterable for each element, optionally of several iterables at random.

Up to ``buffer_size`` iterables of a ``shuffled_flatmap`` are live. When one has ended, the next element of the source
takes its slot. The draws are made in blocks, each a pure function of the stage's seed and the block's number. So the
position is their count and the position in each live iterable (``operator_support.flattening``). An element that holds
an open stream cannot be saved. The state then has the table above from before it was taken, and a resume takes it again
from there, in a session of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import holds_stream
from datapipes.errors import StateError, consumes_element
from datapipes.operator_support.checks import length_of, needs_callable, needs_count
from datapipes.operator_support.columns import on_input, validate_input_col
from datapipes.operator_support.flattening import FlattenCell, Flattening
from datapipes.operator_support.random_order import Shuffling, shares
from datapipes.position.cells import Cell, Table, count, fields, table
from datapipes.position.on_error import Tolerant, ToleratedErrors
from datapipes.position.opening import Opening
from datapipes.position.seeds import ErrorCounts, Run
from datapipes.position.session import Session, segment

T_co = TypeVar("T_co", covariant=True)

_BLOCK = 1024


class _FlatMapping(Tolerant, Flattening[T_co]):
    """Base of both stages: the elements of ``fn(element)``, or of the element itself."""

    fn: Callable[..., Iterable[T_co]] | None
    input_col: Any

    def __post_init__(self) -> None:
        if self.fn is not None:
            needs_callable(str(self._fluent), self.fn)
            validate_input_col(self.fn, self.input_col)
        super().__post_init__()

    def _inner(self, element: Any) -> Iterable[T_co]:
        made: Iterable[T_co] = on_input(_itself if self.fn is None else self.fn, self.input_col)(element)
        return made

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__}'s length relies on the output of its function.")


def _itself(*columns: Any) -> Any:
    return columns[0] if len(columns) == 1 else columns


@operator
class FlatMapper(_FlatMapping[T_co]):
    """Every element of the iterable that a function returns for each element.

    Args:
        fn: The function of the element, or of its columns as separate arguments. ``None``: the element is the
            iterable, or its column, or a tuple of its columns.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["ab", "c"]).flatmap())
    ['a', 'b', 'c']
    """

    _fluent: ClassVar[str | None] = "flatmap"

    datapipe: IterDataPipe[Any]
    fn: Callable[..., Iterable[T_co]] | None = None
    input_col: Any = None


@operator
class ShuffledFlatMapper(Shuffling, _FlatMapping[T_co]):
    """Every element of the iterables that a function returns for the elements, with several iterables at random.

    The elements of one iterable keep their order. ``set_shuffle(False)`` makes it a ``flatmap``.

    Args:
        fn: The function of the element, or of its columns as separate arguments. ``None``: the element is the
            iterable, or its column, or a tuple of its columns.
        buffer_size: Number of iterables to draw from at a time: a larger number mixes better, but keeps more open and
            in memory. With 1, nothing is mixed.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = IterableWrapper(["abc", "xyz"]).shuffled_flatmap().set_seed(3)
    >>> sorted(dp), [x for x in dp if x in "abc"]
    (['a', 'b', 'c', 'x', 'y', 'z'], ['a', 'b', 'c'])
    """

    _fluent: ClassVar[str | None] = "shuffled_flatmap"

    datapipe: IterDataPipe[Any]
    fn: Callable[..., Iterable[T_co]] | None = None
    input_col: Any = None
    buffer_size: int = 100

    def __post_init__(self) -> None:
        needs_count(self, "buffer_size", 1, "buffer_size should be larger than 0")
        super().__post_init__()

    def _open(self, at: Opening) -> Iterator[T_co]:
        size = self.buffer_size if self._enabled else 1
        return self._drawn(
            at, at.source(self.datapipe), at.cell(partial(_LiveIterablesCell, self, size, at.seed(self._seed)))
        )

    def _drawn(self, at: Opening, source: Iterator[Any], lives: _LiveIterablesCell) -> Iterator[T_co]:
        above = at.above()
        lives.bury()
        for live in lives.all:
            live.elements = self._of(at, live)
        draws, more = lives.draws.following(), True
        while True:
            while more and len(lives.all) < lives.size:
                before = above.cheap_table() if above is not None and lives.watch else None
                for element in source:
                    try:
                        watch, live = holds_stream(element), lives.begun()
                        live.held.hold(element, before if watch else None)
                        live.elements = self._of(at, live)
                    except BaseException as error:
                        at.keep(element, error)
                        raise
                    lives.watch = watch
                    lives.all.append(live)
                    break
                else:
                    more = False
            if not lives.all:
                break
            among = [live.elements for live in lives.all]
            number, used_up = len(among), False
            while not used_up:
                for share in draws:  # noqa: B007  # used below: a signal may arrive right after next() returns
                    break
                slot = -1
                try:
                    slot = int(share * number)
                    for made in among[slot]:  # noqa: B007  # used below: a signal may arrive right after next() returns
                        break
                    else:
                        used_up = True
                except BaseException as error:
                    has_ended = slot >= 0 and not lives.all[slot].held.holds_element()  # so this draw is done
                    if not (has_ended or consumes_element(error)):
                        lives.draws.go_to(lives.draws.count - 1)
                    raise
                if not used_up:
                    yield made
            del lives.all[slot]
        if lives.faults is not None:
            lives.faults.end()

    def _of(self, at: Opening, live: _LiveIterable) -> Iterator[T_co]:
        """Return the elements of one live iterable, from its position on."""
        live.held.seeded = at.seed(self._seed), at.run.number
        if live.above is not None:
            return self._taken_again(at, live)
        return self._elements(live.held.inputs(iter(())), live.held, self._inner)

    def _taken_again(self, at: Opening, live: _LiveIterable) -> Iterator[T_co]:
        positions, live.above = live.above, None
        session = at.session(at.untouched().datapipe, replace(at.run, errors=ErrorCounts()), positions)
        try:
            for element in segment(session):
                live.held.hold(element, positions or {})
                break
            else:
                raise StateError(f"{live.held.label}: an element of the saved position no longer exists")
            yield from self._elements(live.held.inputs(iter(())), live.held, self._inner)
        finally:
            session.close()

    def __len__(self) -> int:
        if self.fn is None and self.input_col is None and self.on_error == "raise":
            length_of(self.datapipe)  # raises for a source without a length: it may be endless
            session = Session.of(self.datapipe, Run(seed=0))
            try:
                return sum(map(len, segment(session)))
            finally:
                session.close()
        return super().__len__()


class _LiveIterable:
    """Current element, its iterable, and the table above to take it again from, if it has to be."""

    __slots__ = ("above", "elements", "held")

    def __init__(self, held: FlattenCell, above: Table | None = None) -> None:
        self.held = held
        self.above = above
        self.elements: Iterator[Any] = iter(())

    def save(self) -> list[Any] | None:
        where = self.held.where()
        return None if where is None else [where, self.held.carried() if self.above is None else self.above]


class _AllToleratedErrors(ToleratedErrors):
    """Errors of all live iterables. They are judged when the stage ends, not when an iterable does."""

    def finish(self) -> None:
        pass

    def end(self) -> None:
        """Judge the errors at the end of the stage."""
        super().finish()


class _LiveIterablesCell(Cell):
    """The live iterables, and the number of draws among them."""

    def __init__(self, pipe: ShuffledFlatMapper[Any], size: int, seed: int) -> None:
        self.faults: _AllToleratedErrors | None = None if pipe.on_error == "raise" else _AllToleratedErrors(pipe)
        self.size = size
        self.all: list[_LiveIterable] = []
        self.watch = True  # whether elements hold streams; constant after the first element
        self._pipe = pipe
        self.draws = shares(seed, _BLOCK)

    def begin(self) -> _LiveIterable:
        """Append a live iterable and return it."""
        self.all.append(self.begun())
        return self.all[-1]

    def begun(self) -> _LiveIterable:
        """Return a new live iterable that is not in the list yet."""
        held = FlattenCell(self._pipe)
        held.stage, held.faults, held.reopening = self.stage, self.faults, self.reopening
        return _LiveIterable(held)

    def bury(self) -> None:
        """Remove the iterables that could not be made, or have ended, after an exception."""
        self.all = [live for live in self.all if live.held.holds_element()]

    def save(self) -> dict[str, Any]:
        for live in self.all:
            live.held.tally()
        saved = [live.save() for live in self.all]
        lives = [one for one in saved if one is not None]
        return {"size": self.size, "draws": self.draws.count, "lives": lives, "errors": self.saved_errors()}

    def load(self, saved: Any) -> None:
        size, draws, lives, errors = fields(saved, "size", "draws", "lives", "errors")
        if size != self.size:
            raise StateError(f"size: saved with a buffer_size of {size!r:.80}, but it is {self.size} now")
        self.draws.go_to(count(draws, "draws"))
        if type(lives) is not list or len(lives) > self.size:
            raise StateError(f"lives: expected a list of at most {self.size}, found {lives!r:.80}")
        for entry in lives:
            if type(entry) is not list or len(entry) != 2 or type(entry[0]) is not dict:
                raise StateError(f"lives: expected a position in an iterable and a table above, found {entry!r:.80}")
            where, above = entry
            live = self.begin()
            live.held.go_to(where)
            live.above = table(above)
            if (live.above is None) != ("rest" in where or "element" in where):
                raise StateError(f"lives: expected an element, or a table to take it again from, found {entry!r:.80}")
        self.load_errors(errors)

    def close(self) -> None:
        for live in self.all:
            live.elements = iter(())
            live.held.close()
        self.all.clear()
