"""Every epoch differs, and each can be had again: from its seed and number, and from a state in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import Any

import numpy
import pytest
import torch

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from loader2.epochs import Epochs
from reading_services import InProcessReadingService, ReadingServiceInterface
from tests.loader2.graphs import as_0_1_0

SERVICES: list[Callable[[], ReadingServiceInterface | None]] = [
    lambda: None,
    InProcessReadingService,
    lambda: InProcessReadingService(prefetch_cnt=2),
]


def graph() -> IterDataPipe[Any]:
    return IterableWrapper(range(24)).shuffle(buffer_size=8).batch(3)


@pytest.fixture(params=SERVICES, ids=["no service", "in process", "prefetch"])
def make(request: pytest.FixtureRequest) -> Any:
    """A function that makes a loader of the graph; the loaders are shut down after the test."""
    loaders: list[DataLoader2[Any]] = []

    def made() -> DataLoader2[Any]:
        loaders.append(DataLoader2(graph(), reading_service=request.param()))
        return loaders[-1]

    yield made
    for loader in loaders:
        loader.shutdown()


Make = Callable[[], DataLoader2[Any]]


def epochs_of(loader: DataLoader2[Any], number: int) -> list[list[Any]]:
    return [list(loader) for _ in range(number)]


def all_differ(epochs: list[list[Any]]) -> bool:
    return all(epoch not in epochs[:i] for i, epoch in enumerate(epochs))


def test_epochs_of_one_seed_differ_and_are_repeated_by_it(make: Make) -> None:
    loader = make()
    loader.seed(7)
    epochs = epochs_of(loader, 3)
    assert all_differ(epochs)
    assert all(sorted(chain.from_iterable(epoch)) == list(range(24)) for epoch in epochs)
    loader.seed(7)
    assert epochs_of(loader, 3) == epochs
    other = make()
    other.seed(7)
    assert epochs_of(other, 3) == epochs
    other.seed(8)
    assert list(other) not in epochs


def test_a_seed_that_is_given_in_an_epoch_is_for_the_next_one(make: Make) -> None:
    straight = make()
    straight.seed(1)
    first, second = epochs_of(straight, 2)
    loader = make()
    loader.seed(1)
    iterator = iter(loader)
    begun = [next(iterator)]
    loader.seed(1)
    assert begun + list(iterator) == first
    assert epochs_of(loader, 2) == [first, second]


def test_a_seed_that_is_given_before_the_first_element_begins_the_epoch_anew(make: Make) -> None:
    straight = make()
    straight.seed(2)
    expected = list(straight)
    loader = make()
    loader.seed(1)
    iter(loader)
    loader.seed(2)
    assert list(loader) == expected


def test_an_epoch_that_was_left_counts(make: Make) -> None:
    straight = make()
    straight.seed(1)
    _, second = epochs_of(straight, 2)
    loader = make()
    loader.seed(1)
    next(iter(loader))
    assert list(loader) == second


def test_an_epoch_that_is_told_by_its_number_comes_next(make: Make) -> None:
    loader = make()
    loader.seed(7)
    epochs = epochs_of(loader, 4)
    for number in (2, 0, 0, 3):
        loader.sampler.set_epoch(number)  # as torchtune and Lightning call it
        assert list(loader) == epochs[number]
        assert loader.epoch == number
    assert list(loader) not in epochs  # the fifth
    other = make()
    other.set_epoch(1)
    other.seed(7)
    state = other.state_dict()
    assert epochs_of(other, 2) == epochs[1:3]
    loaded = make()
    loaded.load_state_dict(state)
    assert epochs_of(loaded, 2) == epochs[1:3]


def test_an_iterator_that_has_given_nothing_is_moved_to_the_epoch_that_is_told(make: Make) -> None:
    loader = make()
    loader.seed(7)
    epochs = epochs_of(loader, 3)
    loader = make()
    loader.seed(7)
    iterator = iter(loader)
    loader.set_epoch(0)
    loader.set_epoch(2)
    begun = [next(iterator)]
    assert loader.epoch == 2
    loader.set_epoch(1)  # for the next one
    begun.append(next(iterator))
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    assert begun + list(iterator) == epochs[2]
    assert list(loader) == epochs[1]
    assert begun + list(resumed) == epochs[2]


@pytest.mark.parametrize("told", [0, 1, 2])
def test_a_position_is_gone_on_from_unless_a_later_epoch_is_told(make: Make, told: int) -> None:
    loader = make()
    loader.seed(7)
    epochs = epochs_of(loader, 3)
    loader.set_epoch(1)
    next(iter(loader))
    state = loader.state_dict()
    for iterated in (False, True):
        resumed = make()
        resumed.load_state_dict(state)
        iterator = iter(resumed) if iterated else None
        resumed.set_epoch(told)
        assert list(iterator or resumed) == (epochs[2] if told == 2 else epochs[1][1:])


def test_without_a_seed_the_number_only_counts() -> None:
    loader = DataLoader2(graph())
    torch.manual_seed(3)
    drawn = epochs_of(loader, 2)
    loader = DataLoader2(graph())
    loader.set_epoch(4)
    torch.manual_seed(3)
    assert epochs_of(loader, 2) == drawn
    assert loader.epoch == 5
    loader.set_epoch(0)
    assert list(loader) not in drawn
    assert loader.epoch == 0


@pytest.mark.parametrize("epoch", [-1, 1.0, True, "1", None])
def test_other_epochs_are_refused(epoch: Any) -> None:
    with pytest.raises(BadArgument, match=r"set_epoch\(.*\): expected the number of an epoch, from 0"):
        DataLoader2(graph()).set_epoch(epoch)


@pytest.mark.parametrize("seed", [0, 2**64 - 1, numpy.uint64(5)], ids=str)
def test_every_uint64_is_a_seed(seed: int) -> None:
    loader = DataLoader2(graph())
    loader.seed(seed)
    list(loader)
    assert loader.state_dict()["seed"] == seed
    assert type(loader.state_dict()["seed"]) is int


def test_other_seeds_are_refused() -> None:
    loader = DataLoader2(graph())
    loader.seed(5)
    for seed in (-1, 2**64):
        with pytest.raises(BadArgument, match="Expected an uint64 seed"):
            loader.seed(seed)
    with pytest.raises(BadArgumentType, match="Expected an uint64 seed"):
        loader.seed("5")  # type: ignore[arg-type]  # the mistake under test
    assert loader.state_dict()["pending"] == 5


# -- without a seed ----------------------------------------------------------------------------------------------------


def test_unseeded_epochs_and_loaders_differ(make: Make) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert all_differ(epochs_of(make(), 3) + epochs_of(make(), 3))


def test_the_seed_of_torch_decides_the_epochs_that_have_none(make: Make) -> None:
    def sequence() -> list[list[Any]]:
        torch.manual_seed(3)
        return epochs_of(make(), 3) + epochs_of(make(), 2)

    with torch.random.fork_rng(devices=[]):
        assert sequence() == sequence()


def test_an_unseeded_epoch_is_that_of_torchs_seed_when_it_begins(make: Make) -> None:
    with torch.random.fork_rng(devices=[]):
        loader, epochs = make(), []
        for seed in (5, 5, 6, 5):
            torch.manual_seed(seed)
            epochs.append(list(loader))
        assert epochs[0] == epochs[1] == epochs[3] != epochs[2]
        torch.manual_seed(5)
        assert list(make()) == epochs[0]


def test_each_unseeded_epoch_takes_one_draw(make: Make) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        loader = make()
        epochs_of(loader, 2)
        after = torch.rand(1)
        torch.manual_seed(5)
        for _ in range(2):
            torch.empty((), dtype=torch.int64).random_()
        assert torch.rand(1) == after
        iter(loader)
        drawn = torch.get_rng_state()
        list(loader)
        assert torch.get_rng_state().equal(drawn), "the epoch had begun"


def test_given_seeds_and_those_that_follow_draw_nothing(make: Make) -> None:
    with torch.random.fork_rng(devices=[]):
        loader = make()
        before = torch.get_rng_state()
        loader.seed(3)
        epochs = epochs_of(loader, 2)
        assert torch.get_rng_state().equal(before)
        torch.manual_seed(5)
        loader.seed(3)
        assert epochs_of(loader, 2) == epochs


def test_an_unseeded_epoch_goes_on_after_loading_and_the_next_one_draws(make: Make) -> None:
    with torch.random.fork_rng(devices=[]):
        loader = make()
        list(loader)
        iterator = iter(loader)
        next(iterator)
        state, of_torch = loader.state_dict(), torch.get_rng_state()
        expected = [list(iterator), *epochs_of(loader, 2)]
        again = make()
        again.load_state_dict(state)
        torch.set_rng_state(of_torch)
        assert epochs_of(again, 3) == expected
        assert again.epoch == loader.epoch == 3


def test_stages_with_a_seed_of_their_own_differ_from_epoch_to_epoch(make: Make) -> None:
    shuffled = IterableWrapper(range(24)).shuffle()
    shuffled.set_seed(3)
    assert all_differ(epochs_of(DataLoader2(shuffled), 3))


# -- where the loader is -----------------------------------------------------------------------------------------------


def test_epochs_and_steps_are_counted(make: Make) -> None:
    loader = make()
    seen = [(loader.epoch, loader.step)]
    for epoch in range(3):
        if epoch == 1:
            loader.seed(epoch)
        seen += [(loader.epoch, loader.step) for _ in loader]
        seen.append((loader.epoch, loader.step))
    assert seen == [(0, 0)] + [(epoch, step) for epoch in range(3) for step in (*range(1, 9), 8)]


def test_steps_are_counted_over_errors_limits_and_states() -> None:
    def refuse(number: int) -> int:
        if number == 3:
            raise ValueError("no 3")
        return number

    graph = IterableWrapper(range(9)).map(refuse)
    loader = DataLoader2(graph)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="no 3"):
        next(iterator)
    assert loader.step == 3
    iterator.limit(2)
    assert list(iterator) == [4, 5]
    assert loader.step == 5
    del iterator
    again = DataLoader2.from_state(loader.state_dict(), datapipe=graph)
    assert (again.epoch, again.step) == (0, 5)
    assert list(again) == [6, 7, 8]
    assert again.step == 8
    assert (DataLoader2.from_state(again.state_dict(), datapipe=graph)).step == 8
    next(iter(again))
    assert (again.epoch, again.step) == (1, 1)


def test_an_iterator_that_has_given_nothing_begins_no_epoch_of_its_own(make: Make) -> None:
    loader = make()
    iter(loader)
    assert (loader.epoch, loader.step) == (0, 0)
    list(loader)
    assert (loader.epoch, loader.step) == (0, 8)


# -- training loops ----------------------------------------------------------------------------------------------------

EPOCHS = 3
BATCHES = 8


class Stopped(Exception):
    """The run is interrupted here."""


def train(loader: DataLoader2[Any], start: int, log: list[Any], stop_after: int | None = None) -> None:
    """The usual loop, with a seed for each epoch; it may be interrupted after some batches."""
    for epoch in range(start, EPOCHS):
        loader.seed(epoch)
        for batch in loader:
            log.append((epoch, batch))
            if len(log) == stop_after:
                raise Stopped


@pytest.mark.parametrize("stop_after", [1, 2, 7, 8, 9, 15, 16, 17, EPOCHS * BATCHES])
def test_the_usual_loop_goes_on_where_it_was(make: Make, stop_after: int) -> None:
    whole: list[Any] = []
    train(make(), 0, whole)
    log: list[Any] = []
    loader = make()
    with pytest.raises(Stopped):
        train(loader, 0, log, stop_after)
    state = loader.state_dict()
    again = make()
    again.load_state_dict(state)
    train(again, log[-1][0], log)
    assert log == whole


def test_the_usual_loop_goes_on_between_two_epochs(make: Make) -> None:
    whole: list[Any] = []
    train(make(), 0, whole)
    loader = make()
    loader.seed(0)
    log = [(0, batch) for batch in loader]
    again = make()
    again.load_state_dict(loader.state_dict())
    train(again, 1, log)
    assert log == whole


def test_a_state_may_be_taken_with_the_next_seed_waiting(make: Make) -> None:
    straight = make()
    straight.seed(9)
    expected = list(straight)
    loader = make()
    loader.seed(1)
    iterator = iter(loader)
    next(iterator)
    loader.seed(9)
    again = make()
    again.load_state_dict(loader.state_dict())
    assert list(again) == list(iterator)
    assert list(again) == expected == list(loader)


def test_another_seed_after_loading_is_for_the_next_epoch(make: Make) -> None:
    loader = make()
    loader.seed(0)
    iterator = iter(loader)
    list(islice(iterator, 2))
    again = make()
    again.load_state_dict(loader.state_dict())
    again.seed(4)
    loader.seed(4)
    assert epochs_of(again, 3) == [list(iterator), *epochs_of(loader, 2)]


def test_a_seed_that_is_given_once_for_all_epochs_may_be_given_again_after_loading(make: Make) -> None:
    loader = make()
    loader.seed(0)
    iterator = iter(loader)
    next(iterator)
    again = make()
    again.load_state_dict(loader.state_dict())
    again.seed(0)
    assert epochs_of(again, 3) == [list(iterator), *epochs_of(loader, 2)]


def test_a_seed_is_not_taken_for_that_of_a_later_epoch(make: Make) -> None:
    """Epoch 1 of seed 0 is under way; seed 0, given now, begins epoch 0 of it when this one is over."""
    loader = make()
    loader.seed(0)
    first = list(loader)
    iterator = iter(loader)
    next(iterator)
    again = make()
    again.load_state_dict(loader.state_dict())
    again.seed(0)
    assert epochs_of(again, 2) == [list(iterator), first]


def test_the_beginning_of_the_epoch_can_be_restored(make: Make) -> None:
    loader = make()
    loader.seed(6)
    epochs = epochs_of(loader, 3)
    loader.seed(6)
    states: list[dict[str, Any]] = []
    for _ in range(2):
        iterator = iter(loader)
        list(islice(iterator, 3))
        states.append(loader.state_dict())
        list(iterator)
        states.append(loader.state_dict())
    for state, begun in zip(states, (0, 0, 1, 1), strict=True):
        again = make()
        again.load_state_dict(state)
        again._restore_checkpoint_beginning_of_epoch()
        assert epochs_of(again, 2) == epochs[begun : begun + 2]
        with pytest.raises(RuntimeError, match="load the state of an epoch first"):
            again._restore_checkpoint_beginning_of_epoch()
    unbegun = make()
    unbegun.load_state_dict(make().state_dict())
    with pytest.raises(RuntimeError, match="load the state of an epoch first"):
        unbegun._restore_checkpoint_beginning_of_epoch()


# -- by themselves -----------------------------------------------------------------------------------------------------


def test_a_seed_starts_the_count_of_epochs_over() -> None:
    epochs = Epochs().then(5).following().following()
    assert (epochs.seed, epochs.number) == (5, 1)
    epochs = epochs.then(5)
    assert (epochs.seed, epochs.number, epochs.pending) == (5, 1, 5)
    assert epochs.following() == Epochs(5, 0, begun=2)


def test_epochs_that_have_not_begun_have_no_run() -> None:
    with pytest.raises(ValueError, match="no epoch is under way yet"):
        Epochs(pending=4).run()


def pinned() -> DataLoader2[Any]:
    return DataLoader2(IterableWrapper(range(9)).shuffle().set_seed(1))


def test_what_follows_from_the_number_of_an_epoch_does_not_begin_again_with_a_seed() -> None:
    epochs = epochs_of(pinned(), 4)
    assert all_differ(epochs)
    loader = pinned()
    for number, expected in enumerate(epochs):
        loader.seed(number)
        assert list(loader) == expected
    for number in (2, 0):
        loader.set_epoch(number)
        loader.seed(9)
        assert list(loader) == epochs[number]


def test_a_state_of_0_1_0_goes_on_in_the_order_that_it_was_saved_in() -> None:
    epochs = epochs_of(pinned(), 7)
    loader = pinned()
    begun = list(islice(iter(loader), 3))
    state = as_0_1_0({**loader.state_dict(), "begun": 5})  # 0.1.0 had such an order after seed() in the sixth epoch
    for _ in range(2):
        loader = pinned()
        loader.load_state_dict(state)
        assert loader.epoch == 5
        iterator = iter(loader)
        begun.append(next(iterator))
        state = loader.state_dict()
    assert begun + list(iterator) == epochs[0]
    assert list(loader) == epochs[6]
