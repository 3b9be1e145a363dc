"""unbatch flattens lists, and only those, as many levels down as it is told."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.iter import IterableWrapper, UnBatcher
from tests.datapipes.iter.mishaps import outcomes

NESTED: list[Any] = [[[0, 1], [2]], [[3]], []]


@pytest.mark.parametrize(
    ("level", "elements"),
    [(0, NESTED), (1, [[0, 1], [2], [3]]), (2, [0, 1, 2, 3]), (-1, [0, 1, 2, 3])],
)
def test_levels(level: int, elements: list[Any]) -> None:
    dp = IterableWrapper(NESTED).unbatch(level)
    assert isinstance(dp, UnBatcher)
    assert list(dp) == list(dp) == elements


def test_all_levels_of_uneven_depth() -> None:
    assert list(IterableWrapper([[0, [1, [2]]], 3]).unbatch(-1)) == [0, 1, 2, 3]


def test_batches_come_apart() -> None:
    dp = IterableWrapper(range(5)).batch(2).batch(2)
    assert list(dp.unbatch()) == [[0, 1], [2, 3], [4]]
    assert list(dp.unbatch(2)) == [0, 1, 2, 3, 4]


def test_tuples_and_strings_are_elements() -> None:
    assert list(IterableWrapper([[(1, 2), "ab"], [None]]).unbatch(-1)) == [(1, 2), "ab", None]


def test_an_empty_source() -> None:
    assert list(IterableWrapper([]).unbatch()) == []


def test_a_level_too_deep_costs_its_own_element_only() -> None:
    found = outcomes(IterableWrapper([[[1]], [2], [[3]]]).unbatch(2))
    assert found == [1, "IndexError: unbatch_level 2 exceeds the depth of the batch, which is 1", 3]
    (error,) = outcomes(IterableWrapper([5]).unbatch())
    assert error == "IndexError: unbatch_level 1 exceeds the depth of the batch, which is 0"


def test_a_level_below_minus_one_is_an_error_of_the_iteration() -> None:
    dp = IterableWrapper([[1]]).unbatch(-2)
    with pytest.raises(ValueError, match="unbatch_level must be -1 or more, got -2"):
        list(dp)
