"""A random order that is computed where it is asked for: each number once, as a list has it, and none to be foreseen.

What is random is held against what is to be expected, in standard deviations.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import sqrt
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from datapipes.operator_support import random_order
from datapipes.operator_support.random_order import Permutation

LONG = [1 << 15, (1 << 15) + 1, 40_000, 1 << 16, (1 << 16) + 1, 100_003]


@pytest.fixture
def never_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short orders are networks, and their halves have several digits."""
    monkeypatch.setattr(random_order, "_SHORT", 0)
    monkeypatch.setattr(random_order, "_DIGIT", 3)
    monkeypatch.setattr(random_order, "_CHUNK", 50)


@pytest.mark.parametrize("length", LONG)
def test_each_number_comes_once(length: int) -> None:
    assert sorted(Permutation(length, seed=3)) == list(range(length))


@pytest.mark.usefixtures("never_laid_out")
@pytest.mark.parametrize("lengths", [range(1, 130), range(500, 530), range(1020, 1030), range(4090, 4100)])
def test_each_number_comes_once_in_networks_of_any_length(lengths: range) -> None:
    for length in lengths:
        assert sorted(Permutation(length, seed=length)) == list(range(length)), length


@pytest.mark.parametrize("length", [1 << 33, 10**12, (1 << 62) - 1, 1 << 62, (1 << 63) - 1])
def test_no_number_comes_twice_in_parts_of_the_longest(length: int) -> None:
    order = Permutation(length, seed=5)
    parts = [order[:9000], order[length // 2 : length // 2 + 9000], order[length - 9000 :], order[:: length // 9000]]
    positions = [position for part in parts for position in part._positions]
    numbers = [number for part in parts for number in part]
    assert len(set(numbers)) == len(set(positions))
    assert 0 <= min(numbers) < length // 1000
    assert length - length // 1000 < max(numbers) < length


slices = some.builds(slice, *3 * [some.one_of(some.none(), some.integers(-130, 130).filter(bool))])


@pytest.mark.usefixtures("never_laid_out")
@given(some.integers(0, 120), some.integers(0, 9), slices, slices)
def test_it_is_a_sequence_as_its_list_is(length: int, seed: int, one: slice, other: slice) -> None:
    order = Permutation(length, seed) if length else Permutation(1, seed)[1:]
    plain = list(order)
    assert list(order[one]) == plain[one]
    assert list(order[one][other]) == plain[one][other]
    assert [order[i] for i in range(-length, length)] == plain * 2
    assert (len(order[one]), 0 in order) == (len(plain[one]), bool(length))
    with pytest.raises(IndexError):
        order[length]


def test_chunks_end_where_they_may() -> None:
    order = Permutation(50_000, seed=1)
    plain = list(order)
    for part in (slice(8191, None), slice(None, None, -3), slice(8192, 16385), slice(5, 40_000, 7)):
        assert list(order[part]) == plain[part]


def test_none_and_one() -> None:
    assert list(Permutation(0, seed=1)) == []
    assert list(Permutation(1, seed=1)) == [0]


def test_all_orders_of_a_few_are_equally_likely() -> None:
    seen = Counter(tuple(Permutation(4, seed)) for seed in range(4800))
    assert len(seen) == 24
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 23 + 5 * sqrt(46)


def deviations(length: int, seed: int) -> dict[str, float]:
    """How far an order is from what a random one is expected to be, in standard deviations."""
    order = torch.tensor(list(Permutation(length, seed)))
    at = torch.arange(length)
    root = 1 << ((length - 1).bit_length() + 1) // 2
    distances = {apart: (order[apart:] - order[:-apart]) % length for apart in (1, 300, root)}
    coarse = order * 16 // length
    rises = int((order[1:] > order[:-1]).sum())
    return {
        "positions": uneven(at * 64 // length * 64 + order * 64 // length, 64 * 64),
        "last digits": uneven(at % 32 * 32 + order % 32, 32 * 32),
        "three in a row": uneven(coarse[:-2] * 256 + coarse[1:-1] * 16 + coarse[2:], 4096),
        "rises": (rises - (length - 1) / 2) / sqrt((length + 1) / 12),
        **{f"{apart} apart": uneven(found * 1000 // length, 1000) for apart, found in distances.items()},
    }


def uneven(cells: torch.Tensor, count: int) -> float:
    """Chi-square of how many are in each of so many cells."""
    expected = len(cells) / count
    chi = float(((torch.bincount(cells, minlength=count) - expected) ** 2 / expected).sum())
    return (chi - (count - 1)) / sqrt(2 * (count - 1))


@pytest.mark.parametrize("length", [66_000, 300_000])
def test_an_order_looks_random(length: int) -> None:
    for seed in range(3):
        found = deviations(length, seed)
        assert max(map(abs, found.values())) < 5, found


def test_a_network_of_half_as_many_rounds_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_order, "_ROUNDS", random_order._ROUNDS // 2)
    assert max(max(deviations(300_000, seed).values()) for seed in range(4)) > 10


@pytest.mark.parametrize("length", [50, 400])
def test_over_many_seeds_every_number_is_as_likely_at_every_place(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setattr(random_order, "_SHORT", 0)
    seeds = 1500
    orders = [list(Permutation(length, seed)) for seed in range(seeds)]
    fixed = sum(number == place for order in orders for place, number in enumerate(order))
    neighbours = sum(abs(a - b) == 1 for order in orders for a, b in pairwise(order))
    assert abs(fixed - seeds) < 5 * sqrt(seeds), "one on average"
    assert abs(neighbours - 2 * seeds * (length - 1) / length) < 5 * sqrt(2 * seeds), "two on average"
    for place in (0, 1, length // 2, length - 1):
        assert abs(uneven(torch.tensor([order[place] * 25 // length for order in orders]), 25)) < 5
    pairs = torch.tensor([order[0] * 5 // length * 5 + order[1] * 5 // length for order in orders])
    assert abs(uneven(pairs, 25)) < 5


def test_a_seed_is_one_order_and_another_is_another() -> None:
    def begins(length: int, seed: Any) -> tuple[int, ...]:
        return tuple(Permutation(length, seed)[:20])

    for length in (1000, 10**6, 10**12):
        assert begins(length, 7) == begins(length, 7)
        assert len({begins(length, seed) for seed in range(200)}) == 200
    assert begins(10**6, 7) != begins(10**6, 7 + (1 << 32)), "torch's generators do not tell these apart"
