"""shuffle hands on every element once, in a random order within its buffer, and loses none to a failure."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from itertools import chain, permutations
from typing import Any

import pytest
import torch

from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper, Shuffler
from datapipes.iter.grouping import shuffle
from datapipes.iter.grouping.shuffle import _ShuffleCell
from datapipes.position.iterator import iterate
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.datapipes.iter.mishaps import failing_at, outcomes


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


@pytest.mark.parametrize("count", [0, 1, 3, 20])
@pytest.mark.parametrize("buffer_size", [1, 2, 3, 19, 20, 21, 10_000])
def test_every_element_comes_once(count: int, buffer_size: int) -> None:
    dp = numbers(count).shuffle(buffer_size=buffer_size)
    assert isinstance(dp, Shuffler)
    assert sorted(dp) == list(range(count))
    assert len(dp) == count


def test_a_buffer_of_one_keeps_the_order() -> None:
    assert list(numbers(20).shuffle(buffer_size=1)) == list(range(20))


def test_no_element_comes_before_it_could_be_in_the_buffer() -> None:
    order = list(numbers(10_000).shuffle(buffer_size=5).set_seed(3))
    assert all(element <= position + 5 for position, element in enumerate(order))
    assert order != list(range(10_000))


def test_all_orders_are_equally_likely() -> None:
    dp = numbers(3).shuffle()
    seen = Counter(tuple(dp.set_seed(seed)) for seed in range(1200))
    assert set(seen) == set(permutations(range(3)))
    assert min(seen.values()) > 150  # 200 each is what to expect; 150 is four standard deviations off


def test_none_is_an_element_like_any_other() -> None:
    assert Counter(IterableWrapper([None, 1, None]).shuffle(buffer_size=2)) == Counter([None, 1, None])


def test_without_a_seed_torch_decides() -> None:
    dp = numbers(50).shuffle()
    torch.manual_seed(1)
    first, second = list(dp), list(dp)
    assert first != second
    torch.manual_seed(1)
    assert [list(dp), list(dp)] == [first, second]


def test_switched_off_it_hands_on_as_it_comes() -> None:
    dp = numbers(20).shuffle()
    assert list(dp.set_shuffle(False)) == list(range(20))
    assert list(dp.set_shuffle().set_seed(1)) != list(range(20))


def test_unbatch_level_takes_batches_apart_first() -> None:
    dp = numbers(20).batch(2).batch(2).shuffle(unbatch_level=2)
    assert sorted(dp) == list(range(20))
    assert sorted(numbers(6).batch(2).shuffle(unbatch_level=1)) == list(range(6))
    with pytest.raises(TypeError, match=r"^Shuffler instance doesn't have valid length: \.shuffle\("):
        len(dp)


@pytest.mark.parametrize("size", [0, -1])
def test_a_buffer_below_one_is_refused_with_the_call(size: int) -> None:
    with pytest.raises(BadArgument, match=rf"should be larger than 0, in \.shuffle\(buffer_size={size}\)"):
        numbers(1).shuffle(buffer_size=size)


@pytest.mark.parametrize("after", [0, 1, 5, 8])
def test_a_state_taken_after_an_error_goes_on_alike(after: int) -> None:
    dp = numbers(10).map(failing_at(4)).shuffle(buffer_size=3).set_seed(1)
    it: Any = iter(dp)
    assert next(it) in range(3)
    with pytest.raises(ValueError, match="4 is bad"):  # behind the three in the buffer, and one handed on
        next(it)
    for _ in range(after):
        next(it)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert list(again) == list(it)


def test_many_errors_lose_nothing_either() -> None:
    bad = [0, 1, 4, 5, 8, 9]
    found = outcomes(numbers(10).map(failing_at(*bad)).shuffle(buffer_size=2))
    assert sorted(map(str, found)) == sorted([f"ValueError: {x} is bad" for x in bad] + list("2367"))


@pytest.mark.parametrize("taken", [0, 1, 69, 70, 71, 500, 4166, 4167, 20_000, 70_001])
@pytest.mark.parametrize("buffer_size", [1, 2, 70])
def test_what_is_in_the_buffer_follows_from_the_count(buffer_size: int, taken: int) -> None:
    cell = _ShuffleCell(numbers(100_000).shuffle(buffer_size=buffer_size), seed=7)
    buffer, slots = list(range(min(taken, buffer_size))), chain.from_iterable(iter(cell.slots, None))
    for element in range(buffer_size, taken):
        buffer[next(slots)] = element
    assert cell._positions(taken) == buffer


@pytest.mark.parametrize("buffer_size", [1, 100, 10_000])
def test_going_on_draws_about_the_buffer_anew_and_not_the_past(
    monkeypatch: pytest.MonkeyPatch, buffer_size: int
) -> None:
    blocks = 0
    drawn = shuffle._slots

    def counted(seed: int, size: int, block: int) -> torch.Tensor:
        nonlocal blocks
        blocks += 1
        return drawn(seed, size, block)

    monkeypatch.setattr(shuffle, "_slots", counted)
    dp = numbers(10**9).shuffle(buffer_size=buffer_size).set_seed(1)
    it: Any = iter(dp)
    next(it)
    state = it.state_dict()
    for cell in state["cells"].values():
        if isinstance(cell, dict):
            cell["taken"] = 10**9
    again: Any = iter(dp)
    again.load_state_dict(sealed(state))
    next(again)
    assert blocks < 3 + 25 * buffer_size / 4096, "on average 10,000 slots take 98,000 draws"


def test_passes_of_one_seed_differ_and_are_repeated_by_it() -> None:
    pipe = numbers(20).shuffle().set_seed(1)
    passes = [list(pipe), list(pipe.map(int)), list(pipe)]
    assert passes[0] != passes[1] != passes[2] != passes[0]
    assert [list(pipe.set_seed(1)), list(pipe)] == passes[:2]
    twins = copy.copy(pipe), copy.deepcopy(pipe), pickle.loads(pickle.dumps(pipe))
    assert [list(twin) for twin in twins] == [passes[0]] * 3
    with DataLoader2(pipe) as dl:
        assert [list(dl) for _ in range(3)] == passes
    assert list(pipe) == passes[2]


def test_a_pass_is_counted_when_its_first_element_is_asked_for() -> None:
    pipe = numbers(20).shuffle().set_seed(1)
    passes = [list(pipe) for _ in range(4)]
    pipe.set_seed(1)
    late, left, first = iter(pipe), iter(pipe), iter(pipe)
    begun = [next(first)]
    assert [next(left)] == passes[1][:1]
    assert list(late) == passes[2]
    assert begun + list(first) == passes[0]
    again = iterate(numbers(20).shuffle().set_seed(1))
    again.load_state_dict(iterate(pipe).state_dict())  # which counts as well
    assert list(again) == passes[3]
