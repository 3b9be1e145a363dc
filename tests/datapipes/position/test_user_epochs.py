"""The number of the epoch for users' classes: by ``set_epoch``, or in an attribute ``epoch`` that they count on."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest
import torch.utils.data.datapipes.iter as torch_pipes
from torch.utils.data import DataLoader

from datapipes.description.user_code import counted_epoch
from datapipes.graph import Pipe
from datapipes.iter import IterDataPipe
from datapipes.position.iterator import iterate
from loader2 import DataLoader2
from reading_services import DistributedReadingService, InProcessReadingService, SequentialReadingService
from tests.datapipes.position.written_for_torchdata import Generator, OfTorch
from tests.interruptions import Summed
from tests.reading_services.workers.in_turn import numbers, processes, threads


class Counts(Generator):
    """Counts its epochs on ``self``, from a number that it is given, and shuffles by seed and epoch."""

    def __init__(self, source_datapipe: Pipe, epoch: int = 0) -> None:
        super().__init__(source_datapipe)
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        elements = list(self.source_datapipe)
        Random(self.epoch).shuffle(elements)
        for element in elements:
            yield self.epoch, element
        self.epoch += 1


class IsTold(Generator):
    """Is told the number of the epoch."""

    told = -1

    def set_epoch(self, epoch: int) -> None:
        self.told = epoch

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield self.told, element


class Both(IsTold):
    """Has an attribute of the name as well, which is its own."""

    def set_epoch(self, epoch: int) -> None:
        self.told = self.epoch = epoch


BUILDS: dict[str, Callable[[type], Pipe]] = {
    "below the sharding": lambda cls: cls(numbers(8).sharding_filter()),
    "above it": lambda cls: cls(numbers(8)).sharding_filter(),
    "above and below": lambda cls: cls(cls(numbers(8)).sharding_filter()),
    "above a map": lambda cls: cls(cls(numbers(8).sharding_filter()).map(str)),
    "in a cycle": lambda cls: cls(numbers(4).sharding_filter()).cycle(2),
    "dispatched": lambda cls: cls(numbers(8)).sharding_round_robin_dispatch(),
    "dispatched, and below": lambda cls: cls(cls(numbers(8)).sharding_round_robin_dispatch()),
    "read twice": lambda cls: (lambda pipe: pipe.concat(pipe))(cls(numbers(4).sharding_filter())),
    "on a child of a fork": lambda cls: (lambda a, b: cls(a).zip(b))(*cls(numbers(8).sharding_filter()).fork(2)),
}

SERVICES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "in process": InProcessReadingService,
    "processes": lambda: processes(2),
    "threads": lambda: threads(2),
    "distributed, threads": lambda: SequentialReadingService(DistributedReadingService(), threads(2)),
}

CASES = [
    (service, build)
    for service in SERVICES
    for build in BUILDS
    if ("dispatched" in build) <= (service in ("processes", "threads"))
]


def epochs_in(rows: Any) -> set[int]:
    """All numbers of epochs in some elements, however deep they are."""
    if isinstance(rows, list | tuple) and len(rows) == 2 and type(rows[0]) is int:
        return {rows[0]} | (epochs_in(rows[1]) if isinstance(rows[1], tuple) else set())
    return set().union(*map(epochs_in, rows)) if isinstance(rows, list | tuple) else set()


@pytest.mark.parametrize("cls", [Counts, IsTold, Both])
@pytest.mark.parametrize(("service", "build"), CASES)
@pytest.mark.filterwarnings("ignore:.*no process group|.*ranks")
def test_it_is_that_of_the_loader_whatever_the_seeds(service: str, build: str, cls: type) -> None:
    def graph() -> Pipe:
        return BUILDS[build](cls)

    found, states = [], {}
    with DataLoader2(graph(), reading_service=SERVICES[service]()) as loader:
        for epoch in range(4):
            loader.seed(epoch)
            rows, iterator = [], iter(loader)
            assert loader.epoch == epoch
            for row in iterator:
                rows.append(row)
                if epoch == 2 and len(rows) in (1, 3):
                    states[len(rows)] = pickle.dumps(loader.state_dict())
            found.append(rows)
        assert [epochs_in(rows) for rows in found] == [{0}, {1}, {2}, {3}]
    for done, state in states.items():
        with DataLoader2(graph(), reading_service=SERVICES[service]()) as again:
            again.load_state_dict(pickle.loads(state))
            assert list(again) == found[2][done:]
            again.seed(3)
            assert list(again) == found[3]


def test_an_epoch_that_was_left_counts_and_set_epoch_of_the_loader_moves_it() -> None:
    for cls in Counts, IsTold:
        loader: DataLoader2[Any] = DataLoader2(cls(numbers(3)))
        assert [next(iter(loader))[0] for _ in range(3)] == [0, 1, 2]
        loader.set_epoch(7)
        assert epochs_in(list(loader)) == {7}
        loader.seed(3)
        assert epochs_in(list(loader)) == {8}


def test_it_starts_from_the_number_of_the_constructor() -> None:
    pipe = Counts(numbers(3), epoch=5)
    loader: DataLoader2[Any] = DataLoader2(pipe)
    assert [epochs_in(list(loader)) for _ in range(3)] == [{5}, {6}, {7}]
    assert pipe.epoch == 5
    state = loader.state_dict()
    again: DataLoader2[Any] = DataLoader2(Counts(numbers(3), epoch=5))
    again.load_state_dict(state)
    assert list(again) == list(loader)


def test_without_a_loader_iterations_are_counted() -> None:
    pipe = Counts(numbers(3))
    assert [epochs_in(list(dp)) for dp in (pipe, pipe.map(tuple), pipe)] == [{0}, {1}, {2}]
    first, second = iter(pipe), iter(pipe)
    assert [epochs_in([row]) for row in (next(first), next(second), next(first))] == [{3}, {4}, {3}]
    iterator = iterate(pipe)
    rows = list(islice(iterator, 1))
    again = iterate(Counts(numbers(3)))
    again.load_state_dict(iterator.state_dict())
    rest = list(again)
    assert rest == list(iterator)
    assert epochs_in(rows + rest) == {5}
    pipe.epoch = 100
    assert [epochs_in(list(pipe)) for _ in range(2)] == [{100}, {101}]
    told = IsTold(numbers(3))
    told.set_epoch(4)
    assert epochs_in([*told, *told]) == {4}, "each iteration has passed it on"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_torchs_loader_counts_them_too(workers: int, persistent: bool) -> None:
    pipe = Counts(numbers(4)).sharding_filter()
    loader: Any = DataLoader(pipe, batch_size=None, num_workers=workers, persistent_workers=persistent and workers > 0)
    assert [epochs_in([tuple(map(int, row)) for row in loader]) for _ in range(3)] == [{0}, {1}, {2}]


class Repeats(Generator):
    """Has an attribute of the name that only its constructor assigns: it is no counter."""

    def __init__(self, source_datapipe: Pipe, epoch: int = 2) -> None:
        super().__init__(source_datapipe)
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.epoch):
            yield from self.source_datapipe


class InAnotherMethod(Repeats):
    def step(self) -> None:
        self.epoch = self.epoch + 1


class InAnInnerFunction(Repeats):
    def __iter__(self) -> Iterator[Any]:
        def step() -> None:
            self.epoch += 1

        yield self.epoch
        step()


class NoInt(Repeats):
    def step(self) -> None:
        self.epoch = None  # type: ignore[assignment]  # on purpose


class OnTheClass(OfTorch):
    epoch = 3

    def __iter__(self) -> Iterator[Any]:
        yield self.epoch, 0
        self.epoch += 1


class Never(Repeats):
    def step(self) -> None:
        raise AssertionError("no method is called to find that out")

    def other(self) -> None:
        self.epoch = 1


def test_which_classes_count() -> None:
    assert counted_epoch(Repeats(numbers(3))) is None
    assert counted_epoch(InAnotherMethod(numbers(3))) == 2
    assert counted_epoch(InAnInnerFunction(numbers(3))) == 2
    assert counted_epoch(Never(numbers(3))) == 2
    assert counted_epoch(OnTheClass(numbers(3))) == 3
    assert counted_epoch(Both(numbers(3))) is None
    assert counted_epoch(IsTold(numbers(3))) is None
    assert counted_epoch(numbers(3).shuffle()) is None
    other: Any = NoInt(numbers(3))
    other.epoch = "2"
    assert counted_epoch(other) is None
    other.epoch = True
    assert counted_epoch(other) is None
    loader: DataLoader2[Any] = DataLoader2(Repeats(numbers(2)))
    assert [list(loader), list(loader)] == [[0, 1, 0, 1]] * 2
    loader = DataLoader2(OnTheClass(numbers(2)))
    assert [list(loader), list(loader)] == [[(3, 0)], [(4, 0)]]


# -- other values ------------------------------------------------------------------------------------------------------


def changing(name: str, start: Any, body: Callable[[Any], Any]) -> type:
    """A class that changes an attribute by a function; each test has one of its own, since a class is told once."""

    class Changes(Generator):
        def __init__(self, source_datapipe: Pipe) -> None:
            super().__init__(source_datapipe)
            setattr(self, name, start)

        def __iter__(self) -> Iterator[Any]:
            for element in self.source_datapipe:
                setattr(self, name, body(getattr(self, name)))
                yield element, getattr(self, name)

    return Changes


CHANGES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "count": (0, lambda count: count + 1),
    "rate": (1.0, lambda rate: rate / 2),
    "text": ("", lambda text: text + "a"),
    "is_first": (True, lambda _: False),
    "length": (None, lambda _: 3),
    "epoch": (0, lambda epoch: epoch + 1),  # by setattr(), which the code does not show
}


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_class_that_changes_another_value_is_told_once(name: str, loads: bool) -> None:
    cls = changing(name, *CHANGES[name])
    pipe: Any = DataLoader2(cls(numbers(2))) if loads else cls(numbers(2))
    with pytest.warns(UserWarning, match=rf"Changes\(.* has changed \.{name} from .* set_epoch\(epoch\)") as warned:
        first = list(pipe)
    assert len(warned) == 1
    with warnings.catch_warnings(action="error"):
        assert list(pipe) == first, "each epoch starts from what the constructor left"
        assert list(cls(numbers(2))) == first


class StartsAnew(Generator):
    """Assigns before it reads, so that nothing goes on."""

    total, seen = 3, 4

    def __init__(self, source_datapipe: Pipe) -> None:
        super().__init__(source_datapipe)
        self.total = self.seen = self.begun = 0

    def reset(self) -> None:
        self.seen = 0

    def __iter__(self) -> Iterator[Any]:
        self.total = 0
        self.elements = iter(self.source_datapipe)
        for element in self.elements:
            self.total += element
            self.seen += 1
            self.last = element
            yield self.total


@pytest.mark.parametrize("cls", [StartsAnew, Summed, Counts, IsTold, Both, OfTorch])
def test_a_class_that_starts_anew_by_itself_is_told_nothing(cls: Callable[[Pipe], IterDataPipe[Any]]) -> None:
    with warnings.catch_warnings(action="error"):
        assert len([*cls(numbers(3)), *DataLoader2(cls(numbers(3)))]) == 6


def test_a_class_of_torchs_own_is_told_nothing() -> None:
    source: Any = numbers(5)
    shuffled: Any = torch_pipes.Shuffler(source)
    with warnings.catch_warnings(action="error"):
        assert sorted(DataLoader2(shuffled)) == sorted(shuffled) == list(range(5))
