"""in_batch_shuffle changes the order within batches, by the seed and the batch's number, and nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
import torch

from datapipes.elements.chunk import DataChunk
from datapipes.graph import apply_shuffle_settings
from datapipes.iter import IterableWrapper
from tests.datapipes.iter.mishaps import failing_at, outcomes


def test_each_batch_keeps_its_elements() -> None:
    dp = IterableWrapper(range(100)).batch(30).in_batch_shuffle().set_seed(3)
    batches = list(dp)
    assert [sorted(batch) for batch in batches] == list(IterableWrapper(range(100)).batch(30))
    assert {type(batch) for batch in batches} == {DataChunk}
    assert batches[0] != sorted(batches[0])
    assert [x - 30 for x in batches[1]] != batches[0], "each batch has an order of its own"
    assert len(dp) == 4


def test_any_sequence_is_a_batch() -> None:
    found = list(IterableWrapper(["abc", range(3), (), torch.arange(3)]).in_batch_shuffle())
    assert sorted(found[0]) == ["a", "b", "c"]
    assert sorted(found[1]) == [0, 1, 2]
    assert found[2] == []
    assert sorted(map(int, found[3])) == [0, 1, 2]
    with pytest.raises(TypeError, match="len"):
        list(IterableWrapper([3]).in_batch_shuffle())


def test_all_orders_are_equally_likely() -> None:
    dp = IterableWrapper([[0, 1, 2]]).in_batch_shuffle()
    seen = Counter(tuple(dp.set_seed(seed).__iter__().__next__()) for seed in range(1200))
    assert set(seen) == set(permutations(range(3)))
    assert min(seen.values()) > 150


def test_switched_off_the_batches_are_those_that_came() -> None:
    batches = [[1, 2, 3], "abc"]
    dp = IterableWrapper(batches, deepcopy=False).in_batch_shuffle()
    assert all(found is batch for found, batch in zip(dp.set_shuffle(False), batches, strict=True))
    apply_shuffle_settings(dp, shuffle=True)
    assert type(next(iter(dp))) is DataChunk


def test_a_batch_that_failed_changes_no_other() -> None:
    def checked(batch: list[int]) -> list[int]:
        failing_at(4)(batch[0])
        return batch

    good = list(IterableWrapper([[0, 1, 2, 3], [8, 9, 10, 11]]).in_batch_shuffle().set_seed(2))
    found = outcomes(IterableWrapper(range(12)).batch(4).map(checked).in_batch_shuffle().set_seed(2))
    assert found == [good[0], "ValueError: 4 is bad", good[1]]
