"""check_pipe: faults that authors make are each caught by the law that they break, on the shortest graph."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper
from datapipes.map import MapDataPipe
from datapipes.position.cells import Cell
from datapipes.position.opening import Opening
from loader2.testing import LAWS, LawBroken, Tap, check_pipe, ending
from loader2.testing.comparing import apart, brief
from loader2.testing.specimen import shown

LEFT: list[Callable[[], Any]] = []
"""What culprits leave behind, as functions that take it away."""


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    yield
    while LEFT:
        LEFT.pop()()


class Passing(IterDataPipe[Any]):
    """A user's class that hands on what it reads."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class Summing(Passing):
    """A user's class that says what it remembers."""

    def __init__(self, source: Pipe) -> None:
        super().__init__(source)
        self.total = 0

    def __iter__(self) -> Iterator[Any]:
        for number in self.source:
            self.total += number
            yield self.total

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


class Late(Summing):
    """Its state is behind what it has handed on."""

    def __iter__(self) -> Iterator[Any]:
        for number in self.source:
            yield self.total + number
            self.total += number


class Early(Summing):
    """Its state is ahead of what it has handed on."""

    def __iter__(self) -> Iterator[Any]:
        numbers = iter(self.source)
        held = list(islice(numbers, 1))
        while held:
            self.total += held[0]
            held = list(islice(numbers, 1))
            yield self.total


class OneCursor(Passing):
    """All iterations share one iterator."""

    cursor: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        if type(self).cursor is None:
            type(self).cursor = iter(list(self.source))
        yield from type(self).cursor or ()
        type(self).cursor = None


class Noting(Passing):
    """It writes what it has seen into a list that its copies share."""

    def __init__(self, source: Pipe) -> None:
        super().__init__(source)
        self.seen: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for element in self.source:
            self.seen.append(element)
            yield element


class Locked(Passing):
    """It cannot be pickled."""

    def __init__(self, source: Pipe) -> None:
        super().__init__(source)
        self.lock = threading.Lock()


class Shrinking(Passing):
    """It loses a parameter when it is pickled."""

    def __init__(self, source: Pipe, times: int) -> None:
        super().__init__(source)
        self.times = times

    def __getstate__(self) -> Any:
        return {"source": self.source, "times": 1}

    def __iter__(self) -> Iterator[Any]:
        for element in self.source:
            yield element * self.times


class Lingering(Passing):
    """It leaves a thread running."""

    def __iter__(self) -> Iterator[Any]:
        done = threading.Event()
        LEFT.append(done.set)
        threading.Thread(target=done.wait, name="lingering").start()
        yield from self.source


class Leaking(Passing):
    """It leaves a file open."""

    def __init__(self, source: Pipe, path: str = __file__) -> None:
        super().__init__(source)
        self.path = path

    def __iter__(self) -> Iterator[Any]:
        file = open(self.path)  # noqa: SIM115  leaving it open is the fault
        LEFT.append(file.close)
        yield from self.source


class Talkative(Passing):
    """It raises when it is closed."""

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source
        except GeneratorExit:
            raise ValueError("closed") from None


class Boastful(Passing):
    """It claims an element more than it has."""

    def __len__(self) -> int:
        return len(self.source) + 1


class Modest(Passing):
    """It claims an element less than it has."""

    def __len__(self) -> int:
        return len(self.source) - 1


class Unsized(Passing):
    """It has no length, and says so by the wrong exception."""

    def __len__(self) -> int:
        raise AttributeError("length")


class Moody(Passing):
    """It draws from a generator that all share."""

    def __iter__(self) -> Iterator[Any]:
        for element in self.source:
            yield element, random.random()


class Stumbling(Passing):
    """It loses the element behind one that fails."""

    def __iter__(self) -> Iterator[Any]:
        self.elements = iter(self.source)
        return self

    def __next__(self) -> Any:
        try:
            return next(self.elements)
        except ValueError:
            next(self.elements, None)
            raise


class Deaf(Passing):
    """It ends where its source raises."""

    def __iter__(self) -> Iterator[Any]:
        elements = iter(self.source)
        while True:
            try:
                yield next(elements)
            except (StopIteration, ValueError):
                return


class Hushing(Passing):
    """It leaves out what its source raises on, and says nothing."""

    def __iter__(self) -> Iterator[Any]:
        elements = iter(self.source)
        while True:
            try:
                element = next(elements)
            except StopIteration:
                return
            except ValueError:
                continue
            yield element


class Wrapping(Passing):
    """It turns exceptions into another type."""

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source
        except ValueError as error:
            raise LookupError("somewhere") from error


class Operator(IterDataPipe[Any]):
    """An operator as in the library, with one source."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._elements(at.source(self.source))

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        yield from source


class Forgetful(Operator):
    """It keeps its position to itself."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        yield from enumerate(source)


class Unplain(Operator):
    """It saves what is no plain data."""

    def _open(self, at: Opening) -> Iterator[Any]:
        at.cell(ManyKept)
        return at.source(self.source)


class ManyKept(Cell):
    """It saves a set."""

    def save(self) -> Any:
        return {1, 2}

    def load(self, saved: Any) -> None:
        pass


class Rewritten(Operator):
    """It changes states that it has given away."""

    def _open(self, at: Opening) -> Iterator[Any]:
        return map(at.cell(Diary).note, at.source(self.source))


class Diary(Cell):
    """It gives away the list that it goes on writing."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def note(self, element: Any) -> Any:
        self.entries.append(repr(element))
        return element

    def save(self) -> Any:
        return self.entries

    def load(self, saved: Any) -> None:
        self.entries = saved


class Greedy(Operator):
    """It reads two elements before it hands on the first."""

    def _elements(self, source: Iterator[Any]) -> Iterator[Any]:
        while pair := list(islice(source, 2)):
            yield from pair


def drawn(element: Any) -> Any:
    """Draw from the program's own generator, as there are no worker processes."""
    return element, random.random()


@pytest.mark.parametrize(
    ("law", "culprit", "where", "length"),
    [
        ("same seed", Moody, "three epochs with the same seed", 1),
        ("same seed", lambda source: Mapper(source, drawn), "three epochs with the same seed", 1),
        ("independence", OneCursor, "of two openings", 1),
        ("innocence", Noting, "iterating half-way changed the graph", 1),
        ("pickling", Locked, "TypeError: cannot pickle '_thread.lock' object", 0),
        ("pickling", lambda source: Shrinking(source, 3), "pickled: the print", 0),
        ("honest len", Boastful, "len() is 1, and there are 0 elements", 0),
        ("honest len", Modest, "len() is 0, and there are 1 elements", 1),
        ("honest len", Unsized, "AttributeError: length", 0),
        ("resume", Late, "epoch 0, after 2 elements: epoch 0 after loading", 3),
        ("resume", Early, "epoch 0, after 1 elements: epoch 0 after loading", 2),
        ("resume", Forgetful, "epoch 0, after 1 elements: epoch 0 after loading", 2),
        ("resume", Greedy, "epoch 0, after 1 elements: epoch 0 after loading", 2),
        ("resume", Unplain, "not plain data: set", 0),
        ("resume", Rewritten, "epoch 0, after 0 elements: the state changed after it was taken, at ['cells']", 1),
        ("quiet close", Lingering, "after 0 elements: threads that run: lingering", 0),
        ("quiet close", Leaking, f"after 0 elements: open files: {__file__}", 0),
        ("quiet close", Talkative, "ValueError: closed", 1),
        ("errors", Stumbling, "the source raises on 0: the elements delivered", 2),
        ("errors", Deaf, "the source raises on 0: no exception", 1),
        ("errors", Hushing, "the source raises on 0: no exception", 1),
        ("errors", Wrapping, "LookupError: somewhere", 1),
    ],
)
def test_a_fault_is_caught_by_its_law(
    law: str, culprit: Callable[[Pipe], Pipe], where: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "GRACE", 0.0)
    with pytest.raises(LawBroken) as caught:
        check_pipe(lambda: culprit(IterableWrapper(range(5))))
    told = caught.value
    assert (told.law, where in told.where and told.where) == (law, told.where), told
    assert f"range(0, {length})" in told.graph
    assert f"breaks the law {law!r}: {LAWS[law].says}" in str(told)
    assert str(told).endswith(f"what to do: {LAWS[law].remedy}")


class Remembering(Passing):
    """Its attribute remembers what a pure function gave."""

    def __init__(self, source: Pipe, fn: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self.fn, self.known = fn, dict[Any, Any]()

    def __iter__(self) -> Iterator[Any]:
        for element in self.source:
            if element not in self.known:
                self.known[element] = self.fn(element)
            yield self.known[element]


class Countdown(IterDataPipe[int]):
    """A source of its own."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        yield from range(self.start, 0, -1)


class Squares(MapDataPipe[int]):
    """A collection of a user's."""

    def __getitem__(self, key: int) -> int:
        if not 0 <= key < 5:
            raise IndexError(key)
        return key * key

    def __len__(self) -> int:
        return 5


class Plain:
    """An element that prints its address."""

    def __init__(self, number: int) -> None:
        self.number = number


def negated(number: int) -> int:
    return -number


@pytest.mark.parametrize(
    "make",
    [
        lambda: Passing(IterableWrapper(range(5))),
        lambda: Summing(IterableWrapper(range(5)).shuffle()).batch(2),
        lambda: Passing(IterableWrapper([])),
        lambda: Passing(IterableWrapper(range(5)).map(lambda number: -number)),  # which cloudpickle pickles
        lambda: Countdown(4),
        lambda: Squares(),
        lambda: Squares().shuffle(),
        lambda tap: Passing(tap(IterableWrapper(range(4)))).map(tap.function(negated)),
    ],
)
def test_what_keeps_every_law_passes(make: Callable[..., Pipe]) -> None:
    check_pipe(make)


def test_an_order_that_is_declared_is_demanded() -> None:
    check_pipe(lambda: IterableWrapper(range(9)).shuffle(), laws=["same seed"], order="by seed")
    with pytest.raises(LawBroken, match="where: epochs are alike"):
        check_pipe(lambda: IterableWrapper(range(9)), laws=["same seed"], order="by seed")
    with pytest.raises(LawBroken, match="nothing is random"):
        check_pipe(lambda: IterableWrapper(range(9)).shuffle(), laws=["same seed"], order="")


def test_an_attribute_may_be_declared_to_remember() -> None:
    def make() -> Pipe:
        return Remembering(IterableWrapper(range(4)), negated)

    check_pipe(make, memo={"known"})
    with pytest.raises(LawBroken, match="breaks the law 'innocence'"):
        check_pipe(make)


def test_going_on_after_an_exception_may_be_demanded() -> None:
    check_pipe(lambda: Summing(IterableWrapper(range(4))), laws=["errors"], after_fault="goes on")
    with pytest.raises(LawBroken, match="it raises endlessly"):
        check_pipe(lambda: Passing(IterableWrapper(range(4))), laws=["errors"], after_fault="goes on")


def test_functions_are_made_to_raise_where_they_are_told_of() -> None:
    def make(tap: Tap) -> Pipe:
        return Hushing(tap(IterableWrapper(range(4))).map(tap.function(negated)))

    with pytest.raises(LawBroken, match=r"where: the (source|function) raises on 0: no exception"):
        check_pipe(make, laws=["errors"])


def test_what_raises_by_itself_raises_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        check_pipe(lambda: Passing(IterableWrapper(range(3)).map(lambda number: 1 // number)))


def test_long_values_are_told_by_where_they_differ() -> None:
    came, expected = [["x" * 300, *range(9), {"a": 1, "b": 2}]], [["x" * 300, *range(9), {"a": 1, "b": 3}]]
    assert apart(came, expected) == (", at [0][10]", {"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert apart([1], [2, 3]) == ("", [1], [2, 3])
    assert brief(["y" * 300]).endswith("...")


def test_elements_are_told_apart_by_what_they_hold() -> None:
    assert shown(Plain(1)) == shown(Plain(1)) == "Plain(dict('number': 1))"
    assert shown([Plain(1)]) != shown([Plain(2)])
    assert shown((1,)) != shown([1])


@pytest.mark.parametrize("given", [Passing, Passing(IterableWrapper([]))])
def test_what_builds_no_graph_is_refused(given: Any) -> None:
    with pytest.raises(BadArgumentType, match=r"check_pipe\(lambda: Passing\(IterableWrapper"):
        check_pipe(given)


def test_a_function_that_returns_no_graph_is_named() -> None:
    with pytest.raises(BadArgumentType, match=r"lambda at test_pipes.py:\d+ returned list: .* must return the graph"):
        check_pipe(lambda: [1, 2])


def test_a_law_that_is_not_there_is_named() -> None:
    with pytest.raises(BadArgument, match="there is no law 'same elements' here; the laws are 'same seed', "):
        check_pipe(lambda: IterableWrapper([]), laws=["same elements"])
