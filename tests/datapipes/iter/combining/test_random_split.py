"""random_split gives each element to one child, as many as were asked for, and alike wherever it is asked."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.iter import IterableWrapper, SplitterIterator
from datapipes.position.plain_data import sealed
from datapipes.position.seeds import derive
from loader2 import DataLoader2
from tests.datapipes.iter.mishaps import failing_at, outcomes

HALVES = {"a": 0.5, "b": 0.5}


def split(length: int, weights: dict[Any, float], seed: int = 0, **rest: Any) -> Any:
    return IterableWrapper(range(length)).random_split(weights, seed, **rest)


def naive(length: int, weights: dict[Any, float], seed: int) -> dict[Any, list[int]]:
    """The rule, in exact fractions: draw by what is left, take one away, share out anew what went below nothing."""
    exact = {key: Fraction(repr(float(weight))) for key, weight in weights.items()}
    left = {key: weight * length / sum(exact.values()) for key, weight in exact.items()}
    given: dict[Any, list[int]] = {key: [] for key in weights}
    drawn: list[float] = []
    for number in range(length):
        if number % 4096 == 0:
            generator = torch.Generator().manual_seed(derive("random_split", seed, number // 4096))
            drawn += torch.rand(min(4096, length - number), dtype=torch.float64, generator=generator).tolist()
        point = Fraction(drawn[number]) * (length - number)
        key = next(key for key in left if (point := point - left[key]) < 0)
        given[key].append(number)
        left[key] -= 1
        if left[key] < 0:
            left[key] = Fraction(0)
            whole = sum(left.values())
            left = {key: share * (length - number - 1) / whole if whole else share for key, share in left.items()}
    return given


WEIGHTS = st.lists(st.one_of(st.integers(1, 5), st.floats(0.01, 10)), min_size=1, max_size=5).map(
    lambda weights: {f"key {i}": weight for i, weight in enumerate(weights)}
)


@given(st.integers(0, 120), WEIGHTS, st.integers(0, 2**64))
def test_it_deals_as_the_rule_says(length: int, weights: dict[Any, float], seed: int) -> None:
    children = split(length, weights, seed)
    found = {child.target: list(child) for child in children}
    assert found == naive(length, weights, seed)
    assert sorted(x for given in found.values() for x in given) == list(range(length))
    for child in children:
        try:
            known = len(child)
        except TypeError:
            continue
        assert known == len(found[child.target])


@given(st.integers(1, 60), WEIGHTS, st.data())
def test_it_goes_on_wherever_it_was_saved(length: int, weights: dict[Any, float], data: st.DataObject) -> None:
    dp = split(length, weights)[0]
    whole, it = list(dp), iter(dp)
    k = data.draw(st.integers(0, len(whole)))
    assert [next(it) for _ in range(k)] == whole[:k]
    again: Any = iter(dp)
    again.load_state_dict(pickle.loads(pickle.dumps(it.state_dict())))
    assert list(again) == list(it) == whole[k:]


def test_it_deals_alike_across_blocks_of_draws() -> None:
    weights, length = {"a": 0.3, "b": 0.7}, 9001
    expected = naive(length, weights, 5)
    a, b = split(length, weights, 5)
    assert (list(a), list(b)) == (expected["a"], expected["b"])
    it: Any = iter(b)
    taken = [next(it) for _ in range(5000)]
    state = it.state_dict()
    again: Any = iter(split(length, weights, 5, target="b"))
    again.load_state_dict(state)
    assert [*taken, *again] == expected["b"]


def test_whole_shares_are_kept_exactly() -> None:
    several: list[dict[Any, float]] = [{"a": 0.57, "b": 0.43}, {"a": 57, "b": 43}, {"a": 0.1, "b": 0.2, "c": 0.7}]
    for weights in several:
        children = split(1000, weights)
        whole = sum(weights.values())
        assert [len(child) for child in children] == [round(1000 * w / whole) for w in weights.values()]
        assert [len(list(child)) for child in children] == [len(child) for child in children]


def test_children_may_be_read_side_by_side_or_one_after_another() -> None:
    a, b = split(10, HALVES)
    one, other = list(a), list(b)
    assert list(a.mux_longest(b)) == list(IterableWrapper(one).mux_longest(other))
    x, y = iter(a), iter(b)
    assert [z for _ in range(5) for z in (next(x), next(y))] == [z for row in zip(one, other, strict=True) for z in row]


def test_a_target_is_one_of_the_children_and_epochs_are_alike() -> None:
    a, b = split(10, HALVES, 3)
    alone = split(10, HALVES, 3, target="b")
    assert isinstance(alone, SplitterIterator)
    loader: DataLoader2[Any] = DataLoader2(alone)
    assert list(loader) == list(loader) == list(b)
    assert (a.target, b.target) == ("a", "b")
    assert a.main_datapipe is b.main_datapipe


def test_another_seed_is_one_for_all_children() -> None:
    a, b = split(40, HALVES, 1)
    before, it = list(a), iter(a)
    assert next(it) == before[0]
    assert b.override_seed(2) is b
    assert [before[0], *it] == before, "an iteration under way goes on as it began"
    assert list(a) == list(split(40, HALVES, 2, target="a")) != before
    assert sorted([*a, *b]) == list(range(40))


def test_copies_know_their_length() -> None:
    a, b = pickle.loads(pickle.dumps(split(10, HALVES)))
    assert (len(a), len(b), len(list(a)) + len(list(b))) == (5, 5, 10)


def test_a_length_that_depends_on_the_draws_is_not_known() -> None:
    a, _ = split(7, HALVES)
    with pytest.raises(TypeError, match="cannot be known in advance"):
        len(a)
    assert len(list(a)) in (3, 4)


def test_a_source_that_is_longer_than_was_said_is_an_error() -> None:
    a = split(10, HALVES, total_length=6, target="a")
    found = outcomes(a)
    assert found[:3] == list(split(6, HALVES, target="a"))
    assert len(found) == 7
    assert all("has more elements than the 6 of the split: give its length as total_length" in x for x in found[3:])


def test_a_source_may_be_shorter() -> None:
    children = split(4, HALVES, total_length=10)
    assert sorted(x for child in children for x in child) == [0, 1, 2, 3]


def test_elements_that_fail_are_dealt_to_nobody() -> None:
    def children(*bad: int) -> Any:
        kept = [x for x in range(12) if bad or x not in (3, 8)]
        return IterableWrapper(kept).map(failing_at(*bad)).random_split(HALVES, 0, total_length=12)

    for with_errors, without in zip(children(3, 8), children(), strict=True):
        found = outcomes(with_errors)
        assert [x for x in found if type(x) is str] == ["ValueError: 3 is bad", "ValueError: 8 is bad"]
        assert [x for x in found if type(x) is int] == list(without)


def test_refused_arguments() -> None:
    source = IterableWrapper(range(10))
    for weight in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadArgument, match="the weight of 'b' must be positive and finite"):
            source.random_split({"a": 1, "b": weight}, 0)
    with pytest.raises(BadArgument, match="`weights` is empty"):
        source.random_split({}, 0)
    with pytest.raises(BadArgument, match="must not be negative"):
        source.random_split(HALVES, 0, total_length=-1)
    with pytest.raises(BadArgumentType, match="needs `total_length`"):
        source.filter(bool).random_split(HALVES, 0)
    with pytest.raises(KeyError, match="'c' does not match any key"):
        source.random_split(HALVES, 0, target="c")


def test_a_source_in_random_order_is_warned_about() -> None:
    shuffled = IterableWrapper(range(10)).shuffle()
    with pytest.warns(UserWarning, match=r"\.shuffle\(\) above it changes their order from epoch to epoch") as caught:
        shuffled.map(str).random_split(HALVES, 0)
    assert caught[0].filename == __file__
    shuffled.set_shuffle(False).random_split(HALVES, 0)


def test_a_shuffle_of_a_part_is_saved_as_positions() -> None:
    shuffled = split(1000, {"a": 3, "b": 1})[0].shuffle(buffer_size=100)
    it: Any = iter(shuffled)
    next(it)
    state = it.state_dict()
    assert len(pickle.dumps(state)) < 1000
    again: Any = iter(shuffled)
    again.load_state_dict(state)
    assert list(again) == list(it)


def test_a_count_past_the_end_is_refused() -> None:
    a = split(10, HALVES, target="a")
    it: Any = iter(a)
    state = it.state_dict()
    state["cells"] = {place: 11 if place == max(state["cells"]) else cell for place, cell in state["cells"].items()}
    with pytest.raises(StateError, match="11 is past the end, there are 10"):
        iter(a).load_state_dict(sealed(state))


def test_their_repr_makes_them() -> None:
    b = split(10, HALVES, target="b")
    assert repr(b) == "IterableWrapper(range(0, 10)).random_split({'a': 0.5, 'b': 0.5}, 0, total_length=10)[1]"
