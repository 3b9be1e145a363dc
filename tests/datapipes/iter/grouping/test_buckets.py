"""bucketbatch and max_token_bucketize put together what is alike in size, and lose nothing."""

from __future__ import annotations

import functools
import operator
from heapq import heappop, heappush
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgument, StateError
from datapipes.iter import IterableWrapper
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import failing_at, outcomes


def itself(x: Any) -> Any:
    return x


def as_tensor(x: int) -> Any:
    return torch.tensor(x)


LENGTHS = [1, 2, 1, 4, 3, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("lengths", "options", "batches"),
    [
        (LENGTHS, {"max_token_count": 5}, [[1, 1, 1, 2], [2, 2], [3], [3], [4]]),
        (LENGTHS, {"max_token_count": 4, "buffer_size": 4}, [[1, 1, 1], [2, 2], [2], [3], [3], [4]]),
        ([3, 3, 3, 4], {"max_token_count": 7}, [[3, 3], [3, 4]]),
        ([3, 3, 3, 4], {"max_token_count": 7, "include_padding": True}, [[3, 3], [3], [4]]),
        ([3, 9, 1, 0], {"max_token_count": 5, "min_len": 1, "max_len": 3}, [[1, 3]]),
    ],
)
def test_batches_have_so_many_tokens_at_most(lengths: list[int], options: Any, batches: list[list[int]]) -> None:
    assert list(IterableWrapper(lengths).max_token_bucketize(len_fn=itself, **options)) == batches


def test_of_equal_lengths_the_first_comes_first_and_none_is_compared() -> None:
    elements = [complex(i, 3) for i in range(20)]
    dp = IterableWrapper(elements).max_token_bucketize(6, len_fn=lambda x: int(x.imag), buffer_size=7)
    assert [x for batch in dp for x in batch] == elements


def naive(lengths: list[int], most: int, buffer_size: int, padding: bool) -> list[list[int]]:
    """Elements as they come out of the buffer, in order, cut into batches."""
    heap: list[int] = []
    order = []
    for length in lengths:
        if length <= most:
            heappush(heap, length)
            if len(heap) == buffer_size:
                order.append(heappop(heap))
    batches: list[list[int]] = [[]]
    for length in order + sorted(heap):
        joined = [*batches[-1], length]
        if (len(joined) * max(joined) if padding else sum(joined)) > most:
            joined = [length]
            batches.append([])
        batches[-1] = joined
    return [batch for batch in batches if batch]


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), max_size=60), st.integers(1, 12), st.integers(1, 20), st.booleans())
def test_it_agrees_with_a_plain_one(lengths: list[int], most: int, buffer_size: int, padding: bool) -> None:
    dp = IterableWrapper(lengths).max_token_bucketize(most, itself, buffer_size=buffer_size, include_padding=padding)
    assert list(dp) == naive(lengths, most, buffer_size, padding)


def test_lengths_may_be_numbers_of_other_kinds() -> None:
    dp = IterableWrapper([3, 1, 2]).max_token_bucketize(4, len_fn=as_tensor)
    it: Any = iter(dp)
    assert next(it) == [1, 2]
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert list(again) == [[3]]
    assert list(IterableWrapper([2.5, 0.5]).max_token_bucketize(3, len_fn=float)) == [[0.5, 2.5]]
    found = outcomes(IterableWrapper("ab").max_token_bucketize(3, len_fn=str))  # type: ignore[arg-type]  # no number
    assert [error.partition(":")[0] for error in found] == ["TypeError", "TypeError"]


def test_a_length_that_cannot_be_told_costs_its_element() -> None:
    dp = IterableWrapper([1, 2, 3]).max_token_bucketize(4, len_fn=failing_at(2))
    assert outcomes(dp) == ["ValueError: 2 is bad", [1, 3]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_len": -1}, "min_len should be 0 or more"),
        ({"min_len": 3, "max_len": 2}, "min_len should be 0 or more, and not exceed max_len"),
        ({"max_len": 9}, "max_token_count must be equal to or greater than max_len"),
        ({"buffer_size": 0}, "buffer_size should be larger than 0"),
    ],
)
def test_what_cannot_be_is_refused_with_the_call(options: Any, said: str) -> None:
    with pytest.raises(BadArgument, match=rf"{said}.*, in \.max_token_bucketize\(5, "):
        IterableWrapper("a").max_token_bucketize(5, **options)
    with pytest.raises(TypeError, match="A callable function is expected"):
        IterableWrapper("a").max_token_bucketize(5, len_fn=3)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("name", ["batch_size", "batch_num", "bucket_num"])
def test_bucket_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(AssertionError, match=f"{name} is required to be larger than 0"):
        IterableWrapper("a").bucketbatch(**{"batch_size": 2, name: 0})  # type: ignore[arg-type]  # mypy cannot tell the names
    with pytest.raises(TypeError, match="A callable function is expected"):
        IterableWrapper("a").bucketbatch(2, sort_key=3)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("bucket_num", [1, 3])
@pytest.mark.parametrize("sort_key", [None, sorted])
@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_bucketbatch_loses_nothing(bucket_num: int, sort_key: Any, in_batch: bool, drop_last: bool) -> None:
    dp = IterableWrapper(range(50)).bucketbatch(4, drop_last, 3, bucket_num, sort_key, in_batch)
    batches = list(dp)
    assert len(functools.reduce(operator.iadd, batches, [])) == (48 if drop_last else 50)
    assert len(set(functools.reduce(operator.iadd, batches, []))) == len(functools.reduce(operator.iadd, batches, []))
    if sort_key is not None:
        assert all(batch == sorted(batch) for batch in batches)
    if sort_key is None and not in_batch:
        assert len(dp) == len(batches)
    else:
        with pytest.raises(TypeError):
            len(dp)


def test_one_sorted_bucket_keeps_its_order() -> None:
    assert list(IterableWrapper([5, 3, 9, 1]).bucketbatch(2, batch_num=2, sort_key=sorted)) == [[1, 3], [5, 9]]


def test_bucketbatch_prints_as_what_it_is_made_of() -> None:
    dp = IterableWrapper("a").bucketbatch(2, batch_num=3, sort_key=sorted, use_in_batch_shuffle=False)
    assert repr(dp) == "IterableWrapper('a').batch(6).map(sorted).unbatch().batch(2).shuffle(buffer_size=6)"


@pytest.mark.parametrize("saved", [7, {"packed": 7}, {}, {"packed": b"?"}])
def test_an_odd_state_is_refused(saved: Any) -> None:
    it: Any = iter(IterableWrapper("abc").max_token_bucketize(2))
    state = it.state_dict()
    state["cells"][1] = saved
    with pytest.raises(StateError, match="max_token_bucketize"):
        iter(IterableWrapper("abc").max_token_bucketize(2)).load_state_dict(sealed(state))  # type: ignore[attr-defined]  # our iterator
