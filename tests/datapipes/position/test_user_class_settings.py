"""Settings of a run for users' classes: seeds, shards and switches go to copies, never to the user's object."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import torch.utils.data.datapipes.iter as torch_pipes

from datapipes.graph import SHARDING_PRIORITIES, Pipe, apply_sharding, set_graph_random_seed
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper, Zipper
from datapipes.position.iterator import PipeIterator
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from loader2 import DataLoader2
from loader2.adapters import Shuffle
from loader2.random import SeedGenerator
from reading_services import InProcessReadingService
from tests.datapipes.position.written_for_torchdata import Generator, Noisy, Switched, TakesAPart


class TellsItsSeed(Generator):
    """Gives the seed that it was given, and nothing else."""

    seed: int | None = None

    def set_seed(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        yield self.seed


def numbers(length: int = 6) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def under(run: Run, pipe: Pipe) -> list[Any]:
    """All elements of a graph in a given run."""
    return list(PipeIterator.over(Session.of(pipe, run)))


def seeded_epochs(pipe: Pipe, seed: int, number: int = 2) -> list[list[Any]]:
    loader: DataLoader2[Any] = DataLoader2(pipe)
    loader.seed(seed)
    return [list(loader) for _ in range(number)]


# -- seeds -------------------------------------------------------------------------------------------------------------


def test_a_seed_depends_on_the_run_the_epoch_and_the_place() -> None:
    first, second = TellsItsSeed(numbers()), TellsItsSeed(numbers())
    pipe = first.zip(second, TellsItsSeed(first))
    seeds = {
        seed
        for run_seed in (1, 2)
        for epoch in seeded_epochs(pipe, run_seed, number=3)
        for row in epoch
        for seed in row
    }
    assert len(seeds) == 2 * 3 * 3
    assert seeded_epochs(pipe, 1) == seeded_epochs(pipe, 1)


def test_a_seed_is_set_on_a_copy() -> None:
    pipe = Noisy(numbers())
    state = pipe.random.getstate()
    seeded_epochs(pipe.map(tuple), 7)
    list(pipe)
    assert pipe.random.getstate() == state
    assert pipe.seeds == ()


def test_two_positions_of_one_class_draw_their_own_numbers() -> None:
    pipe = Noisy(numbers())
    rows = seeded_epochs(Zipper(pipe, pipe), 7, number=1)[0]
    alone = [[row[side] for row in rows] for side in (0, 1)]
    assert alone[0] != alone[1]
    assert seeded_epochs(Zipper(pipe, pipe), 7, number=1) == [rows]


def test_a_seed_that_the_user_has_set_is_kept() -> None:
    expected = [(i, Random(5).randrange(10**9)) for i in range(1)]
    assert list(Noisy(numbers(1)).set_seed(5)) == list(Noisy(numbers(1)).set_seed(5).map(tuple)) == expected
    pipe = Noisy(numbers(1)).set_seed(5)
    epochs = seeded_epochs(pipe, 7, number=3)
    assert epochs[0] == expected
    assert len({str(epoch) for epoch in epochs}) == 3
    assert epochs == seeded_epochs(pipe, 8, number=3)
    assert pipe.seeds == (5,)


def test_a_seed_that_was_set_gives_each_pass_another_one() -> None:
    pipe = TellsItsSeed(numbers())
    pipe.set_seed(5)
    passes = [list(pipe.map(int)) for _ in range(3)]
    assert passes[0] == [5]
    assert len({*map(str, passes)}) == 3
    pipe.set_seed(5)
    assert [list(pipe) for _ in range(3)] == passes
    with DataLoader2(pipe) as dl:
        assert [list(dl) for _ in range(3)] == passes


def test_the_seeds_of_a_graph_that_was_seeded_are_kept() -> None:
    shuffled: Any = torch_pipes.Shuffler(torch_pipes.IterableWrapper(range(30)))
    pipe = Noisy(Mapper(shuffled, int))
    set_graph_random_seed(pipe, SeedGenerator(4))
    once = list(pipe.map(tuple))
    assert [element for element, _ in once] != list(range(30))
    set_graph_random_seed(pipe, SeedGenerator(4))
    assert list(pipe) == once
    set_graph_random_seed(pipe, SeedGenerator(5))
    assert list(pipe) != once


def test_each_lap_of_a_cycle_has_seeds_of_its_own() -> None:
    first, second, third = TellsItsSeed(numbers()).cycle(3)
    assert len({first, second, third}) == 3
    pinned = TellsItsSeed(numbers())
    pinned.set_seed(9)
    first, second, third = pinned.cycle(3)
    assert first == 9
    assert len({first, second, third}) == 3


# -- shuffling ---------------------------------------------------------------------------------------------------------


def test_an_adapter_switches_the_loaders_copy() -> None:
    pipe = Switched(numbers())
    for off in (pipe, pipe.map(int)):
        loader: DataLoader2[Any] = DataLoader2(off, Shuffle(False))
        assert list(loader) == list(range(6))
    assert "shuffled" not in vars(pipe)
    epochs = seeded_epochs(pipe, 3)
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(6))
    assert epochs[0] != epochs[1]


# -- sharding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [False, True])
def test_a_run_shards_a_copy(end: bool) -> None:
    inner = TakesAPart(numbers())
    pipe = inner if end else inner.map(int)
    assert [under(Run(1, shard=(3, i)), pipe) for i in range(3)] == [[0, 3], [1, 4], [2, 5]]
    assert under(Run(1), pipe) == list(range(6))
    assert "part" not in vars(inner)


def test_a_class_of_torch_is_sharded_on_a_copy_and_keeps_its_groups() -> None:
    inner: Any = torch_pipes.ShardingFilter(torch_pipes.IterableWrapper(range(6)))
    pipe = Mapper(inner, int)
    assert under(Run(1, shard=(2, 1)), pipe) == [1, 3, 5]
    loader: DataLoader2[Any] = DataLoader2(pipe, reading_service=InProcessReadingService())
    assert list(loader) == list(range(6))
    assert inner.groups == {}
    apply_sharding(pipe, 3, 2)
    assert list(pipe) == [2, 5]
    assert under(Run(1, shard=(2, 1)), pipe) == [1, 3, 5]
    assert list(pipe) == [2, 5]


def test_what_the_user_has_sharded_stays_so() -> None:
    pipe = TakesAPart(numbers())
    apply_sharding(pipe, 3, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    assert list(pipe) == list(pipe.map(int)) == list(DataLoader2(pipe)) == [1, 4]


def test_seeds_are_alike_above_the_sharding_and_differ_below() -> None:
    def seeds(shard: int) -> list[Any]:
        above = TellsItsSeed(numbers())
        sharded = TakesAPart(above)
        below = TellsItsSeed(sharded)
        return [
            under(Run(1, shard=(2, shard)), pipe)
            for pipe in (above.cycle(2), Generator(above.cycle(2)), Generator(below), below.map(int))
        ]

    first, second = seeds(0), seeds(1)
    assert first[:2] == second[:2]
    assert not {str(one) for one in first[2:]} & {str(other) for other in second[2:]}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_seeds_below_the_sharding_do_not_depend_on_the_order_of_the_calls(order: tuple[int, int]) -> None:
    sharded = numbers().sharding_filter()
    settings = [(2, 1, SHARDING_PRIORITIES.DISTRIBUTED), (3, 2, SHARDING_PRIORITIES.MULTIPROCESSING)]
    for i in order:
        sharded.apply_sharding(*settings[i])
    other = numbers().sharding_filter()
    for setting in settings:
        other.apply_sharding(*setting)
    run = Run(7)
    assert under(run, TellsItsSeed(sharded)) == under(run, TellsItsSeed(other))
    assert under(run, TellsItsSeed(sharded)) != under(run, TellsItsSeed(numbers().sharding_filter()))
