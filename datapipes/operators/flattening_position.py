"""The element at hand: the position of a stage that turns one element into many.

It is the element and what is left of it. A list or tuple is saved as its remaining elements; of any other iterable, the
element that it was made from and how many were given, so that resuming makes it once more and passes over those. An
element that holds an open stream is being read meanwhile: so the positions above are kept as they were before it was
taken, and resuming takes it anew; or, where there are none to be had cheaply, the element is saved when it is taken.
Both cost something for each element, so it is done while elements hold streams, which is from the first on or never.
What knows how to pass over its first elements without making them, and
where an error in it comes from, is a ``Parts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import length_hint
from types import GeneratorType
from typing import Any, TypeVar

from datapipes.description.pipe import IterDataPipe
from datapipes.elements.streams import StreamWrapper, holds_stream
from datapipes.errors import StateError, UnsavableElement
from datapipes.position.cells import Cell, Table, count, fields
from datapipes.position.counting import Counted
from datapipes.position.on_error import Faults
from datapipes.position.opening import Above

T_co = TypeVar("T_co", covariant=True)


class Parts(Iterable[T_co]):
    """An iterable that one element becomes, which can skip elements and locate errors."""

    def skip(self, given: int) -> int:
        """Before the first was made: pass over this many without making them, or over fewer; how many those were."""
        return 0

    def locate(self, error: Exception) -> None:
        """Write into an error that iterating raised which part of which file it is about."""


class Inner(Cell):
    """The element at hand, and the iterator over what it became."""

    carries = True

    def __init__(self, pipe: IterDataPipe[Any], let_go: Callable[[Any], None] = StreamWrapper.close_streams) -> None:
        self._let_go = let_go  # what is done with an element that is used up, or left
        self.faults = None if pipe.on_error == "raise" else Faults(pipe)
        self._tallied = 0  # how many of the elements that came of the one at hand are counted among those seen
        self.rest: Iterator[Any] | None = None
        self._element: Any = None
        self._becomes: Any = None
        self._counted: Counted[Any] | None = None
        self.lost = 0  # how many elements of the one at hand could not be made
        self._behind = 0
        self._pending = False  # whether a loaded element waits to be made anew
        self._loaded: Any = None  # a loaded position, until something is taken
        self._positions: Above | None = None
        self._above: Callable[[], Table] | None = None  # the positions before the element at hand was taken
        self._as_taken: bytes | None = None  # the element at hand as it was then, if it holds streams and is saved so
        self._at_start = False
        self._watch = True

    def watching(self, above: Above | None, at_start: bool) -> Inner:
        """Look at the positions above, unless they are shared with somebody; ``at_start``: nothing was taken yet."""
        self._positions = above
        self._at_start = at_start
        if self._loaded is None and not self._pending:
            self._behind = 0  # the element that this was meant for could not be taken again
        return self

    def inputs(self, source: Iterator[Any]) -> Iterator[Any]:
        """The element at hand, if there is one, and then those of the source."""
        if self.rest is not None or self._pending:
            self._pending, self._loaded = False, None
            yield self._element
        while self._watch:
            if self._positions is not None:
                self._above = self._positions.at_start if self._at_start else self._positions.kept()
                self._at_start, self._loaded = False, None
            for element in source:
                self._look_at(element)
                yield element
                break
            else:
                self._above = None
                return
        self._above = None
        yield from source

    def _look_at(self, element: Any) -> None:
        """Save an element with streams as it was taken, if the positions above cannot stand for it."""
        self._watch, self._as_taken = holds_stream(element), None
        if self._watch and self._above is None:
            with suppress(UnsavableElement):  # an error only when somebody saves
                self._as_taken = self.encode([element])

    def hold(self, element: Any, above: Callable[[], Table] | None) -> None:
        """Hold an element; ``above``: the positions before it was taken, if they are known."""
        self._element, self._pending, self._loaded, self._above = element, True, None, above
        self._look_at(element)

    def begin(self, element: Any, becomes: Iterable[Any]) -> None:
        """Begin to iterate over what an element became."""
        if type(becomes) in (list, tuple):
            self._counted, self.rest, skipped = None, iter(becomes), 0
        else:
            skipped = becomes.skip(self._behind) if isinstance(becomes, Parts) and self._behind else 0
            self._counted = Counted(becomes, start=skipped)
            self.rest = self._counted.elements
        self.lost = self._replay(self.rest, self._behind - skipped)
        self._element, self._becomes, self._behind, self._loaded = element, becomes, 0, None
        self._tallied = self._taken()

    def start_over(self, given: int) -> None:
        """Have the element at hand made once more, and what was given of it passed over."""
        self._behind, self.rest = given, None

    def given(self) -> int:
        """The number of elements of the one at hand that are behind it, those included that could not be made."""
        return self._taken() + self.lost

    def _taken(self) -> int:
        """The number of elements that the one at hand has given."""
        if self._counted is not None:
            return self._counted.taken
        return 0 if self.rest is None else len(self._becomes) - length_hint(self.rest)

    def tally(self, errors: int = 0) -> None:
        """Count the elements given since the last time as seen."""
        if self.faults is not None:
            taken = self._taken()
            self.faults.seen += taken - self._tallied + errors
            self._tallied = taken

    def _replay(self, rest: Iterator[Any], behind: int) -> int:
        """Skip the elements that were given before, and those that could not be made then, without their errors."""
        lost = 0
        for given in range(behind):
            try:
                next(rest)
            except StopIteration:
                if not lost:
                    raise StateError(
                        f"{self.label}: {behind} elements were given from one, and now there are {given}"
                    ) from None
                break
            except Exception as error:
                lost += 1
                error.__traceback__ = None
        return lost

    def locate(self, error: Exception) -> None:
        """Add to an error its place in the element at hand."""
        if isinstance(self._becomes, Parts):
            self._becomes.locate(error)

    def finish(self) -> None:
        """Let go of an element that is used up; its stream is closed."""
        if self._watch and self._element is not None:
            self._let_go(self._element)
        self.tally()
        self.rest = self._element = self._becomes = self._counted = self._as_taken = None
        self.lost = self._tallied = 0

    def save(self) -> dict[str, Any] | None:
        if self.faults is None:
            return self.where()
        self.tally()
        return {"errors": self.faults.save(), "at": self.where()}

    def where(self) -> dict[str, Any] | None:
        """The position without the errors; None if there is no element at hand."""
        if self._loaded is not None or (self.rest is None and not self._pending):
            loaded: dict[str, Any] | None = self._loaded
            return loaded
        if self.rest is not None and self._counted is None:
            left = length_hint(self.rest)
            return {"rest": self.encode(list(self._becomes[len(self._becomes) - left :]))}
        given = self._behind if self.rest is None else self.given()
        if self._above is not None and self._watch:
            return {"given": given}
        return {"given": given, "element": self.encode([self._element]) if self._as_taken is None else self._as_taken}

    def carried(self) -> Table | None:
        is_made_anew = self._pending or (self.rest is not None and self._counted is not None)
        holds_unsaved = is_made_anew and self._watch and self._loaded is None
        return self._above() if holds_unsaved and self._above is not None else None

    def load(self, saved: Any) -> None:
        if self.faults is not None:
            errors, saved = fields(saved, "errors", "at")
            self.faults.load(errors)
        self.go_to(saved)

    def go_to(self, saved: Any) -> None:
        """Load a position that ``where`` gave."""
        if saved is None:
            return
        self._loaded = saved
        if isinstance(saved, dict) and "rest" in saved:
            (rest,) = fields(saved, "rest")
            self._becomes = self.decode_list(rest)
            self.rest = iter(self._becomes)
        elif isinstance(saved, dict) and "element" in saved:
            given, element = fields(saved, "given", "element")
            self._behind = count(given, "given")
            elements = self.decode_list(element)
            if len(elements) != 1:
                raise StateError(f"element: expected one, found {len(elements)}")
            self._element, self._pending = elements[0], True
            self._as_taken = element if holds_stream(self._element) else None
        else:
            (given,) = fields(saved, "given")
            self._behind = count(given, "given")

    def close(self) -> None:
        if isinstance(self._becomes, GeneratorType):
            self._becomes.close()
        if self._watch and self._element is not None:
            self._let_go(self._element)
        self.rest = self._element = self._becomes = self._counted = None
