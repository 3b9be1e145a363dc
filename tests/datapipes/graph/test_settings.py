"""Sharding, shuffling and seeding a whole graph: torchdata's functions, on any class that has the methods."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import torch
import torch.utils.data.datapipes.iter as torch_pipes

from datapipes.graph import (
    SHARDING_PRIORITIES,
    Pipe,
    apply_random_seed,
    apply_sharding,
    apply_shuffle_seed,
    apply_shuffle_settings,
    set_datapipes_seed,
    set_graph_random_seed,
    walk,
)
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper, ShardingFilter, Shuffler
from datapipes.map import SequenceWrapper
from loader2.random import SeedGenerator

DISTRIBUTED, MULTIPROCESSING = SHARDING_PRIORITIES.DISTRIBUTED, SHARDING_PRIORITIES.MULTIPROCESSING


class Plain(IterDataPipe[Any]):
    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source_datapipe)


class ShardsByTwo(Plain):
    """A user's class whose method takes two arguments."""

    shard = (1, 0)

    def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
        self.shard = (num_of_instances, instance_id)

    def __iter__(self) -> Iterator[Any]:
        for i, element in enumerate(self.source_datapipe):
            if i % self.shard[0] == self.shard[1]:
                yield element


class ShardsByThree(ShardsByTwo):
    """A user's class whose method also takes the group."""

    group: Any = None

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        self.shard, self.group = (num_of_instances, instance_id), sharding_group


class Random7(Plain):
    """A user's class with randomness of its own."""

    seed: int | None = None
    shuffled: bool | None = None

    def set_seed(self, seed: int) -> None:
        self.seed = seed

    def set_shuffle(self, shuffle: bool) -> None:
        self.shuffled = shuffle

    def __iter__(self) -> Iterator[Any]:
        random = Random(self.seed)
        for element in self.source_datapipe:
            yield element, random.randrange(1000)


def numbers(length: int = 12) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


# -- sharding ----------------------------------------------------------------------------------------------------------


def test_every_sharding_stage_of_every_branch_is_sharded() -> None:
    left, right = numbers().sharding_filter(), ShardsByTwo(numbers())
    pipe = left.zip(right).map(sum)
    assert apply_sharding(pipe, 3, 1) is pipe
    assert list(pipe) == [2, 8, 14, 20]
    assert right.shard == (3, 1)


def test_both_arities_of_users_methods_are_called() -> None:
    two, three = ShardsByTwo(numbers()), ShardsByThree(numbers())
    apply_sharding(two.zip(three), 4, 2, MULTIPROCESSING)
    assert two.shard == three.shard == (4, 2)
    assert three.group is MULTIPROCESSING


def test_a_torch_pipe_is_sharded_too() -> None:
    inner: Any = torch_pipes.ShardingFilter(torch_pipes.IterableWrapper(range(5)))
    assert list(apply_sharding(Mapper(inner, abs), 2, 1)) == [1, 3]


def test_groups_are_handed_on_and_combined() -> None:
    pipe = numbers(20).sharding_filter()
    apply_sharding(pipe, 3, 2, MULTIPROCESSING)
    apply_sharding(pipe, 2, 1, DISTRIBUTED)
    assert list(pipe) == [5, 11, 17]


@pytest.mark.parametrize("other", [ShardingFilter, ShardsByTwo, ShardsByThree])
def test_sharding_twice_on_a_path_is_refused_before_anything_is_sharded(other: Any) -> None:
    first = numbers().sharding_filter()
    pipe = other(first.map(abs).zip(numbers()))
    with pytest.raises(RuntimeError, match="Sharding twice on a single pipeline"):
        apply_sharding(pipe, 2, 0)
    assert first.groups == {}


def test_a_graph_without_sharding_is_left_alone() -> None:
    pipe = numbers().map(abs)
    assert list(apply_sharding(pipe, 3, 1)) == list(range(12))


def test_an_attribute_is_no_method() -> None:
    pipe = Plain(numbers(2))
    for name in ("apply_sharding", "set_seed", "set_shuffle"):
        setattr(pipe, name, "a user's own")
    apply_sharding(pipe, 2, 1)
    apply_random_seed(pipe, torch.Generator())
    assert list(pipe) == [0, 1]


# -- shuffling ---------------------------------------------------------------------------------------------------------


def test_none_leaves_the_shuffles_as_they_are() -> None:
    pipe = numbers().shuffle().batch(2)
    assert apply_shuffle_settings(pipe) is pipe
    assert sorted(pipe.unbatch()) == list(range(12))


def test_every_shuffle_is_switched() -> None:
    users = Random7(numbers().shuffle())
    pipe = users.shuffle()
    assert apply_shuffle_settings(pipe, shuffle=False) is pipe
    assert [element for element, _ in pipe] == list(range(12))
    assert users.shuffled is False
    apply_shuffle_settings(pipe, shuffle=True)
    assert [element for element, _ in pipe] != list(range(12))
    assert users.shuffled is True


@pytest.mark.parametrize(
    "pipe",
    [numbers(), SequenceWrapper(range(12)), torch_pipes.IterableWrapper(range(12))],
    ids=lambda p: type(p).__name__,
)
def test_a_shuffle_is_added_where_there_is_none(pipe: Pipe) -> None:
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        shuffled = apply_shuffle_settings(pipe, shuffle=True)
    assert shuffled is not pipe
    assert sorted(shuffled) == list(range(12))
    assert apply_shuffle_settings(pipe, shuffle=False) is pipe


def test_an_attribute_named_shuffle_is_not_in_the_way() -> None:
    pipe = Plain(numbers())
    pipe.shuffle = True  # type: ignore[assignment, method-assign]  # as users' classes do
    with pytest.warns(UserWarning, match="Shuffler"):
        assert isinstance(apply_shuffle_settings(pipe, shuffle=True), Shuffler)


# -- seeding -----------------------------------------------------------------------------------------------------------


def test_seeds_are_drawn_depth_first_once_for_each_random_stage() -> None:
    source = Random7(numbers())
    pipe = Random7(Random7(source).zip(source))
    assert apply_random_seed(pipe, torch.Generator().manual_seed(5)) is pipe
    rng = torch.Generator().manual_seed(5)
    draws = [int(torch.empty((), dtype=torch.int64).random_(generator=rng)) for _ in range(3)]
    assert [pipe.seed, pipe.source_datapipe.datapipes[0].seed, source.seed] == draws


@pytest.mark.parametrize("stage", ["native", "users", "torch"])
def test_a_graph_whose_seeds_are_set_gives_the_same_passes_every_time(stage: str) -> None:
    def graph() -> Pipe:
        if stage == "native":
            return numbers().shuffle().batch(3).shuffle()
        inner: Any = (
            Random7(numbers()) if stage == "users" else torch_pipes.Shuffler(torch_pipes.IterableWrapper("abcdefgh"))
        )
        return Mapper(inner, repr)

    pipe = graph()

    def seeded(seed: int, pipe: Pipe) -> list[list[Any]]:
        apply_random_seed(pipe, torch.Generator().manual_seed(seed))
        return [list(pipe), list(pipe)]

    first, second = seeded(1, pipe)
    assert first != second
    assert [first, second] == seeded(1, pipe) == seeded(1, graph())
    assert [first, second] != seeded(2, pipe)


def test_the_old_name_warns() -> None:
    with pytest.warns(FutureWarning, match="apply_random_seed"):
        apply_shuffle_seed(numbers().shuffle(), torch.Generator())


def test_a_list_of_pipes_is_seeded_in_its_order() -> None:
    stages: list[Any] = [Random7(numbers()), numbers(), Random7(numbers())]
    reference = SeedGenerator(7)
    expected = [reference.generate_seed(), reference.generate_seed()]
    set_datapipes_seed(stages, SeedGenerator(7), distributed_shared=False)
    assert [stages[0].seed, stages[2].seed] == expected
    # The streams of a new generator begin alike; that of a worker's does not.
    shared = [SeedGenerator(7).spawn(3).generate_shared_seed()]
    set_datapipes_seed(stages[:1], SeedGenerator(7).spawn(3), distributed_shared=True)
    assert [stages[0].seed] == shared == expected[:1]


@pytest.mark.parametrize("sharding", [ShardingFilter, ShardsByTwo])
def test_seeds_are_shared_down_to_the_sharding_and_a_workers_own_below(sharding: Any) -> None:
    def seeds_of(worker: int) -> tuple[list[int | None], list[int | None]]:
        above = [Random7(numbers()), Random7(numbers())]
        below = [Random7(sharding(above[0])), Random7(Random7(numbers()))]
        pipe = below[0].zip(below[1], sharding(above[1]))
        assert set_graph_random_seed(pipe, SeedGenerator(11).spawn(worker)) is pipe
        return [p.seed for p in above], [below[0].seed, below[1].seed, below[1].source_datapipe.seed]

    (above_0, below_0), (above_1, below_1) = seeds_of(0), seeds_of(1)
    reference = SeedGenerator(11).spawn(0)
    assert above_0 == above_1 == [reference.generate_shared_seed(), reference.generate_shared_seed()]
    assert below_0 == [reference.generate_seed() for _ in range(3)]
    assert not set(below_0) & set(below_1)


def test_without_sharding_every_seed_is_a_workers_own() -> None:
    pipe = Random7(Random7(numbers()))
    set_graph_random_seed(pipe, SeedGenerator(11).spawn(2))
    reference = SeedGenerator(11).spawn(2)
    assert [pipe.seed, pipe.source_datapipe.seed] == [reference.generate_seed(), reference.generate_seed()]


def test_workers_shuffle_alike_and_differ_below_the_sharding() -> None:
    def worker(number: int) -> list[Any]:
        pipe = Random7(numbers(40).shuffle().sharding_filter())
        apply_sharding(set_graph_random_seed(pipe, SeedGenerator(3).spawn(number)), 2, number)
        return list(pipe)

    first, second = worker(0), worker(1)
    assert sorted(element for element, _ in first + second) == list(range(40))
    assert [drawn for _, drawn in first] != [drawn for _, drawn in second]
    assert worker(0) == first


def test_ten_thousand_stages_are_seeded_and_sharded() -> None:
    pipe: IterDataPipe[Any] = numbers()
    for i in range(5000):
        pipe = pipe.sharding_filter() if i == 2500 else pipe.shuffle(buffer_size=1)
        pipe = pipe.map(abs)
    set_graph_random_seed(pipe, SeedGenerator(1))
    apply_sharding(pipe, 2, 1)
    apply_shuffle_settings(pipe, shuffle=False)
    assert len(walk(pipe)) == 10_001
    assert list(pipe) == [1, 3, 5, 7, 9, 11]
