"""Random numbers that functions draw in worker processes, from global generators, go on where they were."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy
import pytest
import torch

from datapipes.elements import encode
from datapipes.errors import StateError
from datapipes.graph import Pipe
from datapipes.iter import IterDataPipe
from datapipes.map import SequenceWrapper
from datapipes.position.plain_data import sealed
from datapipes.position.position_history import SnapshotBudget
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from loader2 import DataLoader2
from reading_services.workers.generators import PLACE, Generators
from tests.reading_services.workers.in_turn import SEED, numbers, processes, texts, threads


def augmented(x: Any) -> tuple[Any, ...]:
    return x, random.random(), random.gauss(0, 1), float(numpy.random.randn()), float(torch.rand(1))


def fails_at_nine(x: tuple[Any, ...]) -> tuple[Any, ...]:
    if x[0] == 9:
        raise LookupError(x)
    return x


def first_by_three(x: tuple[Any, ...]) -> int:
    return int(x[0]) % 3


class Augmenting(IterDataPipe[Any]):
    """A class of a user's that draws by itself, and is replayed."""

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        for element in self.source_datapipe:
            yield element, random.random()


class Augmented:
    """A data set that draws for each of its elements."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return augmented(index)


KINDS: dict[str, Callable[[], Pipe]] = {
    "mapped": lambda: numbers(40).shuffle().sharding_filter().map(augmented),
    "batched": lambda: numbers(40).shuffle().sharding_filter().map(augmented).batch(3),
    "grouped": lambda: numbers(40).sharding_filter().map(augmented).groupby(first_by_three, buffer_size=9),
    "shuffled": lambda: numbers(40).sharding_filter().map(augmented).shuffle(buffer_size=9).batch(3),
    "shuffled out of a collection": lambda: (
        SequenceWrapper(Augmented(40), deepcopy=False).to_iter_datapipe().sharding_filter().shuffle(buffer_size=9)
    ),
    "prefetched": lambda: numbers(40).shuffle().sharding_filter().map(augmented).prefetch(3).batch(2),
    "dispatched": lambda: numbers(40).map(augmented).sharding_round_robin_dispatch().map(augmented),
    "replayed": lambda: Augmenting(numbers(40).sharding_filter().map(augmented)).batch(2),
    "drawn behind what is replayed": lambda: Augmenting(numbers(40).sharding_filter()).map(augmented).batch(2),
    "replayed and dispatched": lambda: (
        Augmenting(numbers(40)).map(augmented).sharding_round_robin_dispatch().map(augmented)
    ),
}


def loader_of(kind: str, service: Any) -> DataLoader2[Any]:
    loader: DataLoader2[Any] = DataLoader2(KINDS[kind](), reading_service=service)
    loader.seed(SEED)
    return loader


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_epoch_draws_what_it_would_have_drawn(
    kind: str, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: looks)  # in the workers, too, which are forks
    with loader_of(kind, processes(2)) as loader:
        first, second = texts(iter(loader)), texts(iter(loader))
    for number in range(0, len(first), 1 + len(first) // 4):
        with loader_of(kind, processes(2)) as loader:
            iterator = iter(loader)
            assert texts(islice(iterator, number)) == first[:number]
            state = pickle.dumps(loader.state_dict())
        with loader_of(kind, processes(2)) as again:
            again.load_state_dict(pickle.loads(state))
            assert texts(iter(again)) == first[number:]
            assert texts(iter(again)) == second


def test_so_does_an_epoch_that_goes_on_behind_an_error() -> None:
    def build(fails: bool) -> Pipe:
        graph = numbers(30).sharding_filter().map(augmented)
        return graph.map(fails_at_nine) if fails else graph

    epochs = []
    for fails in (False, True):
        with DataLoader2(build(fails), reading_service=processes(2)) as loader:
            loader.seed(SEED)
            iterator = iter(loader)
            found = list(islice(iterator, 9))
            if fails:
                with pytest.raises(LookupError):
                    next(iterator)
            epochs.append([*found, *iterator])
    assert epochs[1] == [x for x in epochs[0] if x[0] != 9]


def fails_at_three(x: int) -> int:
    if x == 3:
        raise LookupError(x)
    return x


def test_an_error_above_the_sharding_changes_no_draws_of_the_other_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for looks in (True, False):
        monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self, looks=looks: looks)
        graph = numbers(8).map(fails_at_three).sharding_filter().map(augmented).shuffle(buffer_size=6).batch(2)
        with DataLoader2(graph, reading_service=processes(2)) as loader:
            loader.seed(SEED)
            iterator = iter(loader)
            begun = texts(islice(iterator, 1))
            with pytest.raises(LookupError):
                next(iterator)
            found.append([*begun, *texts(iterator)])
    assert found[0] == found[1]


def test_a_state_holds_no_generators_that_nobody_used() -> None:
    sizes = []
    for fn in (abs, augmented):
        with DataLoader2(numbers(20_000).sharding_filter().map(fn), reading_service=processes(2)) as loader:
            states = (loader.state_dict() for number, _ in enumerate(loader) if number % 500 == 0)
            sizes.append(max(len(pickle.dumps(state)) for state in states))  # a look at the workers is among them
    assert sizes[0] < 1000 < sizes[1] < 40_000


def test_threads_leave_them_alone() -> None:
    with loader_of("mapped", processes(2)) as loader:
        list(islice(iter(loader), 20))
        state = loader.state_dict()
    before = random.getstate()
    with loader_of("mapped", threads(2, worker_init_fn=lambda dp, _: dp)) as again:
        again.load_state_dict(state)
    assert random.getstate() == before


def test_a_state_of_them_that_makes_no_sense_is_refused() -> None:
    with loader_of("mapped", processes(2)) as loader:
        list(islice(iter(loader), 20))
        state = loader.state_dict()
    (cell,) = state["cells"].values()
    for wrong in (1, b"", b"x" * 100, [1, 2, 3], encode([(3, (2**70,) * 625, None), (), b""], what="them")):
        cell["workers"][0][0] = {**cell["workers"][0][0], PLACE: wrong}
        with loader_of("mapped", processes(2)) as again:
            again.load_state_dict(sealed(state))
            with pytest.raises(StateError):
                list(again)


def test_what_is_loaded_is_what_was_saved() -> None:
    kept = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    try:
        generators = Generators()
        generators.seed(7)
        session = Session.of(numbers(3), Run(seed=1))
        assert PLACE not in (generators.beside(session) or {})
        drawn = augmented(0)
        saved = (generators.beside(session) or {})[PLACE]
        after = [augmented(0), augmented(1)]
        generators.seed(8)
        generators.load(saved)
        assert [augmented(0), augmented(1)] == after != [drawn, drawn]
    finally:
        random.setstate(kept[0])
        numpy.random.set_state(kept[1])
        torch.set_rng_state(kept[2])
