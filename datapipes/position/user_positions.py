"""The position of a user's class: a replay by count, or its own ``state_dict``.

A class with ``state_dict`` and ``load_state_dict`` has to be complete at each ``yield``. Any other class is replayed:
its position is the number of elements it has given. If it is an iterator that survives its exceptions, the counts at
which it raised are part of the position. A replay then skips the failed elements again.

A class with ``state_dict`` is not replayed after an interruption: it takes the elements again that it had taken. With
one input this is at most the last element, because the class is complete whenever it asks for another. With several
inputs it may have taken an element of one and not yet its partner of another. Then it goes back to the last element it
has handed on, also after an error of an input. The error waits in place of the element, and the class meets both again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, compress, pairwise, repeat, starmap
from types import GeneratorType
from typing import Any

from datapipes.description import structure
from datapipes.elements import decode, encode
from datapipes.elements.streams import rewound
from datapipes.errors import StateError, UnsavableElement, consumes_element
from datapipes.position.cells import AT_START, Cell, CountCell, Counted, count, fields, skip, without_errors
from datapipes.position.error_notes import with_text_traceback
from datapipes.position.own_generators import States, packed, unpacked
from datapipes.position.plain_values import plain_values, warn_of_changes
from datapipes.position.position_history import Lost, loaded_waiting, saved_waiting
from datapipes.position.seeds import ErrorCounts, Run


class ReplayCell(CountCell):
    """Position of a plain class, for a replay: the number of elements given, and the counts at which it raised."""

    def __init__(self) -> None:
        super().__init__()
        self._behind = 0  # elements that were given before the last ``start``
        self._faults: list[int] = []
        self._inner: Iterator[Any] = iter(())
        self._is_behind = False  # whether the iterator is new and has to skip the elements that were given before
        self._is_new = False
        self._errors: ErrorCounts | None = None  # tolerated by the stages above the class
        self._loaded_errors: Counter[str] = Counter()
        self._is_over = False  # whether it has given all elements
        self._raised = False  # whether it has survived an exception of its own
        self.began: dict[int, States] = {}  # the states that generators began a plain iteration with, by place
        self.shares = False  # whether another class draws from the same generators, so that no replay is exact
        self._packed: bytes | None = None
        self._watched: list[tuple[structure.Pipe, dict[str, Any]]] = []  # the running copies with their plain values

    @property
    def is_replayed(self) -> bool:
        return True

    @property
    def runs_anew(self) -> bool:
        """Whether the next ``start`` runs the class from its beginning."""
        return not self._watched or self.failed

    @property
    def raised(self) -> bool:
        """Whether the class itself has raised the exception that ended the last step."""
        return self.failed or self._raised

    @property
    def failed(self) -> bool:
        """Whether the class is a generator that an exception has ended, so that it has to be run again."""
        generator = _generator_of(self._inner)
        return generator is not None and generator.gi_frame is None and not self._is_over

    @property
    def raises_again(self) -> bool:
        return self.failed

    def counting_errors(self, run: Run) -> Run:
        """Return the run for the stages above the class. A replay meets and counts their errors again.

        The stages share no source with other lanes: the class opens them late, and again for a replay.
        """
        if self._errors is None:
            self._errors = ErrorCounts(run.errors)
            self._errors.add(self._loaded_errors)
        return replace(run, errors=self._errors, shared=None)

    def start(self, pipe: structure.Pipe) -> Iterator[Any]:
        """Return an iterator over the elements of a pipe from this position on."""
        self._behind = self.given()
        self._raised = False
        if self.runs_anew:
            watched = [(stage, plain_values(stage)) for stage in structure.walk(pipe)]
            self._inner = iter(pipe)
            self._watched = watched  # not before: after an error of ``iter``, the next start runs the class anew
            self._is_behind = self._behind > 0 or bool(self._faults)
            self._is_new = True
        # Otherwise the iterator has survived the exception, of its own or of a stage below, and continues.
        return self.counting(chain.from_iterable(self._to_the_end()))

    def _to_the_end(self) -> Iterator[Iterator[Any]]:
        if self._is_new and self._errors is not None:
            self._errors.reset()
            self._is_new = False
        # The iterator is yielded: `yield from` would close it when an exception below drops this generator.
        if _generator_of(self._inner) is not None:
            if self._is_behind:
                self._pass_over(self._inner, self._behind)
                self._is_behind = False
            yield self._inner
        else:
            yield self._called(self._inner.__next__)
        self._is_over = True
        for stage, values in self._watched:
            warn_of_changes(stage, values)

    def _called(self, step: Callable[[], Any]) -> Iterator[Any]:
        """Iterate by ``__next__`` alone: ``__iter__`` of a class that is its own iterator may start anew."""
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
                    self._faults.append(self.given())
                self._raised = True
                raise
            yield element

    def _replay(self, step: Callable[[], Any]) -> None:
        elements = starmap(step, repeat(()))
        for before, fault in pairwise([0, *self._faults]):
            self._pass_over(elements, fault - before)
            try:
                step()
            except Exception as error:  # it raised before, and the element is spent in any case
                if not consumes_element(error):
                    raise
        self._pass_over(elements, self._behind - max(self._faults, default=0))

    def _pass_over(self, elements: Iterator[Any], number: int) -> None:
        there = skip(elements, number)
        if there < number:
            raise StateError(f"{self.label}: when it was replayed, it gave {number - there} elements fewer than before")

    def save(self) -> Any:
        errors = dict(self._loaded_errors if self._errors is None else self._errors.counts)
        return self._saved(self.given(), self._faults, errors)

    def at_start(self) -> Any:
        return self._saved(0, [], {}) or AT_START

    def _saved(self, given: int, faults: list[int], errors: dict[str, int]) -> Any:
        if self.shares:
            raise UnsavableElement(
                f"{self.label} and another stage draw from one generator, so neither can be run again by itself: "
                "iterate in a DataLoader2, which gives each its own"
            )
        if self._packed is None and self.began:
            self._packed = packed(self.began, self.label)
        if not self._packed and not faults and not errors:
            return given
        saved = {"given": given, "faults": list(faults)} | ({"errors": errors} if errors else {})
        return {**saved, "generators": self._packed} if self._packed else saved

    def load(self, saved: Any) -> None:
        saved, self._loaded_errors = without_errors(saved)
        if isinstance(saved, dict):
            if "generators" in saved:
                self.began = unpacked(saved["generators"], self.label)
            names = [name for name in saved if name not in ("generators", "began")]  # the last is of 0.1.0
            saved, faults = fields({name: saved[name] for name in names}, "given", "faults")
            if type(faults) is not list:
                raise StateError(f"faults: expected a list of counts, found {type(faults).__name__}")
            self._faults = [count(fault, "faults", most=count(saved)) for fault in faults]
            if sorted(faults) != faults:
                raise StateError(f"faults: expected rising counts, found {faults!r:.80}")
        super().load(saved)

    def close(self) -> None:
        if (generator := _generator_of(self._inner)) is not None:
            close_unless_stuck(generator)


def close_unless_stuck(generator: GeneratorType[Any, Any, Any]) -> None:
    """Close a generator, unless a thread is stuck in it and would not leave it."""
    try:
        generator.close()
    except ValueError:
        if generator.gi_frame is None:  # the generator has ended, so the error is its own
            raise


def _generator_of(iterator: Any) -> GeneratorType[Any, Any, Any] | None:
    """Return the generator behind an iterator, which torch's base class may wrap, or None for any other iterator."""
    inner = vars(iterator).get("iterator") if type(iterator).__name__ == "IteratorDecorator" else iterator
    return inner if isinstance(inner, GeneratorType) else None


class OwnStateCell(Cell):
    """Position of a class with a ``state_dict``, and the elements that it takes again from its inputs."""

    saves_without_user_code = False

    def __init__(self) -> None:
        self._pipe: structure.Pipe = None
        self._loaded: Any = None
        self._inputs: list[_Input] = []
        self._held: deque[dict[str, Any]] = deque(maxlen=1)  # the attributes to restore after an interruption

    @property
    def raises_again(self) -> bool:
        return any(type(element) is Lost for each in self._inputs for element in each.again())

    def reading(self, pipe: structure.Pipe, sources: list[Iterator[Any]]) -> list[Iterator[Any]]:
        """Return iterators over the inputs of a class. The elements to take again come first."""
        self._inputs = self._inputs or [_Input() for _ in sources]
        if len(self._inputs) != len(sources):
            raise StateError(f"saved with {len(self._inputs)} inputs, and there are {len(sources)}")
        hold = self._held_in(pipe).__next__ if len(sources) == 1 else None
        return [each.elements(source, hold) for each, source in zip(self._inputs, sources, strict=True)]

    def _held_in(self, pipe: structure.Pipe) -> Iterator[None]:
        """Return an iterator that stores the attributes of a class at each step. No signal comes within a step."""
        attributes: dict[str, Any] = pipe.__dict__
        return map(self._held.append, map(dict.copy, repeat(attributes)))

    def start(self, pipe: structure.Pipe) -> Iterator[Any]:
        """Return an iterator over the elements of a pipe, after its ``load_state_dict``."""
        if self._pipe is not None:
            self._loaded = self._pipe.state_dict()
        if self._loaded is not None:
            pipe.load_state_dict(self._loaded)
        self._pipe = pipe
        hold = self._held_in(pipe)
        next(hold)
        try:
            inner: Iterator[Any] = iter(pipe)
        except BaseException as error:
            self._go_back(error)
            raise
        # `__iter__` of a class that is its own iterator may start anew.
        elements = inner if _generator_of(inner) is not None else map(next, repeat(inner))
        forgetting: list[Iterator[None]] = [iter(each.at_hand.clear, 0) for each in self._inputs]
        if len(self._inputs) != 1:
            forgetting.append(hold)
        # No signal comes between an element and the step of the second iterator, whose tuples are all true.
        return self._handing_on(inner, compress(elements, zip(*forgetting, strict=True)))

    def _handing_on(self, inner: Iterator[Any], elements: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from elements
        except GeneratorExit:
            raise
        except BaseException as error:
            self._go_back(error)
            raise
        finally:
            if (generator := _generator_of(inner)) is not None:
                generator.close()

    def _go_back(self, error: BaseException) -> None:
        """Put back the elements that the class has taken and not handed on, unless the error has consumed them.

        An error of a class with several inputs consumes them if the class has taken the same number from each input and
        no input has failed.
        """
        inputs = self._inputs
        taken = [len(each.at_hand) for each in inputs]
        failed = any(type(element) is Lost for each in inputs for element in each.at_hand)
        if consumes_element(error) and (len(inputs) == 1 or (len({*taken}) < 2 and not failed)):
            for each in inputs:
                each.at_hand.clear()
        elif len(inputs) != 1 or any(taken):
            attributes: dict[str, Any] = self._pipe.__dict__
            attributes.clear()
            attributes.update(self._held[0])
            for each in inputs:
                each.put_back(self.label)

    def save(self) -> Any:
        state = encode(self._pipe.state_dict(), what=f"the state_dict() of {self.label}")
        if not any(each.again() for each in self._inputs):
            return state
        return {"state": state, "taken": [each.save(self) for each in self._inputs]}

    def load(self, saved: Any) -> None:
        if isinstance(saved, dict):
            saved, inputs = fields(saved, "state", "taken")
            if type(inputs) is not list or not inputs:
                raise StateError(f"taken: expected a list of elements by input, found {inputs!r:.80}")
            self._inputs = [_Input(self, elements) for elements in inputs]
        self._loaded = decode(saved, what=f"the state_dict() of {self.label}")

    def close(self) -> None:
        self._inputs = []


class _Input:
    """The elements of one input: those taken since the class handed on an element, and those to be taken again."""

    def __init__(self, cell: Cell | None = None, saved: Any = None) -> None:
        self.at_hand: list[Any] = []
        kinds = [] if cell is None else loaded_waiting(cell, saved, "element")
        self._again = [Lost(each) if kind == "lost" else each for kind, each in kinds]
        self._counted: Counted[Any] = Counted()

    def again(self) -> list[Any]:
        """Return the elements that are still to be taken again."""
        return self._again[self._counted.taken :]

    def put_back(self, label: str) -> None:
        """Move the elements at hand to those to be taken again."""
        kept = []
        for element in self.at_hand:
            if rewound(element):
                kept.append(element)
            else:
                what = f"a stream in {element!r:.200} was being read when the iteration was interrupted"
                kept.append(Lost(StateError(f"{label}: {what}, and cannot be read again from its start")))
        self._again, self._counted = [*kept, *self.again()], Counted()
        self.at_hand.clear()

    def elements(self, source: Iterator[Any], hold: Callable[[], None] | None) -> Iterator[Any]:
        """Return an iterator over the elements to take again, and then over those of the source.

        With ``hold``, which is called before each element, only the last element is kept.
        """
        self._again = self.again()
        self._counted = Counted(self._again)
        return self._kept(self._counted.elements, source, hold)

    def _kept(self, again: Iterator[Any], source: Iterator[Any], hold: Callable[[], None] | None) -> Iterator[Any]:
        keep, forget = self.at_hand.append, self.at_hand.clear
        if hold is not None:
            hold()
        for each in again:
            keep(each)
            if type(each) is Lost:
                raise with_text_traceback(each.error)
            yield each
            if hold is not None:
                forget()
                hold()
        try:
            for each in source:
                keep(each)
                yield each
                if hold is not None:
                    forget()
                    hold()
        except Exception as error:
            if hold is None and consumes_element(error):
                keep(Lost(with_text_traceback(error)))
            raise

    def save(self, cell: Cell) -> bytes | None:
        """Return the elements to take again, and the texts of errors, as data."""
        again = self.again()
        for each in again:
            if type(each) is Lost and isinstance(each.error, StateError):
                raise UnsavableElement(str(each.error))
        return saved_waiting(cell, (each.error if type(each) is Lost else ["element", each] for each in again))
