"""Position of a user's class: a replay by count, or its own ``state_dict``.

A class that has ``state_dict`` and ``load_state_dict`` is asked, and what it says is complete at each ``yield``. Any
other class is replayed: its position is the number of elements it has given, and, if it is an iterator that outlives
its exceptions, when it raised them, so that an element which failed is passed over again and not given after all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, pairwise, repeat, starmap
from types import GeneratorType
from typing import Any

from datapipes.description import structure
from datapipes.description.user_iter import KEPT
from datapipes.elements import decode, encode
from datapipes.errors import StateError, consumes_element
from datapipes.position.cells import Cell, Counted, count, fields, skip, table, without_errors
from datapipes.position.kept import Kept, KeptValues, at_opening, changes, kept_by, packed, unpacked
from datapipes.position.seeds import ErrorCounts, Run


class Replayed(Cell):
    """Position of a plain class, for replay: the number of elements given, and the counts at which it raised."""

    def __init__(self) -> None:
        self._behind = 0
        self._faults: list[int] = []
        self._counted: Counted[Any] | None = None
        self._inner: Iterator[Any] = iter(())
        self._is_behind = False  # whether the iterator is new, and has still to give what was given before
        self._is_new = False
        self._errors: ErrorCounts | None = None  # tolerated above the class
        self._loaded_errors: Counter[str] = Counter()
        self._is_over = False  # whether it has given all
        self._raised = False  # whether it has raised, and outlived that
        self._began: dict[int, KeptValues] | None = None  # what the class, and those above it, had when the epoch began
        self._homes: dict[int, Kept] = {}  # where what they have kept belongs afterwards
        self._stages: list[
            tuple[structure.Pipe, dict[str, Any]]
        ] = []  # the copies at work, and what they held at first
        self._found: list[tuple[structure.Pipe, dict[str, Any]]] = []  # those of this start
        self._packed: dict[int, bytes] | None = None

    @property
    def raised(self) -> bool:
        """Whether the class has raised what ended the last step."""
        return self.failed or self._raised

    def begin(self, stages: list[structure.Pipe]) -> None:
        """Have the copies of a class, and of those above it, begin with what they had when the epoch began."""
        keeping = {structure.place_of(stage): stage for stage in stages if KEPT in vars(stage)}
        if not self._homes:
            self._homes = {place: vars(stage)[KEPT] for place, stage in keeping.items()}
            at_first = {place: at_opening(stage) for place, stage in keeping.items()}
            if self._began is None:
                self._began = {place: values for place, values in at_first.items() if values}
            for place, values in self._began.items():
                if place in self._homes:
                    self._homes[place].values = values
        began = self._began or {}
        for place, stage in keeping.items():
            stage.__dict__[KEPT] = Kept(dict(began.get(place, {})))
        self._found = []

    def found(self, stage: structure.Pipe, before: dict[str, Any]) -> None:
        """Note what a copy held before its class did anything."""
        if KEPT in vars(stage):
            self._found.append((stage, before))

    @property
    def failed(self) -> bool:
        """Whether the class is a generator that an exception has ended, so that it has to be run again."""
        generator = _generator_of(self._inner)
        return generator is not None and generator.gi_frame is None and not self._is_over

    def counting_errors(self, run: Run) -> Run:
        """Return the run for the stages above the class, whose errors a replay meets, and counts, again."""
        if self._errors is None:
            self._errors = ErrorCounts(run.errors)
            self._errors.add(self._loaded_errors)
        return replace(run, errors=self._errors)

    def start(self, pipe: structure.Pipe) -> Iterator[Any]:
        """The elements of a pipe from this position on."""
        self._behind = self.done()
        self._raised = False
        if self._counted is None or self.failed:
            self._inner, self._stages = iter(pipe), self._found
            self._is_behind = self._behind > 0 or bool(self._faults)
            self._is_new = True
        # Otherwise an exception, below this stage or its own, was outlived by its iterator, which goes on.
        elements = chain.from_iterable(self._to_the_end())
        self._counted = Counted(elements, start=self._behind)
        return self._counted.elements

    def _to_the_end(self) -> Iterator[Iterator[Any]]:
        if self._is_new and self._errors is not None:
            self._errors.reset()
            self._is_new = False
        # The iterator is yielded: `yield from` would close it when an exception below has this generator dropped.
        if _generator_of(self._inner) is not None:
            if self._is_behind:
                self._pass_over(self._inner, self._behind)
                self._is_behind = False
            yield self._inner
        else:
            yield self._called(self._inner.__next__)
        self._is_over = True

    def _called(self, step: Callable[[], Any]) -> Iterator[Any]:
        """Iterate by ``__next__`` alone: ``__iter__`` of a class that is its own iterator may begin anew."""
        if self._is_behind:
            self._replay(step)
            self._is_behind = False
        while True:
            try:
                element = step()
            except StopIteration:
                return
            except Exception as error:
                if consumes_element(error):
                    self._faults.append(self.done())
                self._raised = True
                raise
            yield element

    def _replay(self, step: Callable[[], Any]) -> None:
        elements = starmap(step, repeat(()))
        for before, fault in pairwise([0, *self._faults]):
            self._pass_over(elements, fault - before)
            _attempt(step)
        self._pass_over(elements, self._behind - max(self._faults, default=0))

    def _pass_over(self, elements: Iterator[Any], number: int) -> None:
        there = skip(elements, number)
        if there < number:
            raise StateError(f"{self.label}: when it was replayed, it gave {number - there} elements less than before")

    def save(self) -> Any:
        if self._packed is None:
            stages = {structure.place_of(stage): stage for stage, _ in self._stages}
            began = {place: values for place, values in (self._began or {}).items() if place in stages}
            self._packed = {place: packed(stages[place], values) for place, values in began.items()}
        errors = dict(self._loaded_errors if self._errors is None else self._errors.counts)
        if not self._packed and not self._faults and not errors:
            return self.done()
        saved: dict[str, Any] = {"given": self.done(), "faults": list(self._faults)}
        saved |= {"errors": errors} if errors else {}
        return {**saved, "began": dict(self._packed)} if self._packed else saved

    def load(self, saved: Any) -> None:
        saved, self._loaded_errors = without_errors(saved)
        if isinstance(saved, dict):
            began = table(saved.get("began", {})) or {}
            self._began = {place: unpacked(values, self.label) for place, values in began.items()}
            names = [name for name in saved if name != "began"]
            saved, faults = fields({name: saved[name] for name in names}, "given", "faults")
            if type(faults) is not list:
                raise StateError(f"faults: expected a list of counts, found {type(faults).__name__}")
            self._faults = [count(fault, "faults", most=count(saved)) for fault in faults]
            if sorted(faults) != faults:
                raise StateError(f"faults: expected rising counts, found {faults!r:.80}")
        self._behind = count(saved)

    def done(self) -> int:
        return self._behind if self._counted is None else self._counted.taken

    def keep(self) -> None:
        for stage, before in self._stages:
            self._homes[structure.place_of(stage)].values = {**kept_by(stage), **changes(stage, before)}

    def close(self) -> None:
        if (generator := _generator_of(self._inner)) is not None:
            close_unless_stuck(generator)
        self.keep()
        self._stages = []


def close_unless_stuck(generator: GeneratorType[Any, Any, Any]) -> None:
    """Close a generator, unless a thread is stuck in it, which would not let go."""
    try:
        generator.close()
    except ValueError:
        if generator.gi_frame is None:  # it has ended: the error is its own, and not that of being in use
            raise


def _generator_of(iterator: Any) -> GeneratorType[Any, Any, Any] | None:
    """Return the generator that an iterator is, or that torch's base class has wrapped; None for any other iterator."""
    inner = vars(iterator).get("iterator") if type(iterator).__name__ == "IteratorDecorator" else iterator
    return inner if isinstance(inner, GeneratorType) else None


def _attempt(step: Callable[[], Any]) -> Exception | None:
    """Call again what raised before. Whether it does so again makes no difference: its element is spent."""
    try:
        step()
    except Exception as error:
        return error
    return None


class Remembered(Cell):
    """Position of a class with a ``state_dict`` of its own."""

    is_quiet = False

    def __init__(self) -> None:
        self._pipe: structure.Pipe = None
        self._loaded: Any = None

    def start(self, pipe: structure.Pipe) -> Iterator[Any]:
        """The elements of a pipe, after its ``load_state_dict``."""
        if self._pipe is not None:
            self._loaded = self._pipe.state_dict()
        if self._loaded is not None:
            pipe.load_state_dict(self._loaded)
        self._pipe = pipe
        elements: Iterator[Any] = iter(pipe)
        return elements

    def save(self) -> bytes:
        return encode(self._pipe.state_dict(), what=f"the state_dict() of {self.label}")

    def load(self, saved: Any) -> None:
        self._loaded = decode(saved, what=f"the state_dict() of {self.label}")
