"""Flattening stages, which turn one element into many: their position, and their handling of errors.

A subclass defines in ``_inner`` the elements that one element becomes. The position is the current element and the rest
of it. The rest of a list or tuple is saved. For any other iterable, the current element and a count are saved. Resuming
then makes the iterable again and skips that many elements.

An element that holds an open stream is read meanwhile. So the table of the stages above is kept from before it was
taken, and resuming takes it again. If that table is not cheap, the element is saved when it is taken. Both cost time
for each element, so they are done only as long as elements hold streams. An iterable that can skip elements without
making them, and that can locate errors in a file, is a ``Pieces``.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from operator import length_hint
from types import GeneratorType
from typing import Any, ClassVar, NamedTuple, TypeVar

from datapipes.description.pipe import IterDataPipe
from datapipes.elements.streams import StreamWrapper, holds_stream, rewound
from datapipes.errors import StateError, UnsavableElement
from datapipes.position.cells import Cell, Counted, Table, count, fields
from datapipes.position.iterator import PipeIterator, repeatable
from datapipes.position.on_error import SKIP, ToleratedErrors
from datapipes.position.opening import Opening, PositionsAbove
from datapipes.position.seeds import derive

T_co = TypeVar("T_co", covariant=True)


class Pieces(Iterable[T_co]):
    """An iterable that one element becomes, which can skip elements, locate errors and detect that it has changed."""

    def skip(self, given: int) -> int:
        """Skip up to ``given`` elements before the first one is made. Return how many were skipped."""
        return 0

    def locate(self, error: Exception) -> None:
        """Add the place in a file to an error that iterating raised."""

    def mark(self) -> str | None:
        """Return a fingerprint of the elements given so far, which a resume compares. None: only their count."""
        return None

    def changed(self) -> str:
        """Return the text of an error for a mark that differs from the saved one, and what to do."""
        raise NotImplementedError(f"{type(self).__name__} has a mark, but does not define changed()")


class _ReplayStart(NamedTuple):
    """Elements of the current one to skip when it is made again."""

    given: int = 0
    mark: str | None = None
    """The mark of these elements in a loaded position."""


_NOTHING = _ReplayStart()


class FlattenCell(Cell):
    """The current element, and the iterator over the elements that it became."""

    carries = True

    def __init__(self, pipe: IterDataPipe[Any], dispose: Callable[[Any], None] = StreamWrapper.close_streams) -> None:
        self.dispose = dispose  # called with an element that is used up, or left
        self.faults = None if pipe.on_error == "raise" else ToleratedErrors(pipe)
        self._tallied = 0  # the number of elements of the current one that are counted among those seen
        self.rest: Iterator[Any] | None = None
        self._element: Any = None
        self._becomes: Any = None
        self._counted: Counted[Any] | None = None
        self.lost = 0  # the number of elements of the current one that could not be made
        self._skip = _NOTHING
        self.pending = False  # whether a loaded element waits to be made again
        self._loaded: Any = None  # a loaded position, until an element is taken
        self._above: Table | None = None  # the table of the stages above, before the current element was taken
        self._as_taken: bytes | None = None  # the current element before it was read, if it is saved so
        self._watch = True
        self.seeded = 0, 0  # the seed of the stage and the number of the epoch, for pipes that elements become
        self._gone = False  # whether the current element cannot be made again

    def inputs(
        self, source: Iterator[Any], above: PositionsAbove | None = None, at_start: bool = True
    ) -> Iterator[Any]:
        """Yield the current element, if there is one, and then those of the source.

        Args:
            source: The source.
            above: The stages above, for tables. ``None``: another stage reads them, too.
            at_start: Whether no element was taken yet.
        """
        if self._loaded is None and not self.pending:
            self._skip = _NOTHING  # the element to which it belongs could not be taken again
        if self._gone:
            raise StateError(
                f"{self.label}: a stream was being read when the iteration was interrupted, and cannot be read again "
                "from its start"
            )
        if self.rest is not None or self.pending:
            self._loaded = None
            yield self._element
        while self._watch:
            if above is not None:
                self._above = above.at_start() if at_start else above.cheap_table()
                at_start, self._loaded = False, None
            for element in source:
                self._element, self.pending = element, True
                self._look_at(element)
                yield element
                break
            else:
                self._above = None
                return
        self._above = None
        yield from source

    def _look_at(self, element: Any) -> None:
        """Save an element with streams as it was taken, if there is no table of the stages above."""
        self._watch, self._as_taken = holds_stream(element), None
        if self._watch and self._above is None:
            with suppress(UnsavableElement):  # an error only if a state is saved
                self._as_taken = self.encode([element])

    def hold(self, element: Any, above: Table | None) -> None:
        """Hold an element. ``above`` is the table from before it was taken, if it is known."""
        self._element, self.pending, self._loaded, self._above = element, True, None, above
        self._look_at(element)

    def begin(self, element: Any, becomes: Iterable[Any]) -> None:
        """Begin to iterate over the elements that an element became."""
        (behind, mark), counted, skipped = self._skip, None, 0
        if type(becomes) in (list, tuple):
            rest = iter(becomes)
        else:
            if isinstance(becomes, IterDataPipe):
                seed, number = self.seeded
                becomes = repeatable(becomes, derive(seed, self._text_of(element)), number)
            skipped = becomes.skip(behind) if isinstance(becomes, Pieces) and behind else 0
            counted = Counted(becomes, start=skipped)
            rest = counted.elements
        lost = self._replay(rest, behind - skipped)
        self._counted, self.rest, self.lost = counted, rest, lost  # nothing is called in between
        self._element, self._becomes, self._skip, self._loaded = element, becomes, _NOTHING, None
        self.pending = False
        self._tallied = self._taken()
        if mark is not None and isinstance(becomes, Pieces) and becomes.mark() != mark:
            raise StateError(f"{self.label}: {becomes.changed()}")

    def _text_of(self, element: Any) -> bytes:
        """Return the element as bytes, so that pipes of different elements have different seeds."""
        try:
            return self.encode([element])
        except UnsavableElement:
            return b""

    def start_over(self, given: int) -> None:
        """Make the current element again, and skip the elements that it gave."""
        self._skip, self.rest = self._skip._replace(given=given), None

    def failed(self) -> None:
        """End the current element after an error in ``_inner``: it became nothing."""
        self.pending = False

    def interrupted(self, element: Any) -> None:
        """Keep the element during which an interruption came. The iterable may be lost with the frames."""
        if self.pending or (self.rest is not None and self._counted is not None):
            given = self._skip.given if self.rest is None else self.given()
            self._gone = self._watch and not rewound(element)
            self.start_over(given)
            self._element, self.pending = element, True

    def given(self) -> int:
        """Return the number of elements of the current one that are done, with those that could not be made."""
        return self._taken() + self.lost

    def _taken(self) -> int:
        """Return the number of elements that the current one has given."""
        if self._counted is not None:
            return self._counted.taken
        return 0 if self.rest is None else len(self._becomes) - length_hint(self.rest)

    def tally(self, errors: int = 0) -> None:
        """Count the elements given since the last call as seen."""
        if self.faults is not None:
            taken = self._taken()
            self.faults.seen += taken - self._tallied + errors
            self._tallied = taken

    def _replay(self, rest: Iterator[Any], behind: int) -> int:
        """Skip the elements that were given before, and those that could not be made, without their errors."""
        lost = 0
        for given in range(behind):
            try:
                next(rest)
            except StopIteration:
                if not lost:
                    raise StateError(
                        f"{self.label}: one element gave {behind} elements before, and now it gives {given}"
                    ) from None
                break
            except Exception as error:
                lost += 1
                error.__traceback__ = None
        return lost

    def locate(self, error: Exception) -> None:
        """Add to an error its place in the current element."""
        if isinstance(self._becomes, Pieces):
            self._becomes.locate(error)

    def finish(self) -> None:
        """Release an element that is used up. Its stream is closed."""
        element = self._element
        self.tally()
        self.rest = self._element = self._becomes = self._counted = self._as_taken = None
        self.lost = self._tallied = 0
        self.pending = False
        if self._watch and element is not None:
            self.dispose(element)

    def save(self) -> dict[str, Any] | None:
        if self.faults is None:
            return self.where()
        self.tally()
        return {"errors": self.faults.save(), "at": self.where()}

    def holds_element(self) -> bool:
        """Return whether there is a current element, or the position of one was loaded."""
        return self._loaded is not None or self.rest is not None or self.pending

    def where(self) -> dict[str, Any] | None:
        """Return the position without the errors, or None if there is no current element."""
        if self._loaded is not None or not self.holds_element():
            loaded: dict[str, Any] | None = self._loaded
            return loaded
        if self.rest is not None and self._counted is None:
            left = length_hint(self.rest)
            return {"rest": self.encode(list(self._becomes[len(self._becomes) - left :]))}
        given = self._skip.given if self.rest is None else self.given()
        position: dict[str, Any] = {"given": given}
        mark = self._becomes.mark() if isinstance(self._becomes, Pieces) else None
        if given and mark is not None:
            position["mark"] = mark
        if self._above is None or not self._watch:
            position["element"] = self.encode([self._element]) if self._as_taken is None else self._as_taken
        return position

    def carried(self) -> Table | None:
        is_made_anew = self.pending or (self.rest is not None and self._counted is not None)
        holds_unsaved = is_made_anew and self._watch and self._loaded is None
        return self._above if holds_unsaved else None

    def load(self, saved: Any) -> None:
        if self.faults is not None:
            errors, saved = fields(saved, "errors", "at")
            self.faults.load(errors)
        self.go_to(saved)

    def go_to(self, saved: Any) -> None:
        """Load a position that ``where`` returned."""
        if saved is None:
            return
        self._loaded, mark = saved, None
        if isinstance(saved, dict) and "mark" in saved:
            saved = dict(saved)
            mark = saved.pop("mark")
        if isinstance(saved, dict) and "rest" in saved:
            (rest,) = fields(saved, "rest")
            self._becomes = self.decode_list(rest)
            self.rest = iter(self._becomes)
        elif isinstance(saved, dict) and "element" in saved:
            given, element = fields(saved, "given", "element")
            self._skip = _ReplayStart(count(given, "given"), mark)
            elements = self.decode_list(element)
            if len(elements) != 1:
                raise StateError(f"element: expected one, found {len(elements)}")
            self._element, self.pending = elements[0], True
            self._as_taken = element if holds_stream(self._element) else None
        else:
            (given,) = fields(saved, "given")
            self._skip = _ReplayStart(count(given, "given"), mark)

    def close(self) -> None:
        if isinstance(self._becomes, GeneratorType | PipeIterator):
            self._becomes.close()
        if self._watch and self._element is not None:
            self.dispose(self._element)
        self.rest = self._element = self._becomes = self._counted = None


class Flattening(IterDataPipe[T_co]):
    """Base of flattening stages. ``_inner`` defines the elements that one element becomes.

    An error in ``_inner`` costs the whole element. An error in the iterable costs one element of it if the iterable can
    continue. A broken stream cannot: it would raise the same error for ever.
    """

    _cell: ClassVar[type[FlattenCell]] = FlattenCell

    def _inner(self, element: Any) -> Iterable[T_co]:
        """Return the elements that one element becomes."""
        raise NotImplementedError(f"{type(self).__name__} has no _inner")

    def _inner_of_opening(self) -> Callable[[Any], Iterable[T_co]]:
        """Return ``_inner``, or a function for its purpose that depends on what is decided when the stage is opened."""
        return self._inner

    def _open(self, at: Opening) -> Iterator[T_co]:
        (source,) = self._reads()
        above = at.above()
        held = at.cell(partial(self._cell, self, self._let_go))
        held.seeded = at.seed(), at.run.number
        inputs = held.inputs(at.source(source), above, at_start=not at.resumed)
        return self._elements(inputs, held, self._inner_of_opening())

    def _let_go(self, element: Any) -> None:
        """Close the streams of an element that is used up, or left."""
        StreamWrapper.close_streams(element)

    def _elements(
        self, inputs: Iterator[Any], held: FlattenCell, inner: Callable[[Any], Iterable[T_co]]
    ) -> Iterator[T_co]:
        for element in inputs:
            held.pending = held.rest is None
            try:
                if held.faults is not None:
                    yield from self._tolerant(element, held, held.faults, inner)
                    continue
                if held.rest is None:
                    try:
                        held.begin(element, inner(element))
                    except Exception:
                        held.failed()
                        self._let_go(element)
                        raise
                try:
                    yield from held.rest or ()
                except Exception as error:
                    held.lost += 1
                    held.locate(error)
                    if isinstance(error, _BROKEN_STREAM):
                        held.finish()
                    raise
                held.finish()
            except (Exception, GeneratorExit):
                raise
            except BaseException:
                held.interrupted(element)
                raise
        if held.faults is not None:
            held.faults.finish()

    def _tolerant(
        self, element: Any, held: FlattenCell, faults: ToleratedErrors, inner: Callable[[Any], Iterable[T_co]]
    ) -> Iterator[T_co]:
        """Yield the elements that one element becomes, and absorb errors."""
        last, alike = None, 0  # the same error several times, with no element in between
        while True:
            try:
                if held.rest is None:
                    held.begin(element, inner(element))
                for made in held.rest or ():
                    last = None
                    yield made
                break
            except StateError:
                raise
            except Exception as error:
                held.locate(error)
                made = self._absorbed(error, element, held, faults, inner)
                alike = alike + 1 if last == (type(error), error.args) else 1
                last = type(error), error.args
                gives_up = isinstance(error, _BROKEN_STREAM) or alike == _STUCK
                broken = held.rest is None or (gives_up and not faults.retries)
            if made is not SKIP:
                held.pending = held.pending and not broken
                yield made
            if broken:
                break
        if held.rest is None:
            self._let_go(element)
        held.finish()

    def _absorbed(
        self,
        error: Exception,
        element: Any,
        held: FlattenCell,
        faults: ToleratedErrors,
        inner: Callable[[Any], Iterable[T_co]],
    ) -> Any:
        """Return the replacement for an element that could not be made. Its number is used up in any case."""
        before = held.given()

        def again() -> Any:
            if not rewound(element):
                raise error
            held.start_over(before)
            held.begin(element, inner(element))
            held.lost += 1
            made = next(held.rest or iter(()), SKIP)
            held.lost -= 1
            return made

        held.tally(errors=1)
        held.lost += held.rest is not None
        return faults.absorb(error, element, again)


_BROKEN_STREAM = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Errors that a stream raises again and again.

After any other error, such as one in a line, the next line may be good.
"""
_STUCK = 100
"""Number of equal errors, with no element in between, after which an iterable is given up."""
