"""A hub is one position in the whole session, also where users' plain classes read its children."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from operator import itemgetter
from random import Random
from typing import Any

import pytest

from datapipes.errors import GraphError, StateError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.datapipes.position.written_for_torchdata import (
    Generator,
    ItsOwnIterator,
    OnlyNext,
    ReturnsAnother,
    SaysWhereItIs,
    Twice,
)

PLAIN = [Generator, ReturnsAnother, ItsOwnIterator, OnlyNext]
LENGTH = 8
MOST = 3 * LENGTH
"""How many outcomes to look at of what raises without end."""

plain = pytest.mark.parametrize("plain", PLAIN)


class Both(IterDataPipe[Any]):
    """Reads two children by itself."""

    def __init__(self, first: Pipe, second: Pipe) -> None:
        self.first, self.second = first, second

    def __iter__(self) -> Iterator[Any]:
        yield from zip(self.first, self.second, strict=True)


class ByTurns(Both):
    """Reads two children by itself, one of them first."""

    def __iter__(self) -> Iterator[Any]:
        seconds = list(self.second)
        yield from zip(self.first, seconds, strict=True)


class Source:
    """A source whose elements never come again: each has a number of its own."""

    def __init__(self) -> None:
        self.calls = 0
        self.numbers = count()

    def __call__(self, element: int) -> tuple[int, int]:
        self.calls += 1
        return element, next(self.numbers)


def numbers(length: int = LENGTH) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def outcomes(iterator: Iterator[Any], most: int = MOST) -> list[Any]:
    """Elements, and the messages of errors."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except (ValueError, GraphError) as error:  # a state can only tell of an error that a child was still to meet
            found.append(str(error).rpartition("ValueError: ")[2])
    return found


def but_for(hit: int, key: Callable[[Any], int], element: Any) -> Any:
    if key(element) == hit:
        raise ValueError(f"no {hit}")
    return element


def first(element: Any) -> Any:
    return element[0] if isinstance(element, tuple) else element


READERS: dict[str, Callable[[Callable[[Pipe], Pipe], Pipe, Pipe], Pipe]] = {
    "one of two": lambda plain, a, b: plain(a).zip(b),
    "below other stages": lambda plain, a, b: (
        plain(a.enumerate().batch(2)).unbatch().map(itemgetter(1)).zip(b.prefetch(2))
    ),
    "one behind the other": lambda plain, a, b: plain(plain(a)).zip(b),
    "each by itself": lambda plain, a, b: plain(a).zip(plain(b).batch(1).unbatch()),
    "both": lambda plain, a, b: plain(Both(a, b)),
    "one first": lambda plain, a, b: ByTurns(plain(a), b),
    "above another hub": lambda plain, a, b: Both(*plain(a).fork(2)).zip(b).map(first),
    "above a class that says where it is": lambda plain, a, b: plain(SaysWhereItIs(a)).zip(SaysWhereItIs(b)),
}
readers = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@plain
@readers
def test_the_source_is_read_once(read: Any, plain: Callable[[Pipe], Pipe]) -> None:
    source = Source()
    pipe = read(plain, *numbers().map(source).fork(2))
    rows = list(pipe)
    assert source.calls == LENGTH
    assert rows == [((i, i), (i, i)) for i in range(LENGTH)]
    loader: DataLoader2[Any] = DataLoader2(pipe)
    for epoch in (1, 2):
        assert [x == y and x[0] for x, y in loader] == list(range(LENGTH))
        assert source.calls == (epoch + 1) * LENGTH


@plain
def test_a_source_that_can_be_read_once_only_loses_nothing(plain: Callable[[Pipe], Pipe]) -> None:
    a, b = IterableWrapper(iter(range(LENGTH)), deepcopy=False).fork(2)
    assert list(plain(a).zip(plain(b))) == [(i, i) for i in range(LENGTH)]
    letters, digits = IterableWrapper(iter([("a", 1), ("b", 2)]), deepcopy=False).unzip(2)
    assert list(plain(letters).zip(digits)) == [("a", 1), ("b", 2)]


@plain
def test_a_demux_that_deals_at_random_loses_and_doubles_nothing(plain: Callable[[Pipe], Pipe]) -> None:
    draws = Random(3)
    a, b = numbers(30).demux(2, lambda _: draws.randrange(2))
    pipe = plain(a).concat(b)
    assert sorted(pipe) == list(range(30))
    loader: DataLoader2[Any] = DataLoader2(pipe)
    loader.seed(1)
    taken = list(islice(loader, 4))
    again: DataLoader2[Any] = DataLoader2(pipe)
    again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert sorted(taken + list(again)) == list(range(30)), "what is run again is not what was given"


@plain
@readers
def test_an_exception_below_costs_its_element_alone(read: Any, plain: Callable[[Pipe], Pipe]) -> None:
    source = Source()
    pipe = read(plain, *numbers().map(source).fork(2)).map(partial(but_for, 3, lambda row: row[0][0]))
    rows = [((i, i), (i, i)) for i in range(LENGTH)]
    assert outcomes(iter(pipe)) == [*rows[:3], "no 3", *rows[4:]]
    assert source.calls == LENGTH


@plain
def test_an_exception_below_a_class_without_any_hub_costs_its_element_alone(plain: Callable[[Pipe], Pipe]) -> None:
    pipe = plain(numbers()).map(partial(but_for, 3, first))
    whole = [*range(3), "no 3", *range(4, LENGTH)]
    assert outcomes(iter(pipe)) == whole
    loader: DataLoader2[Any] = DataLoader2(pipe)
    iterator = iter(loader)
    assert outcomes(iterator, 2) == whole[:2]
    again: DataLoader2[Any] = DataLoader2(pipe)
    again.load_state_dict(loader.state_dict())
    assert outcomes(iter(again)) == whole[2:]


@plain
@readers
def test_an_exception_above_is_met_once_by_each_child(read: Any, plain: Callable[[Pipe], Pipe]) -> None:
    def build() -> DataLoader2[Any]:
        return DataLoader2(read(plain, *numbers().map(partial(but_for, 3, first)).fork(2)))

    whole = outcomes(iter(build()))
    if read in (READERS["one of two"], READERS["each by itself"]):
        assert whole == [*((i, i) for i in range(3)), "no 3", "no 3", *((i, i) for i in range(4, LENGTH))]
    for after in range(len(whole)):
        loader, again = build(), build()
        assert outcomes(iter(loader), after) == whole[:after]
        again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
        assert outcomes(iter(again), MOST - after) == whole[after:], after


@plain
@readers
def test_it_is_resumed_anywhere_and_at_the_cost_of_one_replay_of_each_class(
    read: Any, plain: Callable[[Pipe], Pipe]
) -> None:
    def build(source: Source) -> DataLoader2[Any]:
        return DataLoader2(read(plain, *numbers().shuffle(buffer_size=3).map(source).fork(2)))

    def keys(rows: Any) -> list[Any]:
        return [(x[0], y[0]) for x, y in rows]

    loader = build(Source())
    loader.seed(2)
    whole, following = keys(loader), keys(loader)
    for after in range(LENGTH + 1):
        loader = build(Source())
        loader.seed(2)
        assert keys(islice(loader, after)) == whole[:after]
        source = Source()
        again = build(source)
        again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
        assert keys(again) == whole[after:]
        assert source.calls <= 4 * LENGTH
        assert keys(again) == following


def test_a_class_may_read_a_child_twice_and_twice_at_once() -> None:
    class WithItself(Generator):
        def __iter__(self) -> Iterator[Any]:
            yield from zip(self.source_datapipe, self.source_datapipe, strict=True)

    a, b = numbers(4).fork(2)
    assert list(Twice(a).zip(b)) == [((i, 4), i) for i in range(4)]
    assert list(WithItself(a).zip(b)) == [((i, i), i) for i in range(4)]


@pytest.mark.parametrize("build", [lambda a, b: Generator(a).zip(b), lambda a, b: Generator(a), Both])
def test_a_generator_that_would_have_to_be_run_again_over_what_comes_once_says_so(build: Callable[..., Pipe]) -> None:
    source = IterableWrapper(iter(range(LENGTH)), deepcopy=False).map(partial(but_for, 3, first))
    iterator = iter(build(*source.fork(2)))
    assert outcomes(iterator, 4)[3] == "no 3"
    with pytest.raises(StateError, match=r"has to be run again.*IterableWrapper.*only once"):
        next(iterator)


def test_a_generator_that_has_ended_is_not_run_again() -> None:
    source = Source()
    a, b = numbers(4).map(source).fork(2)
    pipe = Generator(a.header(2)).mux_longest(b.map(partial(but_for, 3, first)))
    assert [first(row) for row in outcomes(iter(pipe))] == [0, 0, 1, 1, 2, "no 3"]
    assert source.calls == 4


HOSTILE: list[Any] = [
    None,
    {"waiting": None, "inside": {}},
    {"waiting": None, "inside": 3, "told": []},
    {"waiting": None, "inside": {}, "told": 3},
    {"waiting": None, "inside": {}, "told": [[2]]},
    {"waiting": None, "inside": {}, "told": [[2, 1, 3, 0]]},
    {"waiting": None, "inside": {}, "told": [[2, 1, [2], 1]]},
    {"waiting": 3, "inside": {}, "told": []},
]


@pytest.mark.parametrize("cell", HOSTILE, ids=repr)
def test_a_state_that_is_no_position_is_refused(cell: Any) -> None:
    def build() -> DataLoader2[Any]:
        a, b = numbers().fork(2)
        return DataLoader2(Generator(a).zip(b))

    loader = build()
    next(iter(loader))
    state = loader.state_dict()
    (place,) = (place for place, saved in state["cells"].items() if isinstance(saved, dict))
    with pytest.raises(StateError, match=r"expected|past the end|no positions"):
        build().load_state_dict(sealed({**state, "cells": {**state["cells"], place: cell}}))
