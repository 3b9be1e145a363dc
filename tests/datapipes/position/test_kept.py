"""State that a plain class keeps on ``self`` goes on from epoch to epoch, and is part of its position."""

from __future__ import annotations

import copy
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import numpy as np
import pytest
import torch

from datapipes.errors import StateError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import WorkerDied
from tests.datapipes.position.written_for_torchdata import Generator, OfTorch
from tests.reading_services.workers.in_turn import processes, threads


class Seeded(Random):
    """A generator whose constructor needs an argument."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Drawing(Generator):
    """Draws from one generator, which its constructor makes."""

    def __init__(self, source_datapipe: Pipe, generator: Any, draw: Callable[[Any], int]) -> None:
        super().__init__(source_datapipe)
        self.generator, self.drawing = generator, draw

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, self.drawing(self.generator)


class Counting(Generator):
    """Counts its epochs, and what it has given in all of them."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.epoch = 0
        self.last: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        before, self.last = self.last, []
        for element in self.source_datapipe:
            self.last.append(element)
            yield self.epoch, element, len(before)


def below(million: int) -> Callable[[Any], int]:
    return lambda generator: int(generator.integers(million))


def of_torch(generator: torch.Generator) -> int:
    return int(torch.randint(10**6, (), generator=generator))


GENERATORS: dict[str, Callable[[Pipe], Pipe]] = {
    "random": lambda s: Drawing(s, Random(), lambda r: r.randrange(10**6)),
    "a subclass of random's": lambda s: Drawing(s, Seeded("x"), lambda r: r.randrange(10**6)),
    "torch": lambda s: Drawing(s, torch.Generator(), of_torch),
    "numpy": lambda s: Drawing(s, np.random.default_rng(), below(10**6)),
    "numpy, of another kind": lambda s: Drawing(s, np.random.Generator(np.random.MT19937()), below(10**6)),
    "numpy, the old one": lambda s: Drawing(s, np.random.RandomState(), lambda r: int(r.randint(10**6))),
}


def numbers(length: int = 6) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def resumed(build: Callable[[], Pipe], state: Any) -> DataLoader2[Any]:
    loader: DataLoader2[Any] = DataLoader2(build())
    loader.load_state_dict(pickle.loads(pickle.dumps(state)))
    return loader


@pytest.mark.parametrize("build", GENERATORS.values(), ids=GENERATORS)
def test_generators_go_on_and_are_resumed(build: Callable[[Pipe], Pipe]) -> None:
    pipe = build(numbers())
    assert list(pipe) != list(pipe)
    loader: DataLoader2[Any] = DataLoader2(build(numbers()))
    epochs: list[list[Any]] = []
    states: list[tuple[int, int, Any]] = []
    for epoch in range(3):
        epochs.append([])
        for done, element in enumerate(loader, 1):
            epochs[epoch].append(element)
            states.append((epoch, done, loader.state_dict()))
        states.append((epoch + 1, 0, loader.state_dict()))
    assert epochs[0] != epochs[1] != epochs[2]
    for epoch, done, state in states:
        again = resumed(lambda: build(numbers()), state)
        for expected in [*epochs, []][epoch : epoch + 2][: 3 - epoch]:
            assert list(again) == expected[done:]
            done = 0


def test_plain_values_go_on_for_a_pipe_by_itself_and_out_of_sight() -> None:
    pipe = Counting(numbers(2))
    assert list(pipe) == [(1, 0, 0), (1, 1, 0)]
    assert list(pipe.map(tuple)) == [(2, 0, 2), (2, 1, 2)]
    assert (pipe.epoch, pipe.last) == (0, [])
    loader: DataLoader2[Any] = DataLoader2(pipe)
    assert [next(iter(loader)) for _ in range(2)] == [(3, 0, 2), (4, 0, 1)]
    assert next(iter(pipe)) == (3, 0, 2), "a loader has a pipe of its own"
    assert next(iter(pipe)) == (4, 0, 1), "an epoch that was left counts"
    for twin in (pickle.loads(pickle.dumps(pipe)), copy.deepcopy(pipe)):
        assert next(iter(twin)) == (5, 0, 1)
    assert next(iter(pipe)) == (5, 0, 1), "a pickled pipe is another one"


def test_two_openings_at_once_begin_alike_and_the_last_to_close_has_the_say() -> None:
    pipe = Counting(numbers(3))
    first, second = iter(pipe), iter(pipe)
    assert [*zip(first, second, strict=True)] == [((1, i, 0), (1, i, 0)) for i in range(3)]
    assert next(iter(pipe)) == (2, 0, 3)


def test_each_lap_of_a_cycle_goes_on() -> None:
    assert [row[0] for row in Counting(numbers(2)).cycle(3)] == [1, 1, 2, 2, 3, 3]


READERS: dict[str, Callable[[Pipe], Pipe]] = {
    "cycle": lambda dp: dp.cycle(2),
    "flatmap": lambda dp: dp.flatmap(lambda row: [row, row]),
    "unbatch": lambda dp: dp.batch(2).unbatch(),
    "groupby": lambda dp: dp.groupby(itemgetter(0), group_size=2),
    "prefetch": lambda dp: dp.prefetch(2),
    "shuffled_flatmap": lambda dp: dp.shuffled_flatmap(lambda row: [row, row], buffer_size=2),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_state_from_before_the_first_element_has_what_was_kept(read: Callable[[Pipe], Pipe]) -> None:
    loader: DataLoader2[Any] = DataLoader2(read(Counting(numbers(3))))
    loader.seed(1)
    list(loader)
    iterator = iter(loader)
    state = loader.state_dict()
    assert list(resumed(lambda: read(Counting(numbers(3))), state)) == list(iterator)


def test_what_failed_is_run_again_from_what_it_was_when_the_epoch_began() -> None:
    def but_for_two(row: Any) -> Any:
        if row[1] == 2:
            raise ValueError("no 2")
        return row

    pipe = Counting(Counting(numbers(4)).map(but_for_two).map(lambda row: row[1]))
    iterator = iter(pipe)
    assert [next(iterator), next(iterator)] == [(1, 0, 0), (1, 1, 0)]
    for _ in range(3):
        with pytest.raises(ValueError, match="no 2"):
            next(iterator)
    del iterator
    assert next(iter(pipe)) == (2, 0, 2)


@pytest.mark.parametrize("service", [processes, threads])
def test_in_workers_values_go_on_and_are_resumed(service: Any) -> None:
    def build() -> Pipe:
        return Counting(GENERATORS["a subclass of random's"](numbers(8)).sharding_filter())

    with DataLoader2(build(), reading_service=service(2)) as loader:
        first = list(loader)
        iterator = iter(loader)
        before = list(islice(iterator, 3))
        state = pickle.dumps(loader.state_dict())
        rest, third = list(iterator), list(loader)
    assert [row[0] for row in first + before + rest + third] == [1] * 8 + [2] * 8 + [3] * 8
    with DataLoader2(build(), reading_service=service(2)) as again:
        again.load_state_dict(pickle.loads(state))
        assert [list(again), list(again)] == [rest, third]


class Both(Generator):
    """Draws from its constructor's generator, and counts its epochs when they end."""

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.generator = torch.Generator()
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield self.epoch, element, of_torch(self.generator)
        self.epoch += 1


WITH_WORKERS: dict[str, Callable[[], Pipe]] = {
    "below the sharding": lambda: Both(numbers(9).sharding_filter()),
    "above it": lambda: Both(numbers(9)).sharding_filter(),
    "and at home": lambda: Both(Both(numbers(9).sharding_filter()).map(str).fullsync()),
    "in turns": lambda: Both(numbers(9).sharding_filter()).cycle(2),
    "in the dispatcher": lambda: Both(numbers(9)).sharding_round_robin_dispatch(),
    "in both": lambda: Both(Both(numbers(9)).sharding_round_robin_dispatch()),
}


@pytest.mark.parametrize(
    ("service", "graph"),
    [*((threads, graph) for graph in WITH_WORKERS), (processes, "below the sharding"), (processes, "in both")],
)
def test_any_state_of_workers_goes_on_as_they_do(service: Any, graph: str) -> None:
    build = WITH_WORKERS[graph]
    epochs: list[list[Any]] = []
    states: list[tuple[int, int, bytes]] = []
    with DataLoader2(build(), reading_service=service(2)) as loader:
        for epoch in range(3):
            states.append((epoch, 0, pickle.dumps(loader.state_dict())))
            iterator, rows = iter(loader), []
            states.append((epoch, 0, pickle.dumps(loader.state_dict())))
            for row in iterator:
                rows.append(row)
                if len(rows) in (1, 8):
                    states.append((epoch, len(rows), pickle.dumps(loader.state_dict())))
            epochs.append(rows)
    for epoch, done, state in states:
        with DataLoader2(build(), reading_service=service(2)) as again:
            again.load_state_dict(pickle.loads(state))
            if not done:
                assert again.state_dict() == pickle.loads(state)
            assert list(again) == epochs[epoch][done:]
            assert epoch == 2 or list(again) == epochs[epoch + 1]


@pytest.mark.parametrize("service", [processes, threads])
def test_in_no_order_each_worker_goes_on(service: Any) -> None:
    def build() -> Pipe:
        return Both(numbers(9).sharding_filter())

    with DataLoader2(build(), reading_service=service(2, in_order=False)) as loader:
        list(loader)
        state, expected = loader.state_dict(), sorted(loader)
    with DataLoader2(build(), reading_service=service(2, in_order=False)) as again:
        again.load_state_dict(state)
        assert sorted(again) == expected


def test_a_worker_that_replaces_another_begins_with_what_that_one_had(tmp_path: Path) -> None:
    def killed(epoch: int, row: Any) -> Any:
        if row[0] == epoch:
            with suppress(FileExistsError):  # one of the two workers, once
                (tmp_path / str(epoch)).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return row

    def epochs(die_in: Sequence[int]) -> list[list[Any]]:
        graph: Pipe = Both(numbers(8).sharding_filter())
        for epoch in die_in:
            graph = graph.map(partial(killed, epoch))
        with DataLoader2(graph, reading_service=processes(2)) as loader:
            return [rows_of(iter(loader)) for _ in range(4)]

    def rows_of(iterator: Iterator[Any]) -> list[Any]:
        rows: list[Any] = []
        while True:
            try:
                rows.append(next(iterator))
            except StopIteration:
                return rows
            except WorkerDied:
                died.append(len(rows))

    died: list[int] = []
    expected = epochs(())
    assert not died
    assert epochs((1, 2)) == expected
    assert len(died) == 2


@pytest.mark.parametrize("service", [processes, threads])
def test_an_exception_in_a_worker_does_not_begin_the_epoch_twice(service: Any) -> None:
    def odd(row: Any) -> Any:
        if row[1] == 2:
            raise ValueError("no 2")
        return row

    with DataLoader2(Counting(numbers(6).sharding_filter()).map(odd), reading_service=service(2)) as loader:
        for epoch in (1, 2):
            iterator = iter(loader)
            rows = list(islice(iterator, 2))
            with pytest.raises(ValueError, match="no 2"):
                next(iterator)
            assert [row[:2] for row in (*rows, *iterator)] == [(epoch, i) for i in (0, 1, 3, 4, 5)]


@pytest.mark.parametrize("service", [processes, threads])
def test_behind_an_epoch_that_was_left_a_state_has_what_its_first_elements_tell(service: Any) -> None:
    def build() -> Pipe:
        return Both(numbers(40).sharding_filter())

    with DataLoader2(build(), reading_service=service(2)) as loader:
        list(loader)
        next(iter(loader))
        iterator = iter(loader)
        unknown = loader.state_dict()
        assert next(iterator)
        assert next(iterator)
        state, expected = loader.state_dict(), [list(iterator), list(loader)]
    with DataLoader2(build(), reading_service=service(2)) as again:
        again.load_state_dict(state)
        assert [list(again), list(again)] == expected
    with DataLoader2(build(), reading_service=service(2)) as again:
        again.load_state_dict(unknown)
        assert [row[:2] for row in again] == [(1, i) for i in range(40)], "as before the epoch that was left"


def test_what_workers_keep_is_for_as_many_and_what_home_kept_is_for_any() -> None:
    def build() -> Pipe:
        return Counting(numbers(4).sharding_filter())

    def after_one(service: Any) -> Any:
        with DataLoader2(build(), reading_service=service) as loader:
            list(loader)
            return loader.state_dict()

    for service, here in (None, "without workers"), (threads(3), "with 3 workers"):
        with (
            DataLoader2(build(), reading_service=service) as loader,
            pytest.raises(StateError, match=f"was saved with 2 workers, and this loader runs {here}"),
        ):
            loader.load_state_dict(after_one(threads(2)))
    for begin_first in (False, True):
        with DataLoader2(build(), reading_service=threads(2)) as loader:
            if begin_first:
                iter(loader)
            loader.load_state_dict(after_one(None))
            assert [row[0] for row in loader] == [2] * 4


def test_what_cannot_be_saved_is_named_and_goes_on_all_the_same() -> None:
    class Opens(Generator):
        handle: Any = None

        def __iter__(self) -> Iterator[Any]:
            self.handle = self.handle or object()
            for _ in self.source_datapipe:
                yield id(self.handle)

    loader: DataLoader2[Any] = DataLoader2(Opens(numbers(2)))
    (first,) = set(loader)
    iterator = iter(loader)
    assert next(iterator) == first
    with pytest.warns(UserWarning, match=r"Opens\(.*keeps in .handle.*cannot be saved"):
        state = loader.state_dict()
    resumed(lambda: Opens(numbers(2)), state)


def test_torchs_own_base_and_what_has_no_state() -> None:
    class Counted(OfTorch):
        epoch = 0

        def __init__(self, source: Pipe) -> None:
            super().__init__(source)
            self.system = SystemRandom()

        def __iter__(self) -> Iterator[Any]:
            self.epoch += 1
            for element in self.source_datapipe:
                yield self.epoch, element

    pipe: Any = Counted(numbers(1))
    loader: DataLoader2[Any] = DataLoader2(pipe)
    assert [list(loader), list(loader)] == [[(1, 0)], [(2, 0)]]


HOSTILE: list[Any] = [3, b"no pickle", {"epoch": 3}]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_state_that_is_none_is_refused(value: Any) -> None:
    loader: DataLoader2[Any] = DataLoader2(Counting(numbers(2)))
    list(loader)
    between = loader.state_dict()
    next(iter(loader))
    within = loader.state_dict()
    (place,) = between["cells"]
    with pytest.raises(StateError):
        resumed(lambda: Counting(numbers(2)), sealed({**between, "cells": {place: {"kept": value}}}))
    cell = {**within["cells"][place], "began": {place: value}}
    with pytest.raises(StateError):
        resumed(lambda: Counting(numbers(2)), sealed({**within, "cells": {**within["cells"], place: cell}}))
    with pytest.raises(StateError, match="keeps nothing"):
        resumed(lambda: Counting(numbers(2)), sealed({**between, "cells": {0: between["cells"][place]}}))


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_state_of_workers_that_is_none_is_refused(value: Any) -> None:
    def load(state: Any) -> None:
        with DataLoader2(Counting(numbers(4).sharding_filter()), reading_service=threads(2)) as loader:
            loader.load_state_dict(state)
            list(loader)

    with DataLoader2(Counting(numbers(4).sharding_filter()), reading_service=threads(2)) as loader:
        list(loader)
        between = loader.state_dict()
        next(iter(loader))
        within = loader.state_dict()
    load(between)
    load(within)
    ((place, entry),) = between["cells"].items()
    for by_worker in [value, None], [*entry["kept"], None], value:
        with pytest.raises(StateError):
            load(sealed({**between, "cells": {place: {"kept": by_worker}}}))
    ((gathered, cell),) = within["cells"].items()
    for kept in {place: value}, value:
        workers = [[*worker[:3], kept] for worker in cell["workers"]]
        with pytest.raises(StateError):
            load(sealed({**within, "cells": {gathered: {**cell, "workers": workers}}}))


def test_workers_have_nothing_to_tell_of_classes_that_keep_nothing() -> None:
    with DataLoader2(Generator(numbers(4).sharding_filter()), reading_service=threads(2)) as loader:
        for _ in range(2):
            assert loader.state_dict()["cells"] == {}
            iterator = iter(loader)
            next(iterator)
            (cell,) = loader.state_dict()["cells"].values()
            assert [len(worker) for worker in cell["workers"]] == [3, 3]
            assert len(list(iterator)) == 3


def test_what_the_user_assigns_comes_before_what_was_kept() -> None:
    class Counts(IterDataPipe[Any]):
        def __init__(self, source_datapipe: Any) -> None:
            self.source_datapipe = source_datapipe
            self.epoch = 0

        def __iter__(self) -> Iterator[Any]:
            self.epoch += 1
            for _ in self.source_datapipe:
                yield self.epoch

    pipe = Counts(IterableWrapper(range(1)))
    assert [*pipe, *pipe] == [1, 2]
    pipe.epoch = 1000
    assert [*pipe, *pipe] == [1001, 1002]


def test_a_generator_that_the_user_has_moved_goes_on_from_there() -> None:
    class Draws(IterDataPipe[Any]):
        def __init__(self, source_datapipe: Any) -> None:
            self.source_datapipe = source_datapipe
            self.generator = torch.Generator().manual_seed(3)

        def __iter__(self) -> Iterator[Any]:
            for _ in self.source_datapipe:
                yield int(torch.randint(1000, (), generator=self.generator))

    pipe = Draws(IterableWrapper(range(3)))
    first = list(pipe)
    pipe.generator.manual_seed(3 + 2**24)  # of the state, a few bytes in the middle differ
    second = list(pipe)
    pipe.generator.manual_seed(3)
    assert [second != first, list(pipe)] == [True, first]
