"""Generators on ``self`` of users' classes: seeded by a loader, and as they are in a plain iteration."""

from __future__ import annotations

import copy
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from random import Random, SystemRandom
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from datapipes.errors import StateError, UnsavableElement
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe, Zipper
from datapipes.position.iterator import iterate
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import InProcessReadingService
from tests.datapipes.position.written_for_torchdata import Generator
from tests.reading_services.workers.in_turn import Service, numbers, processes, threads

MILLION = 10**6


class Named(Random):
    """A generator whose constructor needs an argument."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __reduce__(self) -> Any:
        return Named, (self.name,), self.getstate()


class Held(Generator):
    """Holds anything, and gives what a function draws from it beside each element."""

    def __init__(self, source_datapipe: Pipe, held: Any, draw: Callable[[Any], Any]) -> None:
        super().__init__(source_datapipe)
        self.held, self.drawing = held, draw

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, self.drawing(self.held)


class Helper:
    """A helper object with a generator, and one with slots."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)


class Slotted:
    __slots__ = ("rng",)

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)


class Pair(NamedTuple):
    name: str
    rng: Random


def drawn(rng: Random) -> int:
    return rng.randrange(MILLION)


def of_torch(rng: torch.Generator) -> int:
    return int(torch.randint(MILLION, (), generator=rng))


def of_numpy(rng: np.random.Generator) -> int:
    return int(rng.integers(MILLION))


def of_old_numpy(rng: np.random.RandomState) -> int:
    return int(rng.randint(MILLION))


def first_of(pick: Callable[[Any], Random], held: Any) -> int:
    return drawn(pick(held))


def rng_of(held: Any) -> Random:
    rng: Random = held.rng
    return rng


KINDS: dict[str, Callable[[int], tuple[Any, Callable[[Any], Any]]]] = {
    "random": lambda seed: (Random(seed), drawn),
    "a subclass of random's": lambda seed: (Named(str(seed)), drawn),
    "torch": lambda seed: (torch.Generator().manual_seed(seed), of_torch),
    "numpy": lambda seed: (np.random.default_rng(seed), of_numpy),
    "numpy, of another kind": lambda seed: (np.random.Generator(np.random.MT19937(seed)), of_numpy),
    "numpy, the old one": lambda seed: (np.random.RandomState(seed), of_old_numpy),
    "in a list": lambda seed: ([3, Random(seed)], partial(first_of, itemgetter(1))),
    "in a tuple": lambda seed: ((Random(seed),), partial(first_of, itemgetter(0))),
    "in a named tuple": lambda seed: (Pair("a", Random(seed)), partial(first_of, rng_of)),
    "in a dict": lambda seed: ({"a": Random(seed)}, partial(first_of, itemgetter("a"))),
    "in a helper": lambda seed: (Helper(seed), partial(first_of, rng_of)),
    "in a helper with slots": lambda seed: (Slotted(seed), partial(first_of, rng_of)),
}

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def built(kind: Callable[[int], Any], seed: int = 0, length: int = 4) -> Pipe:
    return Held(numbers(length), *kind(seed))


def epochs(pipe: Pipe, seed: int, count: int = 3, service: Any = None) -> list[list[Any]]:
    with DataLoader2(pipe, reading_service=service) as loader:
        loader.seed(seed)
        return [list(loader) for _ in range(count)]


# -- in a loader -------------------------------------------------------------------------------------------------------


@each_kind
def test_a_loader_seeds_them_for_each_epoch(kind: Callable[[int], Any]) -> None:
    pipe = built(kind)
    before = pickle.dumps(pipe)
    all_epochs = epochs(pipe, 7)
    assert len({*map(str, all_epochs)}) == 3
    assert epochs(pipe, 7) == epochs(built(kind), 7) == epochs(pickle.loads(before), 7) == all_epochs
    assert epochs(pipe, 8)[0] not in all_epochs
    assert epochs(built(kind, seed=1), 7)[0] not in all_epochs, "another constructor is another experiment"
    twins = epochs(Zipper(pipe, pipe), 7, 1)[0]
    assert all(one != other for one, other in twins), "each place has its own"


@each_kind
def test_a_state_within_an_epoch_is_resumed(kind: Callable[[int], Any]) -> None:
    expected = epochs(built(kind), 7)
    for done in range(4):
        loader: DataLoader2[Any] = DataLoader2(built(kind))
        loader.seed(7)
        assert list(loader) == expected[0]
        assert list(islice(loader, done)) == expected[1][:done]
        again: DataLoader2[Any] = DataLoader2(built(kind))
        again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
        assert [list(again), list(again)] == [expected[1][done:], expected[2]]


READERS: dict[str, Callable[[Pipe], Pipe]] = {
    "itself": lambda dp: dp,
    "cycle": lambda dp: dp.cycle(2),
    "flatmap": lambda dp: dp.flatmap(lambda row: [row, row]),
    "unbatch": lambda dp: dp.batch(2).unbatch(),
    "groupby": lambda dp: dp.groupby(itemgetter(0), group_size=2),
    "prefetch": lambda dp: dp.prefetch(2),
    "a class": lambda dp: Generator(dp),
    "a class, above a map": lambda dp: Generator(dp.map(tuple)),
    "shuffled_flatmap": lambda dp: dp.shuffled_flatmap(lambda row: [row, row], buffer_size=2),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_generator_that_its_constructor_did_not_seed_is_resumed_too(read: Callable[[Pipe], Pipe]) -> None:
    def build() -> Pipe:
        return read(Held(numbers(4), Random(), drawn))

    loader: DataLoader2[Any] = DataLoader2(build())
    loader.seed(7)
    for done in range(3):
        iterator = iter(loader)
        list(islice(iterator, done))
        again: DataLoader2[Any] = DataLoader2(build())
        again.load_state_dict(loader.state_dict())
        assert list(again) == list(iterator)
        loader.seed(8)
        again.seed(8)
        assert list(again) == list(loader)


@pytest.mark.parametrize("service", [processes, threads])
def test_workers_draw_their_own_numbers(service: Service) -> None:
    def build(seed: int) -> Pipe:
        return Held(numbers(8).sharding_filter(), Random(seed), drawn)

    one = epochs(build(0), 3, 2, service(2))
    assert len({number for epoch in one for _, number in epoch}) == 16
    assert epochs(build(0), 3, 2, service(2)) == one
    assert one[0] != epochs(build(0), 4, 1, service(2))[0]
    assert one[0] != epochs(build(1), 3, 1, service(2))[0]
    above = Held(numbers(8), Random(0), drawn)
    assert sorted(epochs(above.sharding_filter(), 3, 1, service(2))[0]) == epochs(above, 3, 1)[0]


def test_a_plain_iteration_does_not_move_a_loader() -> None:
    pipe = built(KINDS["random"])
    expected = epochs(pipe, 7)
    loader: DataLoader2[Any] = DataLoader2(pipe)
    loader.seed(7)
    found = []
    for _ in range(3):
        list(pipe)
        found.append(list(loader))
    assert found == expected
    assert pipe.held.getstate() != Random(0).getstate()


def test_what_is_shared_stays_one() -> None:
    class Shares(Generator):
        def __init__(self, source_datapipe: Pipe) -> None:
            super().__init__(source_datapipe)
            self.rng = Random(0)
            self.helper = self.same_helper = Helper(1)
            self.helper.rng = self.rng
            self.in_list = [self.rng]
            self.fresh = Random(0)

        def __iter__(self) -> Iterator[Any]:
            assert self.helper is self.same_helper
            assert self.helper.rng is self.rng is self.in_list[0]
            for element in self.source_datapipe:
                yield element, self.rng.random(), self.in_list[0].random(), self.fresh.random()

    pipe = Shares(numbers(2))
    helper, rng = pipe.helper, pipe.rng
    draws = [number for row in epochs(pipe, 3, 1)[0] for number in row[1:]]
    assert len({*draws}) == 6
    assert pipe.helper is helper
    assert helper.rng is rng
    assert rng.getstate() == Random(0).getstate()


class Deep:
    """A helper that holds a helper."""

    def __init__(self) -> None:
        self.inner = Helper(0)

    def draw(self) -> int:
        return drawn(self.inner.rng)


@pytest.mark.parametrize(
    "held",
    [Deep(), [[Random(0)]], [Helper(0)], Deep().draw, partial(drawn, Random(0)), deque([Random(0)])],
    ids=["helper", "lists", "helper in a list", "method", "partial", "deque"],
)
def test_what_is_held_deeper_is_named(held: Any) -> None:
    def anything(held: Any) -> int:
        return 0

    with pytest.warns(UserWarning, match=r"^Held\(.* holds a Random deep in \.held.*set_seed"):
        DataLoader2(Held(numbers(3), held, anything))


@pytest.mark.parametrize(
    "held", [SystemRandom(), np.random, Random, drawn, [SystemRandom()], 3], ids=lambda held: type(held).__name__
)
def test_what_has_no_state_is_left_as_it_is(held: Any) -> None:
    pipe = Held(numbers(1), held, id)
    assert list(pipe) == list(DataLoader2(pipe)) == [(0, id(held))]


def test_a_class_with_set_seed_has_the_say() -> None:
    class Reseeded(Held):
        def set_seed(self, seed: int) -> None:
            self.held.seed(seed)

    pipe: Any = Reseeded(numbers(3), Random(0), drawn)
    assert epochs(pipe, 5) == epochs(Reseeded(numbers(3), Random(1), drawn), 5)
    before = pipe.held.getstate()
    assert list(pipe) != list(pipe)
    assert pipe.held.getstate() == before
    pipe.set_seed(3)
    passes = [list(pipe) for _ in range(2)]
    rng = Random(3)
    assert passes[0] == [(i, drawn(rng)) for i in range(3)] != passes[1]
    assert epochs(pipe, 5, 2) == passes


# -- without a loader --------------------------------------------------------------------------------------------------


@each_kind
def test_in_a_plain_iteration_they_advance_as_in_plain_python(kind: Callable[[int], Any]) -> None:
    pipe, (held, draw) = built(kind), kind(0)
    twin = pickle.loads(pickle.dumps(pipe))
    expected = [draw(held) for _ in range(8)]
    assert [number for _, number in [*pipe, *pipe.map(tuple)]] == expected
    assert [number for _, number in [*twin, *copy.deepcopy(twin)]] == expected


def test_seeding_again_starts_over() -> None:
    pipe: Any = built(KINDS["random"])
    first = list(pipe)
    assert list(pipe) != first
    pipe.held.seed(0)
    assert list(pipe) == first
    pipe.held = Random(0)
    assert list(pipe) == first


@each_kind
@pytest.mark.parametrize("read", [lambda dp: dp, READERS["cycle"], READERS["groupby"], READERS["a class, above a map"]])
def test_a_plain_iteration_is_resumed(read: Callable[[Pipe], Pipe], kind: Callable[[int], Any]) -> None:
    pipe = read(built(kind))
    list(pipe)
    for done in range(4):
        iterator = iterate(pipe)
        list(islice(iterator, done))
        state = pickle.loads(pickle.dumps(iterator.state_dict()))
        rest, after = list(iterator), list(pipe)
        pipe = read(built(kind, seed=3))
        again = iterate(pipe)
        again.load_state_dict(state)
        assert [list(again), list(pipe)] == [rest, after]


@pytest.mark.parametrize("make", [iterate, lambda pipe: iter(DataLoader2(pipe))], ids=["plain", "loader"])
def test_what_failed_is_run_again_with_the_numbers_that_it_had_drawn(make: Callable[[Pipe], Iterator[Any]]) -> None:
    failing = [2]

    def once(row: Any) -> Any:
        if row[0] in failing:
            failing.clear()
            raise KeyboardInterrupt
        return row

    def graph() -> Pipe:
        return Held(Held(numbers(4), Random(0), drawn).map(once), Random(1), drawn)

    torch.manual_seed(1)
    iterator = make(graph())
    rows = [next(iterator), next(iterator)]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    torch.manual_seed(1)
    assert [*rows, *iterator] == list(make(graph()))


def test_a_generator_that_two_stages_draw_from_has_no_position_without_a_loader() -> None:
    pipe, rng = built(KINDS["random"]), Random(0)
    iterator = iterate(Zipper(pipe, pipe))
    assert next(iterator) == ((0, drawn(rng)), (0, drawn(rng)))
    with pytest.raises(UnsavableElement, match=r"draw from one generator.*DataLoader2"):
        iterator.state_dict()


def test_above_a_fork_they_cannot_be_run_again_without_a_loader() -> None:
    def graph() -> Pipe:
        a, b = Held(numbers(4), Random(0), drawn).fork(2)
        return Generator(a).zip(b)

    iterator = iterate(graph())
    next(iterator)
    again = iterate(graph())
    again.load_state_dict(iterator.state_dict())
    with pytest.raises(StateError, match="draws from generators that have moved on"):
        next(again)
    loader: DataLoader2[Any] = DataLoader2(graph())
    elements = iter(loader)
    next(elements)
    resumed: DataLoader2[Any] = DataLoader2(graph())
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == list(elements)


# -- states ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, b"no pickle", {"rng": 3}, [1]], ids=repr)
def test_a_state_that_is_none_is_refused(value: Any) -> None:
    iterator = iterate(built(KINDS["random"]))
    next(iterator)
    state = iterator.state_dict()
    (place,) = (place for place, cell in state["cells"].items() if isinstance(cell, dict))
    cell = {**state["cells"][place], "generators": value}
    with pytest.raises(StateError):
        iterate(built(KINDS["random"])).load_state_dict(sealed({**state, "cells": {**state["cells"], place: cell}}))


def test_a_plain_state_of_another_kind_of_generator_is_refused() -> None:
    iterator = iterate(built(KINDS["numpy"]))
    next(iterator)
    state = iterator.state_dict()
    for kind, message in ("random", "does not fit"), ("in a list", "holds none at .held"):
        again = iterate(built(KINDS[kind]))
        with pytest.raises(StateError, match=message):
            again.load_state_dict(state)


def test_what_0_1_0_saved_of_classes_is_read_and_ignored() -> None:
    loader: DataLoader2[Any] = DataLoader2(built(KINDS["random"]), reading_service=InProcessReadingService())
    expected = epochs(built(KINDS["random"]), 7)
    loader.seed(7)
    list(loader)
    finished = loader.state_dict()
    next(iter(loader))
    running = loader.state_dict()
    ((place, count),) = running["cells"].items()
    assert count == 1
    cells = {place: {"given": 1, "faults": [], "began": {place: b"anything"}}}
    for state, rows in (
        (sealed({**finished, "cells": {place: {"kept": b"anything"}}}), expected[1]),
        (sealed({**running, "cells": cells}), expected[1][1:]),
    ):
        again: DataLoader2[Any] = DataLoader2(built(KINDS["random"]), reading_service=InProcessReadingService())
        again.load_state_dict(state)
        assert list(again) == rows


def test_workers_of_0_1_0_told_what_their_classes_kept() -> None:
    def build() -> IterDataPipe[Any]:
        return Held(IterableWrapper(range(6)).sharding_filter(), Random(0), drawn)

    with DataLoader2(build(), reading_service=threads(2)) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        expected = list(iterator)
    ((place, cell),) = state["cells"].items()
    old = {**cell, "workers": [[*worker, {3: b"anything"}] for worker in cell["workers"]]}
    with DataLoader2(build(), reading_service=threads(2)) as again:
        again.load_state_dict(sealed({**state, "cells": {place: old}}))
        assert list(again) == expected
