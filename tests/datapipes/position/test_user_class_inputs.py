"""A class with a state takes again what it had taken and not handed on: nothing is lost, and no pair is shifted."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import GraphError, StateError, UnsavableElement
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.on_error import LeftOut
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, ThreadingReadingService

Outcomes = tuple[list[Any], int]


def same(*elements: Any) -> Any:
    return elements if len(elements) > 1 else elements[0]


class Pairs(IterDataPipe[Any]):
    """Pairs of two inputs, and how many there were."""

    def __init__(self, left: Pipe, right: Pipe, fn: Callable[..., Any] = same) -> None:
        self.left, self.right, self.fn, self.given = left, right, fn, 0

    def __iter__(self) -> Iterator[Any]:
        right = iter(self.right)
        for element in self.left:
            element = self.fn(element)
            for other in right:
                self.given += 1
                yield self.given, self.fn(element, other)
                break

    def state_dict(self) -> dict[str, int]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.given = state["given"]


class Sums(IterDataPipe[Any]):
    """A class with one input, which changes its state before it calls a function."""

    def __init__(self, source: Pipe, fn: Callable[[Any], Any]) -> None:
        self.source, self.fn, self.total = source, fn, 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source:
            self.total += element
            yield self.fn(self.total)

    def state_dict(self) -> dict[str, int]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.total = state["total"]


def numbers(length: int = 6) -> Pipe:
    return IterableWrapper(range(length))


def bad(at: int, error: type[BaseException] = ValueError, times: int = 10**9) -> Callable[..., Any]:
    """A function that raises at one number, as often as it says."""
    left = [times]

    def fn(*elements: Any) -> Any:
        if elements[-1] == at and left[0]:
            left[0] -= 1
            raise error("no word")
        return same(*elements)

    return fn


def outcomes(iterator: Iterator[Any], most: int = 4) -> Outcomes:
    """The elements, and how many errors there were, of which some are let pass."""
    found: list[Any] = []
    errors = 0
    while errors < most:
        try:
            found.extend(iterator)
        except (ValueError, GraphError, LeftOut):
            errors += 1
        else:
            break
    return found, errors


def pairs(*them: int) -> list[Any]:
    return [(i + 1, (number, number)) for i, number in enumerate(them)]


def resumed(loader: DataLoader2[Any], graph: Pipe) -> Iterator[Any]:
    again: DataLoader2[Any] = DataLoader2(graph)
    again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    return iter(again)


GRAPHS: dict[str, Callable[..., Pipe]] = {
    "left": lambda fn: Pairs(numbers().map(fn), numbers()),
    "right": lambda fn: Pairs(numbers(), numbers().map(fn)),
    "prefetched": lambda fn: Pairs(numbers(), numbers().map(fn).prefetch(2)).prefetch(2),
    "children": lambda fn: Pairs(*numbers().map(fn).fork(2)),
    "one of its children": lambda fn: Pairs(*(child.map(fn) for child in numbers().fork(2))),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_an_error_of_an_input_comes_again_and_shifts_nothing(graph: Callable[..., Pipe]) -> None:
    loader: DataLoader2[Any] = DataLoader2(graph(bad(2)))
    iterator = iter(loader)
    assert outcomes(iterator, most=1) == (pairs(0, 1), 1)
    assert outcomes(resumed(loader, graph(bad(2)))) == ([], 4)
    assert outcomes(iterator) == ([], 4)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_an_interruption_in_an_input_costs_nothing(graph: Callable[..., Pipe]) -> None:
    loader: DataLoader2[Any] = DataLoader2(graph(bad(2, KeyboardInterrupt, 1)))
    iterator = iter(loader)
    found: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(iterator)
    again = resumed(loader, graph(same))
    assert [*found, *again] == [*found, *iterator] == pairs(*range(6))


@pytest.mark.parametrize("half", [False, True])
def test_what_is_taken_again_is_part_of_a_state_until_it_is_taken(half: bool) -> None:
    def graph(left: Callable[..., Any]) -> Pipe:
        return Pairs(numbers(), IterableWrapper([10, 11, 2, 13]).map(left)).map(str)

    loader: DataLoader2[Any] = DataLoader2(graph(bad(2, KeyboardInterrupt, 1)))
    iterator = iter(loader)
    assert len(list(islice(iterator, 2))) == 2
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    rest = ["(3, (2, 2))", "(4, (3, 13))"]
    if half:
        assert next(iterator) == rest.pop(0)
    assert list(resumed(loader, graph(same))) == list(iterator) == rest


def test_an_error_of_the_class_at_a_whole_pair_has_consumed_it() -> None:
    def fn(*elements: Any) -> Any:
        return bad(2)(*elements) if len(elements) > 1 else elements[0]

    expected = [(1, (0, 0)), (2, (1, 1)), (4, (3, 3)), (5, (4, 4)), (6, (5, 5))]
    assert outcomes(iter(Pairs(numbers(), numbers(), fn))) == (expected, 1)


def test_an_error_of_the_class_between_two_inputs_comes_again() -> None:
    def fn(*elements: Any) -> Any:
        return bad(2)(*elements) if len(elements) == 1 else elements

    assert outcomes(iter(Pairs(numbers(), numbers(), fn))) == (pairs(0, 1), 4)


@pytest.mark.parametrize("graph", [lambda fn: Sums(numbers(), fn), lambda fn: Sums(numbers().prefetch(2), fn)])
def test_what_a_class_of_one_input_assigned_goes_back_with_an_interruption(graph: Callable[..., Pipe]) -> None:
    loader: DataLoader2[Any] = DataLoader2(graph(bad(3, KeyboardInterrupt, 1)))
    iterator = iter(loader)
    assert list(islice(iterator, 2)) == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert list(resumed(loader, graph(same))) == list(iterator) == [3, 6, 10, 15]


def test_an_error_in_a_class_of_one_input_has_consumed_its_element() -> None:
    assert outcomes(iter(Sums(numbers(), bad(3)))) == ([0, 1, 6, 10, 15], 1)
    assert outcomes(iter(Sums(numbers().map(bad(2)), same))) == ([0, 1, 4, 8, 13], 1)


def test_a_call_that_is_left_out_is_raised_and_not_met_without_end() -> None:
    assert outcomes(iter(GRAPHS["right"](bad(2, LeftOut)))) == (pairs(0, 1), 4)


@pytest.mark.parametrize("service", [MultiProcessingReadingService, ThreadingReadingService])
def test_workers_shift_nothing_either(service: Any) -> None:
    graph = GRAPHS["right"](bad(2)).sharding_filter()
    with DataLoader2(graph, reading_service=service(num_workers=2)) as loader:
        found, errors = outcomes(iter(loader))
    assert errors == 4
    assert set(found) <= set(pairs(0, 1))


def test_a_stream_that_cannot_be_read_again_is_refused() -> None:
    class Pipe_(io.BytesIO):
        def seek(self, *_: Any) -> int:
            raise io.UnsupportedOperation("seek")

    opened = IterableWrapper([StreamWrapper(Pipe_(b"x"))], deepcopy=False)
    loader: DataLoader2[Any] = DataLoader2(Pairs(opened, numbers().map(bad(0))))
    iterator = iter(loader)
    with pytest.raises(ValueError, match="no word"):
        next(iterator)
    for _ in range(2):
        with pytest.raises(StateError, match="cannot be read again from its start"):
            next(iterator)
    with pytest.raises(UnsavableElement, match="cannot be read again from its start"):
        loader.state_dict()


def test_elements_at_hand_are_not_kept_longer_than_their_pair() -> None:
    graph = Pairs(numbers(1000), numbers(1000))
    iterator: Any = iter(graph)
    for _ in islice(iterator, 500):
        (cell,) = (cell for cell in iterator.session.cells.values() if hasattr(cell, "reading"))
        assert not any(each.at_hand for each in cell._inputs)


@pytest.mark.parametrize("taken", [None, [], [None], [None, None, None], [3, None], [b"no pickle", None], {}])
def test_a_state_that_is_no_position_is_refused(taken: Any) -> None:
    loader: DataLoader2[Any] = DataLoader2(Pairs(numbers(), numbers()))
    next(iter(loader))
    state = loader.state_dict()
    place = next(place for place, cell in state["cells"].items() if type(cell) is bytes)
    state["cells"][place] = {"state": state["cells"][place], "taken": taken}
    again: DataLoader2[Any] = DataLoader2(Pairs(numbers(), numbers()))
    with pytest.raises(StateError, match="Pairs"):
        again.load_state_dict(sealed(state))
