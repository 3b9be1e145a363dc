"""Elements of a shard: sharding groups combine the same way whatever the order they are set in."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES as TORCH_PRIORITIES

from datapipes.errors import BadArgument, GraphError
from datapipes.graph import SHARDING_PRIORITIES, apply_sharding
from datapipes.iter import IterableWrapper, ShardingFilter
from datapipes.sharding.sharding import combined, shard_length, with_group

DEFAULT, DISTRIBUTED, MULTIPROCESSING = SHARDING_PRIORITIES


def sharded(*settings: tuple[int, int, SHARDING_PRIORITIES], length: int = 20) -> ShardingFilter[int]:
    pipe = IterableWrapper(range(length)).sharding_filter()
    for of, index, group in settings:
        pipe.apply_sharding(of, index, group)
    return pipe


def test_the_groups_have_torchs_numbers() -> None:
    assert [(group.name, int(group)) for group in SHARDING_PRIORITIES] == [
        (group.name, int(group)) for group in TORCH_PRIORITIES
    ]


def test_until_somebody_shards_all_elements_pass() -> None:
    pipe = sharded()
    assert list(pipe) == list(range(20))
    assert (pipe.groups, pipe.num_of_instances, pipe.instance_id) == ({}, 1, 0)


def test_one_group() -> None:
    pipe = IterableWrapper(range(7)).sharding_filter()
    pipe.apply_sharding(3, 1)
    assert list(pipe) == [1, 4]
    assert (pipe.groups, pipe.num_of_instances, pipe.instance_id) == ({DEFAULT: (3, 1)}, 3, 1)


@pytest.mark.parametrize("settings", list(permutations([(2, 1, DISTRIBUTED), (3, 2, MULTIPROCESSING)])))
def test_the_workers_index_varies_fastest_whatever_the_order_of_the_calls(
    settings: tuple[tuple[int, int, SHARDING_PRIORITIES], ...],
) -> None:
    pipe = sharded(*settings)
    assert list(pipe) == [5, 11, 17]
    assert (pipe.num_of_instances, pipe.instance_id) == (6, 5)


def test_each_element_belongs_to_one_shard() -> None:
    parts = [
        list(sharded((2, rank, DISTRIBUTED), (3, worker, MULTIPROCESSING)))
        for rank, worker in product(range(2), range(3))
    ]
    assert sorted(sum(parts, [])) == list(range(20))  # noqa: RUF017 - six short lists
    assert [len(part) for part in parts] == [4, 4, 3, 3, 3, 3]


def test_a_group_that_is_set_again_is_replaced() -> None:
    assert list(sharded((3, 1, DEFAULT), (2, 0, DEFAULT), length=5)) == [0, 2, 4]
    assert list(sharded((3, 1, DISTRIBUTED), (2, 1, MULTIPROCESSING), (1, 0, DISTRIBUTED), length=5)) == [1, 3]


@pytest.mark.parametrize(("of", "index"), [(3, 3), (3, 4), (1, 1), (3, -1), (0, 0)])
def test_an_index_out_of_range_is_refused(of: int, index: int) -> None:
    pipe = sharded()
    with pytest.raises(BadArgument, match=f"instance_id {index} should be smaller than num_of_instances {of}"):
        pipe.apply_sharding(of, index)
    with pytest.raises(ValueError, match="should be smaller than"):
        apply_sharding(pipe, of, index)
    assert pipe.groups == {}


@pytest.mark.parametrize(
    ("first", "second"), [(DEFAULT, DISTRIBUTED), (MULTIPROCESSING, DEFAULT), (DEFAULT, MULTIPROCESSING)]
)
def test_default_does_not_mix_with_the_others(first: SHARDING_PRIORITIES, second: SHARDING_PRIORITIES) -> None:
    pipe = sharded((2, 0, first))
    with pytest.raises(GraphError, match=f"cannot mix DEFAULT and non DEFAULT groups.*{second.name}.*{first.name}"):
        pipe.apply_sharding(2, 0, second)
    assert pipe.groups == {first: (2, 0)}


def test_a_filter_counts_one_group_only() -> None:
    pipe = IterableWrapper(range(10)).sharding_filter(DISTRIBUTED)
    pipe.apply_sharding(2, 1, DISTRIBUTED)
    pipe.apply_sharding(5, 3, MULTIPROCESSING)
    assert list(pipe) == [1, 3, 5, 7, 9]
    assert len(pipe) == 5
    other = IterableWrapper(range(4)).sharding_filter(MULTIPROCESSING)
    other.apply_sharding(2, 1, DISTRIBUTED)
    assert list(other) == [0, 1, 2, 3]


def test_setting_a_group_leaves_the_others_alone() -> None:
    before = with_group({}, 2, 1, DISTRIBUTED)
    after = with_group(before, 3, 0, MULTIPROCESSING)
    assert before == {DISTRIBUTED: (2, 1)}
    assert after == {DISTRIBUTED: (2, 1), MULTIPROCESSING: (3, 0)}
    assert combined({}) == (1, 0)
    assert combined(after, only=DISTRIBUTED) == (2, 1)


@given(length=st.integers(0, 40), of=st.integers(1, 9))
def test_the_length_is_the_number_of_elements(length: int, of: int) -> None:
    lengths = [shard_length(length, of, index) for index in range(of)]
    assert sum(lengths) == length
    assert lengths == [len(range(index, length, of)) for index in range(of)]
    pipe = IterableWrapper(range(length)).sharding_filter()
    pipe.apply_sharding(of, of - 1)
    assert len(pipe) == len(list(pipe)) == lengths[-1]


@given(ranks=st.integers(1, 4), workers=st.integers(1, 4), length=st.integers(0, 30))
def test_two_groups_partition_any_stream(ranks: int, workers: int, length: int) -> None:
    taken = [
        element
        for rank, worker in product(range(ranks), range(workers))
        for element in sharded((ranks, rank, DISTRIBUTED), (workers, worker, MULTIPROCESSING), length=length)
    ]
    assert sorted(taken) == list(range(length))
