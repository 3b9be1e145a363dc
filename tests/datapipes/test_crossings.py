"""Rooms together: lengths of diamonds, torch's pipes above ours, ranks with workers, map-style pipes of streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.datapipes.iter import IterableWrapper as TorchWrapper

from datapipes.graph import SHARDING_PRIORITIES, apply_sharding
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from loader2 import DataLoader2


class Passed(IterDataPipe[int]):
    """A user's class that hands on what it reads."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[int]:
        yield from self.source_datapipe


def test_the_length_of_a_deep_diamond_is_found_at_once() -> None:
    dp: IterDataPipe[Any] = IterableWrapper(range(3))
    for _ in range(30):
        left, right = dp.fork(2)
        dp = left.zip(right)
    assert len(dp) == 3


def test_a_pipe_of_torch_can_be_above_a_shuffle() -> None:
    source: Any = TorchWrapper(range(4))
    loader = DataLoader2(Mapper(source, abs).shuffle())
    assert sorted(loader) == [0, 1, 2, 3]


def test_a_rank_shares_its_part_among_the_workers_of_torch() -> None:
    got = []
    for rank in (0, 1):
        dp = apply_sharding(IterableWrapper(range(20)).sharding_filter(), 2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
        got += [int(x) for x in DataLoader(dp, num_workers=2, batch_size=None)]
    assert sorted(got) == list(range(20))


def test_what_is_below_a_users_class_is_seeded_per_shard() -> None:
    orders = []
    for index in (0, 1):
        dp = Passed(IterableWrapper([7] * 40).enumerate().map(lambda pair: pair[0] // 2).sharding_filter()).shuffle()
        orders.append(list(Session.of(dp, Run(seed=1, shard=(2, index))).iterator()))
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(20))


def test_a_stream_above_a_map_style_pipe_follows_the_seed() -> None:
    def order() -> list[Any]:
        pairs = IterableWrapper(range(20)).shuffle().enumerate()
        loader = DataLoader2(pairs.to_map_datapipe())
        loader.seed(5)
        return list(loader)

    assert order() == order()
