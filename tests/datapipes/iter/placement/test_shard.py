"""sharding_filter gives each shard its elements by their number, whatever happens to the others."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgument, GraphError
from datapipes.graph import SHARDING_PRIORITIES
from datapipes.iter import IterableWrapper, ShardingFilter
from datapipes.position.iterator import PipeIterator
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from tests.datapipes.iter.mishaps import failing_at, outcomes

DEFAULT, DISTRIBUTED, MULTIPROCESSING = SHARDING_PRIORITIES


def shard(of: int, index: int, count: int = 10, *bad: int) -> ShardingFilter[int]:
    dp = IterableWrapper(range(count)).map(failing_at(*bad)).sharding_filter()
    dp.apply_sharding(of, index)
    return dp


def test_until_it_is_sharded_it_hands_on_everything() -> None:
    dp = IterableWrapper([None, 1, None]).sharding_filter()
    assert isinstance(dp, ShardingFilter)
    assert list(dp) == [None, 1, None]
    assert (len(dp), dp.num_of_instances, dp.instance_id) == (3, 1, 0)


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("of", [1, 2, 3, 8])
def test_the_shards_together_are_the_stream(count: int, of: int) -> None:
    shards = [shard(of, index, count) for index in range(of)]
    for index, dp in enumerate(shards):
        assert list(dp) == list(dp) == list(range(count))[index::of]
        assert len(dp) == len(list(dp))
        assert (dp.num_of_instances, dp.instance_id) == (of, index)


def test_groups_combine_whatever_the_order() -> None:
    for groups in ([(DISTRIBUTED, 2, 1), (MULTIPROCESSING, 3, 2)], [(MULTIPROCESSING, 3, 2), (DISTRIBUTED, 2, 1)]):
        dp = IterableWrapper(range(20)).sharding_filter()
        for group, of, index in groups:
            dp.apply_sharding(of, index, group)
        assert list(dp) == [5, 11, 17]
        assert len(dp) == 3


def test_one_group_alone() -> None:
    dp = IterableWrapper(range(6)).sharding_filter(DISTRIBUTED)
    dp.apply_sharding(3, 2, MULTIPROCESSING)
    assert list(dp) == [0, 1, 2, 3, 4, 5]
    dp.apply_sharding(2, 1, DISTRIBUTED)
    assert list(dp) == [1, 3, 5]
    assert len(dp) == 3


def test_a_group_set_again_is_replaced() -> None:
    dp = shard(2, 0, 6)
    dp.apply_sharding(3, 1)
    assert list(dp) == [1, 4]


@pytest.mark.parametrize("index", [2, 3, -1])
def test_a_shard_that_there_is_not_is_refused(index: int) -> None:
    with pytest.raises(BadArgument, match=rf"instance_id {index} should be smaller than num_of_instances 2"):
        shard(2, index)


@pytest.mark.parametrize(("first", "second"), [(DEFAULT, DISTRIBUTED), (MULTIPROCESSING, DEFAULT)])
def test_default_does_not_mix_with_other_groups(first: SHARDING_PRIORITIES, second: SHARDING_PRIORITIES) -> None:
    dp = IterableWrapper(range(6)).sharding_filter()
    dp.apply_sharding(2, 0, first)
    with pytest.raises(GraphError, match="cannot mix DEFAULT and non DEFAULT groups"):
        dp.apply_sharding(2, 0, second)


@pytest.mark.parametrize("bad", range(6))
@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_element_that_failed_keeps_its_number(bad: int, index: int) -> None:
    found = outcomes(shard(3, index, 9, bad))
    assert [x for x in found if isinstance(x, int)] == [x for x in range(index, 9, 3) if x != bad]
    assert found.count(f"ValueError: {bad} is bad") == (bad % 3 == index), "it is an error of its own shard alone"


def resumed(dp: Any, run: Run, after: int) -> list[Any]:
    it: Any = PipeIterator.over(Session.of(dp, run))
    for _ in range(after):
        next(it)
    again: Any = PipeIterator.over(Session.of(dp, run))
    again.load_state_dict(it.state_dict())
    return list(again)


@pytest.mark.parametrize("after", [0, 1, 4, 8, 10])
def test_a_shuffle_below_reads_the_elements_of_its_own_shard_again(after: int) -> None:
    run = Run(seed=1)
    dp = shard(2, 1, 20).shuffle(buffer_size=4)
    assert resumed(dp, run, after) == list(PipeIterator.over(Session.of(dp, run)))[after:]
    # The shard may also be set by the process that opens the graph.
    asked = Run(seed=1, shard=(2, 1))
    unset = IterableWrapper(range(20)).sharding_filter().shuffle(buffer_size=4)
    assert resumed(unset, asked, after) == list(PipeIterator.over(Session.of(unset, asked)))[after:]
