"""Position of a user's class: a replay by count, or its own ``state_dict``.

A class that has ``state_dict`` and ``load_state_dict`` is asked, and what it says is complete at each ``yield``. Any
other class is replayed: its position is the number of elements it has given, and, if it is an iterator that outlives
its exceptions, when it raised them, so that an element which failed is passed over again and not given after all.

A class with ``state_dict`` is not run again for what it had taken when it was interrupted: it takes these elements once
more. With one input it is complete whenever it asks for an element, so this is the last one at most. With several it
may have taken an element of one input and not yet its partner of another, so it goes back to what it has handed on
last, after an error of an input as well: the error waits in place of the element, and the class meets both again.
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
from datapipes.position.blame import told_of
from datapipes.position.cells import AT_START, Cell, Counted, count, fields, skip, without_errors
from datapipes.position.own_generators import States, packed, unpacked
from datapipes.position.plain_values import plain_values, warn_of_changes
from datapipes.position.seeds import ErrorCounts, Run
from datapipes.position.trail import Lost, loaded_waiting, saved_waiting


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
        self.began: dict[int, States] = {}  # the states that generators began a plain iteration with, by place
        self.shares = False  # whether another class draws from the same generators, so that no replay is exact
        self._packed: bytes | None = None
        self._watched: list[tuple[structure.Pipe, dict[str, Any]]] = []  # the copies at work, with their plain values

    @property
    def runs_anew(self) -> bool:
        """Return whether the class is run from its start at the next ``start``."""
        return self._counted is None or self.failed

    @property
    def raised(self) -> bool:
        """Whether the class has raised what ended the last step."""
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
        """Return the run for the stages above the class, whose errors a replay meets, and counts, again."""
        if self._errors is None:
            self._errors = ErrorCounts(run.errors)
            self._errors.add(self._loaded_errors)
        return replace(run, errors=self._errors)

    def start(self, pipe: structure.Pipe) -> Iterator[Any]:
        """The elements of a pipe from this position on."""
        self._behind = self.done()
        self._raised = False
        if self.runs_anew:
            self._watched = [(stage, plain_values(stage)) for stage in structure.walk(pipe)]
            self._inner = iter(pipe)
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
        for stage, values in self._watched:
            warn_of_changes(stage, values)

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
        errors = dict(self._loaded_errors if self._errors is None else self._errors.counts)
        return self._saved(self.done(), self._faults, errors)

    def at_start(self) -> Any:
        return self._saved(0, [], {}) or AT_START

    def _saved(self, given: int, faults: list[int], errors: dict[str, int]) -> Any:
        if self.shares:
            raise UnsavableElement(
                f"{self.label} and another stage draw from one generator, so that neither can be run again by itself: "
                "iterate in a DataLoader2, in which each has its own"
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
        self._behind = count(saved)

    def done(self) -> int:
        return self._behind if self._counted is None else self._counted.taken

    def close(self) -> None:
        if (generator := _generator_of(self._inner)) is not None:
            close_unless_stuck(generator)


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
    """Position of a class with a ``state_dict`` of its own, and what it takes again from its inputs."""

    is_quiet = False

    def __init__(self) -> None:
        self._pipe: structure.Pipe = None
        self._loaded: Any = None
        self._inputs: list[_Input] = []
        self._held: deque[dict[str, Any]] = deque(maxlen=1)  # the attributes to which an interrupted class goes back

    @property
    def raises_again(self) -> bool:
        return any(type(element) is Lost for each in self._inputs for element in each.again())

    def reading(self, pipe: structure.Pipe, sources: list[Iterator[Any]]) -> list[Iterator[Any]]:
        """The elements of the inputs of a class, first those that it takes again."""
        self._inputs = self._inputs or [_Input() for _ in sources]
        if len(self._inputs) != len(sources):
            raise StateError(f"saved with {len(self._inputs)} inputs, and there are {len(sources)}")
        hold = self._held_in(pipe).__next__ if len(sources) == 1 else None
        return [each.elements(source, hold) for each, source in zip(self._inputs, sources, strict=True)]

    def _held_in(self, pipe: structure.Pipe) -> Iterator[None]:
        """Note the attributes of a class at each step; no signal comes within one."""
        attributes: dict[str, Any] = pipe.__dict__
        return map(self._held.append, map(dict.copy, repeat(attributes)))

    def start(self, pipe: structure.Pipe) -> Iterator[Any]:
        """The elements of a pipe, after its ``load_state_dict``."""
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
        # `__iter__` of a class that is its own iterator may begin anew.
        elements = inner if _generator_of(inner) is not None else map(next, repeat(inner))
        forgetting: list[Iterator[None]] = [iter(each.at_hand.clear, 0) for each in self._inputs]
        if len(self._inputs) != 1:
            forgetting.append(hold)
        # No signal comes between an element and the step of the second iterator, whose tuples are true.
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
        """Put back what the class has taken and not handed on, unless the error has consumed it.

        The class has several inputs, and an error of its own, at elements of which it has taken as many from each: then
        they are consumed, and no input is ahead of another.
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
    """What a class has taken from one input since it handed on an element, and what it takes again."""

    def __init__(self, cell: Cell | None = None, saved: Any = None) -> None:
        self.at_hand: list[Any] = []
        kinds = [] if cell is None else loaded_waiting(cell, saved, "element")
        self._again = [Lost(each) if kind == "lost" else each for kind, each in kinds]
        self._counted: Counted[Any] | None = None

    def again(self) -> list[Any]:
        """The elements that are still to be taken again."""
        return self._again if self._counted is None else self._again[self._counted.taken :]

    def put_back(self, label: str) -> None:
        """Have what is at hand be taken again."""
        kept = []
        for element in self.at_hand:
            if rewound(element):
                kept.append(element)
            else:
                what = f"a stream in {element!r:.200} was being read when the iteration was interrupted"
                kept.append(Lost(StateError(f"{label}: {what}, and cannot be read again from its start")))
        self._again, self._counted = [*kept, *self.again()], None
        self.at_hand.clear()

    def elements(self, source: Iterator[Any], hold: Callable[[], None] | None) -> Iterator[Any]:
        """The elements to take again, and then those of the source.

        With ``hold``, which is called before each, only the last one is kept, until the next one is asked for.
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
                raise told_of(each.error)
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
                keep(Lost(told_of(error)))
            raise

    def save(self, cell: Cell) -> bytes | None:
        """The elements to take again as data, and the texts of errors."""
        again = self.again()
        for each in again:
            if type(each) is Lost and isinstance(each.error, StateError):
                raise UnsavableElement(str(each.error))
        return saved_waiting(cell, (each.error if type(each) is Lost else ["element", each] for each in again))
