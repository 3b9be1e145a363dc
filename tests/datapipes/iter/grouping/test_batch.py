"""batch groups elements and loses none: a failure in its source leaves what was taken of a batch."""

from __future__ import annotations

import pytest

from datapipes import DataChunk
from datapipes.errors import BadArgument
from datapipes.iter import Batcher, IterableWrapper
from tests.datapipes.iter.mishaps import STRAY_STOP, failing_at, outcomes


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


@pytest.mark.parametrize(
    ("count", "drop_last", "batches"),
    [
        (0, False, []),
        (0, True, []),
        (1, False, [[0]]),
        (1, True, []),
        (4, False, [[0, 1], [2, 3]]),
        (4, True, [[0, 1], [2, 3]]),
        (5, False, [[0, 1], [2, 3], [4]]),
        (5, True, [[0, 1], [2, 3]]),
    ],
)
def test_batches_and_their_number(count: int, drop_last: bool, batches: list[list[int]]) -> None:
    dp = numbers(count).batch(2, drop_last=drop_last)
    assert isinstance(dp, Batcher)
    assert list(dp) == list(dp) == batches
    assert len(dp) == len(batches)


def test_a_batch_is_a_chunk_of_its_own() -> None:
    first, second = numbers(4).batch(2)
    assert type(first) is DataChunk
    first.append(9)
    assert second == [2, 3]


def test_behind_a_function_it_gives_the_same() -> None:
    assert list(numbers(5).map(lambda x: x + 1).batch(2)) == [[1, 2], [3, 4], [5]]
    assert list(numbers(5).map(lambda x: x + 1).batch(2, drop_last=True)) == [[1, 2], [3, 4]]
    assert list(numbers(6).filter(lambda x: x % 2 == 0).batch(2)) == [[0, 2], [4]]


def test_batches_of_batches() -> None:
    assert list(numbers(5).batch(2).batch(2)) == [[[0, 1], [2, 3]], [[4]]]


def test_none_is_an_element_like_any_other() -> None:
    assert list(IterableWrapper([None] * 3).batch(2)) == [[None, None], [None]]


@pytest.mark.parametrize("mapped", [False, True])
def test_wrapper_class(mapped: bool) -> None:
    dp = numbers(3).map(lambda x: x) if mapped else numbers(3)
    assert list(dp.batch(2, wrapper_class=tuple)) == [(0, 1), (2,)]


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused_with_the_call(size: int) -> None:
    message = rf"Batch size is required to be larger than 0, in \.batch\({size}\)"
    with pytest.raises(BadArgument, match=message):
        numbers(1).batch(size)
    with pytest.raises(AssertionError, match=message):  # as torchdata's users catch it
        numbers(1).batch(size)


def test_so_does_one_in_a_stage_with_a_position() -> None:
    dp = numbers(6).map(failing_at(1)).enumerate().batch(2)
    assert outcomes(dp) == ["ValueError: 1 is bad", [(0, 0), (1, 2)], [(2, 3), (3, 4)], [(4, 5)]]


def test_a_wrapper_that_raises_has_consumed_its_batch() -> None:
    dp = numbers(5).batch(2, wrapper_class=lambda batch: failing_at(0)(batch[0]))
    assert outcomes(dp) == ["ValueError: 0 is bad", 2, 4]


def test_a_stray_stop_is_no_end() -> None:
    def stop_at_two(batch: list[int]) -> list[int]:
        if batch[0] == 2:
            raise StopIteration
        return batch

    assert outcomes(numbers(5).batch(2, wrapper_class=stop_at_two)) == [[0, 1], STRAY_STOP, [4]]
