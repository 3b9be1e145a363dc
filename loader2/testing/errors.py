"""The law of errors: an exception reaches the user as it is, and only ends the element that it hit.

A specimen is built with taps that make some elements fail. Its source raises in their place, or a user's function
raises on them, or a user's generator raises after its first element. The delivered elements are compared with those of
the same graph over a source that never had the failing ones. Both graphs have the same stages, so they draw the same
numbers.

If it is not known which sources are read in step, each is made to raise, and the other sources lose no element. If the
graph then makes elements that it does not give otherwise, such as a picture with the label of another one, the sources
are in step: they lose an element together. The elements are not compared if they depend on the seed, or if the graph
needs the failing element.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from json import JSONDecodeError
from operator import itemgetter
from traceback import extract_tb
from typing import Any, NamedTuple

from datapipes.elements.streams import holds_stream
from datapipes.errors import CorruptData, GraphError, UnsafeMember
from datapipes.graph import Pipe
from datapipes.iter import Enumerator, IterableWrapper, Mapper
from datapipes.messages.short import element_shown
from loader2 import DataLoader2
from loader2.testing.comparing import SEED, affordable, drawn, must, must_equal, taken
from loader2.testing.ending import nothing_left
from loader2.testing.specimen import Build, Function, Specimen, Tap, shown

MOST_FAULTS = 30  # in one stream; more count as endless.
MOST_IN_VAIN = 10  # in a stream that may run again from its start after each.
MOST_RESUMED = 6  # exceptions in a stream after which a resume is tried.
_COMPARED = 40  # characters of an element in a note.
_ELEMENTS = " (functions passed to tap.function() and tap.generator() have to be called with elements of the source)"
TELLING = 3  # index of the two neighbouring elements in ``_hits``

_GIVEN = {"function": _ELEMENTS, "generator": _ELEMENTS}

Hit = frozenset[int]


class Fault(ValueError):
    """Error that a specimen's source or function is made to raise."""


# For an exception that a child of a fork had not met yet, a state has a GraphError.
EXPECTED = (
    *(Fault, FileNotFoundError, UnicodeDecodeError, JSONDecodeError, GraphError),
    *(CorruptData, UnsafeMember),
)


class FaultySource(Tap):
    """Tap whose source raises in place of some elements."""

    def __init__(self, hit: Hit) -> None:
        super().__init__()
        self.hit = hit

    def __call__(self, source: Pipe) -> Pipe:
        return Mapper(Enumerator(source), partial(_raise_in_place_of, self.hit))

    def partner(self, source: Pipe) -> Pipe:
        return Mapper(Enumerator(source), itemgetter(1))

    beside = partner


class WithoutThese(FaultySource):
    """Tap whose source never had some elements, and neither had the sources read in step with it."""

    def __call__(self, source: Pipe) -> Pipe:
        elements = [element for i, element in enumerate(source.iterable) if i not in self.hit]
        return Mapper(Enumerator(IterableWrapper(elements, source.deepcopy)), itemgetter(1))

    partner = __call__


class WithoutTheseInStep(WithoutThese):
    """Tap of which no source ever had some elements."""

    beside = WithoutThese.__call__


class FaultyFunction(FaultySource):
    """Tap whose function raises on some elements of the sources, and on all that are equal to one of these."""

    def __init__(self, hit: Hit) -> None:
        super().__init__(hit)
        self.values: set[str] = set()
        """The failing elements as texts: a function gets elements, without their numbers."""

    def __call__(self, source: Pipe) -> Pipe:
        self.values |= {_text(element) for i, element in enumerate(source.iterable) if i in self.hit}
        return self.partner(source)

    def function(self, fn: Function) -> Function:
        return partial(_raise_on, self.values, fn)


class WithoutEqual(WithoutThese):
    """Tap whose sources never had the elements on which a function raises, nor had those read in step with them."""

    def __init__(self, values: set[str]) -> None:
        super().__init__(frozenset())
        self.values = values

    def __call__(self, source: Pipe) -> Pipe:
        self.hit = frozenset(i for i, element in enumerate(source.iterable) if _text(element) in self.values)
        return super().__call__(source)


class FaultyGenerator(FaultyFunction):
    """Tap whose function makes generators, of which some raise after their first element."""

    def function(self, fn: Function) -> Function:
        return fn

    def generator(self, fn: Function) -> Function:
        return partial(_raise_after_first, self.values, fn)


class ShortGenerator(FaultyGenerator):
    """Tap whose function makes generators, of which some end after their first element."""

    def generator(self, fn: Function) -> Function:
        return partial(_end_after_first, self.values, fn)


def _text(element: Any) -> str:
    """Return a text that equal elements have in common. It does not read streams."""
    return repr(element) if holds_stream(element) else shown(element)


# The parameters of these are not called `element`: a note would show it instead of the stage's own element.


def _raise_in_place_of(hit: Hit, numbered: tuple[int, Any]) -> Any:
    number, value = numbered
    if number in hit:
        raise Fault(f"number {number}")
    return value


def _raise_on(values: set[str], fn: Function, value: Any) -> Any:
    if _text(value) in values:
        raise Fault(f"on {element_shown(value)}")
    return fn(value)


def _raise_after_first(values: set[str], fn: Function, value: Any) -> Iterator[Any]:
    yield from _end_after_first(values, fn, value)
    if _text(value) in values:
        raise Fault(f"within {element_shown(value)}")


def _end_after_first(values: set[str], fn: Function, value: Any) -> Iterator[Any]:
    yield from islice(fn(value), 1 if _text(value) in values else None)


class Event(NamedTuple):
    """Element or exception of a loader."""

    text: str
    is_element: bool = True
    state: dict[str, Any] | None = None


def error_and_go_on(specimen: Specimen) -> None:
    """Check that an exception reaches the user with a note, and that the stream continues and resumes after it."""
    if specimen.raises:
        events = _check_events(specimen, specimen.build, "by itself", _most(specimen))
        must(_faults(events) > 0, "no exception reached the user")
        return
    for number, build in enumerate(specimen.by_source):
        _check_source(
            replace(specimen, build=build),
            f"source {number + 1} of {len(specimen.by_source)}",
            (WithoutThese, WithoutTheseInStep),
        )
    if not specimen.by_source:
        _check_source(specimen, "source", (WithoutThese,))


def _check_source(specimen: Specimen, source: str, references: Sequence[Callable[[Hit], Tap]]) -> None:
    """Let one source of a graph raise. Compare with the first reference whose elements are the graph's own."""
    plain = Tap()
    specimen.build(plain)
    whole = taken(iter(specimen.loader(seed=SEED)))
    is_compared = specimen.after_fault != "otherwise" and not (specimen.by_source and _is_random(specimen, whole))
    for hit in affordable(specimen, _tried(specimen, _hits(min(plain.lengths, default=0)))):
        without = [reference(hit) for reference in references]
        pairs: list[tuple[str, Tap, list[Tap]]] = [(source, FaultySource(hit), without)]
        if plain.functions:
            function = FaultyFunction(hit)
            specimen.build(function)  # which fills in its values
            pairs.append(("function", function, [WithoutEqual(function.values)]))
        if plain.generators:
            pairs.append(("generator", FaultyGenerator(hit), [ShortGenerator(hit)]))
        for who, faulty, taps in pairs:
            what = f"the {who} raises on {', '.join(map(str, sorted(hit)))}"
            most = _most(specimen, len(hit))
            try:
                expected = _expected(specimen, taps, whole)
            except Exception:  # for example a join without the partner of an element
                if specimen.by_source:
                    continue
                raise
            events = _check_events(specimen, partial(_build_with, specimen, faulty), what, most)
            delivered = [event.text for event in events if event.is_element]
            if specimen.after_fault == "goes on or stays" and _faults(events) >= most:
                expected = expected[: len(delivered)]
            if is_compared:
                must_equal(delivered, expected, f"{what}: the elements delivered")
                must(
                    sorted(expected) == sorted(whole) or _faults(events) > 0,
                    f"{what}: no exception{_GIVEN.get(who, '')}",
                )


def _is_random(specimen: Specimen, whole: list[str]) -> bool:
    """Return whether other seeds of the loader give other elements."""
    return any(taken(iter(specimen.loader(seed=SEED + i))) != whole for i in range(1, 4))


def _expected(specimen: Specimen, references: list[Tap], whole: list[str]) -> list[str]:
    """Return the elements of the first reference that gives only the graph's own, or of the last reference."""
    for reference in references:
        expected = taken(iter(specimen.loader(specimen.build(reference), SEED)))
        if not Counter(expected) - Counter(whole):
            break
    return expected


def _build_with(specimen: Specimen, tap: Tap, _: Tap) -> Pipe:
    return specimen.build(tap)


def _hits(length: int) -> list[Hit]:
    """Return sets of elements to hit: the first, one in the middle, the one after it, both, the last, all."""
    middle = length // 2
    if length >= MOST_FAULTS // 2:
        return [frozenset({middle})]
    hits = [{0}, {middle}, {middle + 1}, {middle, middle + 1}, {length - 1}, set(range(length))]
    kept = [frozenset(i for i in hit if 0 <= i < length) for hit in hits]
    return [hit for hit in dict.fromkeys(kept) if hit]


def _tried(specimen: Specimen, hits: list[Hit]) -> list[Hit]:
    """Return all sets for a thorough specimen, otherwise the two neighbours and some more."""
    if specimen.thorough or len(hits) <= TELLING:
        return hits
    return [hits[TELLING], *drawn(specimen, hits[:TELLING] + hits[TELLING + 1 :])]


def _most(specimen: Specimen, hits: int = 0) -> int:
    """Return the number of exceptions after which a stream is left."""
    if specimen.after_fault == "goes on or stays":
        return 2 * hits + 3  # a stream that continues meets each once, or twice if it reads its source again
    return MOST_IN_VAIN if specimen.after_fault == "otherwise" and not specimen.thorough else MOST_FAULTS


def _check_events(specimen: Specimen, build: Build, what: str, most: int) -> list[Event]:
    """Read a stream that raises to its end, and resume it after each exception. Return its events."""
    events = _drained(specimen, specimen.loader(build(Tap()), SEED), most, saving=True)
    texts = [event.text for event in events]
    with nothing_left(what):
        quietly = [event.text for event in _drained(specimen, specimen.loader(build(Tap()), SEED), most)]
    must_equal(quietly, texts, f"{what}: when no state is taken")
    for faults in (1, 2):
        with nothing_left(f"{what}, and after {faults} exceptions everything is dropped"):
            _abandoned(specimen.loader(build(Tap()), SEED), faults)
    for i, event in enumerate(events):
        if not event.is_element and _faults(events[:i]) < MOST_RESUMED:
            loader = specimen.loader(build(Tap()))
            loader.load_state_dict(pickle.loads(pickle.dumps(event.state)))
            resumed = [event.text for event in _drained(specimen, loader, most, already=_faults(events[: i + 1]))]
            must_equal(resumed, texts[i + 1 :], f"{what}: resumed after {event.text}, event {i}")
    return events


def _drained(
    specimen: Specimen, loader: DataLoader2[Any], most: int, saving: bool = False, already: int = 0
) -> list[Event]:
    """Return elements and exceptions in their order, with the states right after each exception."""
    events: list[Event] = []
    iterator = iter(loader)
    while already + _faults(events) < most:
        try:
            events.append(Event(shown(next(iterator))))
        except StopIteration:
            break
        except EXPECTED as error:
            _must_be_noted(error)
            # Not the exception itself: its traceback would keep the iteration alive.
            events.append(Event(_named(error), False, loader.state_dict() if saving else None))
    else:
        must(specimen.after_fault != "goes on", f"it raises endlessly: {events[-3:]!s:.200}")
    loader.shutdown()
    return events


def _abandoned(loader: DataLoader2[Any], faults: int) -> None:
    """Iterate up to an exception, and leave. The exception must not keep the iteration alive."""
    iterator = iter(loader)
    for _ in range(faults):
        with suppress(*EXPECTED):
            for element in iterator:
                shown(element)


def _named(error: BaseException) -> str:
    """Return an exception as text. For one that a state saved for a child of a fork, return that one's text."""
    saved = str(error).partition(" before its position was saved: ")[2] if isinstance(error, GraphError) else ""
    return saved or f"{type(error).__name__}: {error}"


def _faults(events: list[Event]) -> int:
    return sum(not event.is_element for event in events)


def _must_be_noted(error: BaseException) -> None:
    notes = [note for note in getattr(error, "__notes__", []) if note.startswith("raised in stage ")]
    must(len(notes) == 1, f"{error!r}: {len(notes)} notes name its stage: {notes}")
    if isinstance(error, Fault):
        must("<_raise_" in notes[0], f"{error!r}: the note does not name the stage that raised: {notes[0]}")
        on = [line.partition(": ")[2] or line for line in notes[0].splitlines() if line.startswith("  on ")]
        element = str(error).partition("\n")[0].partition(" ")[2][:_COMPARED]
        known = any(element in line for line in on) or "  after it had given " in notes[0]  # the note of a user's class
        must(known, f"{error!r}: the note does not show the element: {notes[0]}")
        frames = [frame.name for frame in extract_tb(error.__traceback__)]
        in_text = ", in _raise_" in str(error.__cause__)  # an exception of another process has its traceback as text
        must(
            frames[-1].startswith("_raise_") or in_text,
            f"{error!r}: the traceback does not lead to the line that raised it: {frames}",
        )
