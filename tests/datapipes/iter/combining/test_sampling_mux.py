"""SampleMultiplexer draws inputs by weight, in an order that follows from the seed and can be had again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.graph import apply_random_seed
from datapipes.iter import IterableWrapper, SampleMultiplexer
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.datapipes.iter.mishaps import failing_at, outcomes


def letter(x: str, times: int) -> Any:
    return IterableWrapper([x] * times)


def test_every_element_comes_once_and_in_its_order() -> None:
    dp = SampleMultiplexer({IterableWrapper(range(50)): 3, IterableWrapper(range(100, 120)): 1}, seed=0)
    found = list(dp)
    assert [x for x in found if x < 100] == list(range(50))
    assert [x for x in found if x >= 100] == list(range(100, 120))
    assert len(dp) == 70
    assert found != list(dp)
    assert found == list(dp.set_seed(0)), "the same seed, without a loader"


def test_weights_are_shares() -> None:
    dp = SampleMultiplexer({letter("a", 30_000): 0.6, letter("b", 30_000): 0.3, letter("c", 30_000): 0.1}, seed=1)
    first = Counter(list(dp)[:20_000])
    assert {x: round(n / 20_000, 2) for x, n in first.items()} == pytest.approx(
        {"a": 0.6, "b": 0.3, "c": 0.1}, abs=0.02
    )


def test_what_is_left_keeps_its_proportions() -> None:
    dp = SampleMultiplexer({letter("a", 1): 1000, letter("b", 30_000): 3, letter("c", 30_000): 1}, seed=1)
    found = Counter(list(dp)[1:20_001])
    assert found["b"] / 20_000 == pytest.approx(0.75, abs=0.02)


def test_a_seed_is_the_loaders_or_its_own() -> None:
    def first_epochs(dp: Any, seed: int) -> list[list[Any]]:
        loader: DataLoader2[Any] = DataLoader2(dp)
        loader.seed(seed)
        return [list(loader), list(loader)]

    def sampled(seed: int | None = None) -> SampleMultiplexer:
        return SampleMultiplexer({letter("a", 20): 1, letter("b", 20): 1}, seed=seed)

    one, other, again = first_epochs(sampled(), 1), first_epochs(sampled(), 2), first_epochs(sampled(), 1)
    assert one == again != other
    assert one[0] != one[1]
    pinned, pinned_too = first_epochs(sampled(5), 1), first_epochs(sampled().set_seed(5), 2)
    assert pinned == pinned_too
    assert pinned[0] != pinned[1]


def test_torchdatas_functions_find_it() -> None:
    import torch

    dp = SampleMultiplexer({letter("a", 20): 1, letter("b", 20): 1})
    orders = [list(apply_random_seed(dp, torch.Generator().manual_seed(seed))) for seed in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1]


def test_an_input_that_raises_costs_the_others_nothing() -> None:
    def sampled(*bad: int) -> SampleMultiplexer:
        kept = [x for x in range(20) if bad or x not in (4, 5)]
        return SampleMultiplexer({IterableWrapper(kept).map(failing_at(*bad)): 1, letter("b", 20): 1}, seed=3)

    found = outcomes(sampled(4, 5))
    assert [x for x in found if str(x).startswith("ValueError")] == ["ValueError: 4 is bad", "ValueError: 5 is bad"]
    assert [x for x in found if not str(x).startswith("ValueError")] == list(sampled())


def test_refused_arguments() -> None:
    with pytest.raises(BadArgument, match="Empty dictionary"):
        SampleMultiplexer({})
    for weight in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadArgument, match="Expecting a positive and finite weight, got"):
            SampleMultiplexer({letter("a", 1): weight})
    inputs: list[Any] = [[letter("a", 1)], {"a": 1}]
    for wrong in inputs:
        with pytest.raises(BadArgumentType):
            SampleMultiplexer(wrong)
    with pytest.raises(TypeError, match="SampleMultiplexer instance doesn't have valid length"):
        len(SampleMultiplexer({letter("a", 1).filter(bool): 1}))


def test_its_repr_is_the_call() -> None:
    dp = SampleMultiplexer({letter("a", 1): 2}, seed=3)
    assert repr(dp) == "SampleMultiplexer({IterableWrapper(['a']): 2}, seed=3)"


@pytest.mark.parametrize("saved", [None, {"drawn": -1, "live": [0]}, {"drawn": 0, "live": [1, 0]}, {"live": [0]}])
def test_a_position_that_cannot_be_is_refused(saved: Any) -> None:
    it: Any = iter(SampleMultiplexer({letter("a", 3): 1, letter("b", 3): 1}))
    next(it)
    state = it.state_dict()
    place = next(place for place, cell in state["cells"].items() if type(cell) is dict)
    state["cells"][place] = saved
    with pytest.raises(StateError, match="does not fit stage"):
        iter(SampleMultiplexer({letter("a", 3): 1, letter("b", 3): 1})).load_state_dict(sealed(state))  # type: ignore[attr-defined]  # a PipeIterator
