"""mix draws by weights that may change by the step, and ends with the first, with all, or once all have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes import iterate
from datapipes.errors import BadArgument, BadArgumentType, GraphError, LengthUnknown, StateError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, Mixer, SampleMultiplexer
from datapipes.operator_support.random_order import shares
from datapipes.position.plain_data import sealed
from datapipes.position.seeds import Run
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.specimens.specimen import numbers, unseekable

BY_STEP: dict[str, Callable[[int], float]] = {
    "one": lambda step: 1,
    "three": lambda step: 3,
    "late": lambda step: 0 if step < 4 else 2.5,
    "less and less": lambda step: max(0.25, 1 / (1 + step)),
}
GIVEN_AS: dict[str, Any] = {"one": 1, "three": 3.0, "late": {4: 2.5, 0: 0}, "less and less": BY_STEP["less and less"]}
STOPS: list[Literal["first", "all", "repeat"]] = ["first", "all", "repeat"]


def meant(inputs: list[list[Any]], weights: list[str], stop: str, draws: Iterator[float]) -> list[Any]:
    """What a mixture of whole lists is."""
    found: list[Any] = []
    live, at, ended = list(range(len(inputs))), [0] * len(inputs), set[int]()
    while len(live) > 1 or (live and stop == "repeat"):
        now = [BY_STEP[weights[i]](len(found)) for i in live]
        share = next(draws) * sum(now)
        which = next(i for n, i in enumerate(live) if share < sum(now[: n + 1]))
        if at[which] == len(inputs[which]):
            if stop == "first":
                return found
            if stop == "all" or not inputs[which]:
                live.remove(which)
            else:
                ended.add(which)
                at[which] = 0
            if stop == "repeat" and ended >= {*live}:
                return found
        if which in live:
            found.append(inputs[which][at[which]])
            at[which] += 1
    return found + [x for i in live for x in inputs[i][at[i] :]]


@given(
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from(list(BY_STEP))), min_size=1, max_size=3),
    st.sampled_from(STOPS),
    st.integers(0, 999),
    st.data(),
)
def test_a_mixture_wherever_it_is_resumed(
    drawn: list[tuple[int, str]], stop: Literal["first", "all", "repeat"], seed: int, data: st.DataObject
) -> None:
    weights = ["one", *(weight for _, weight in drawn[1:])]  # that of one is never 0
    inputs = [[100 * i + k for k in range(length)] for i, (length, _) in enumerate(drawn)]
    if any(weight == "late" for weight in weights):
        inputs[0] += range(-5, 0)  # and it lasts
    pipes: list[Pipe] = [
        IterableWrapper(each) if i else IterableWrapper(each).map(int) for i, each in enumerate(inputs)
    ]
    first, *others = pipes
    mixture = first.mix({p: GIVEN_AS[w] for p, w in zip(others, weights[1:], strict=True)}, stop=stop, seed=seed)
    expected = meant(inputs, weights, stop, shares(Run(0).pinned_seed(seed), 4096).following())
    iterator = iterate(mixture)
    behind = list(islice(iterator, data.draw(st.integers(0, len(expected)))))
    again = iterate(mixture)
    again.load_state_dict(iterator.state_dict())
    assert behind + list(again) == behind + list(iterator) == expected


def test_shares_change_with_the_step() -> None:
    a, b = IterableWrapper(["a"] * 9000), IterableWrapper(["b"] * 9000)
    found = list(islice(a.mix({b: {0: 0, 1000: 1, 3000: 9}}, seed=1), 5000))
    early, middle, late = Counter(found[:1000]), Counter(found[1000:3000]), Counter(found[3000:])
    assert early["b"] == 0
    assert middle["b"] / 2000 == pytest.approx(0.5, abs=0.05)
    assert late["b"] / 2000 == pytest.approx(0.9, abs=0.05)


def test_the_same_weights_draw_as_sample_multiplexer_does() -> None:
    a, b = numbers(50), unseekable(20)
    mixture = list(a.mix({a: 3, b: 1}, seed=4))
    assert mixture == list(SampleMultiplexer({a: 3, b: 1}, seed=4))
    assert mixture == list(Mixer(a, {b: 1}, weight=3, seed=4)) == list(a.mix({b: 1 / 3}).set_seed(4))


def test_one_that_begins_again_is_in_another_order() -> None:
    letters = IterableWrapper("abcdefgh").shuffle()
    found = [x for x in numbers(60).mix({letters: 1}, stop="repeat", seed=1) if isinstance(x, str)]
    laps = ["".join(found[i : i + 8]) for i in range(0, len(found) // 8 * 8, 8)]
    assert {"".join(sorted(lap)) for lap in laps} == {"abcdefgh"}
    assert len({*laps}) == len(laps) > 3


def test_lengths() -> None:
    a, b = numbers(5), numbers(3)
    assert len(a.mix({b: 2})) == len(list(a.mix({b: 2}))) == 8
    for stop in ("first", "repeat"):
        with pytest.raises(LengthUnknown, match="mix"):
            len(a.mix({b: 2}, stop=stop))


def test_what_is_refused() -> None:
    a, b = numbers(3), numbers(3)
    wrong: Any = [b]
    with pytest.raises(BadArgumentType, match=r"mix\(\) needs a dict of streams and their weights, got list"):
        a.mix(wrong)
    for weight in (0, -1, float("nan"), float("inf"), {0: 0}, {0: -1}):
        with pytest.raises(BadArgument, match="Expecting a positive and finite weight, got"):
            a.mix({b: weight})
    with pytest.raises(BadArgument, match=r"begin at step 0, got \{5: 1\}"):
        a.mix({b: {5: 1}})
    stop: Any = "last"
    with pytest.raises(BadArgument, match='stop must be "first", "all" or "repeat", got \'last\''):
        a.mix({b: 1}, stop=stop)
    with pytest.raises(BadArgument, match=r"not all are 0: at step 2 they are \[0, 0\]"):
        list(a.mix({a: {0: 1, 2: 0}, b: {0: 1, 2: 0}}, seed=1))
    left, right = numbers(3).fork(2)
    with pytest.raises(GraphError, match=r"put mix\(\) above the fork"):
        list(left.mix({b: 1}, stop="repeat").zip(right))


def negative(step: int) -> float:
    return 1 - step


def test_a_weight_that_cannot_be_is_said_where_it_is_met() -> None:
    with pytest.raises(BadArgument, match=r"none is below 0, .*: at step 2 they are \[1, -1\]"):
        list(numbers(9).mix({numbers(9): negative}, seed=1))


@pytest.mark.parametrize("laps", [None, [], [None, None]])
def test_a_position_that_cannot_be_is_refused(laps: Any) -> None:
    pipe = numbers(3).mix({numbers(2): 1}, stop="repeat")
    state = iterate(pipe).state_dict()
    (place,) = (place for place, cell in state["cells"].items() if type(cell) is dict)
    state["cells"][place]["laps"] = laps
    with pytest.raises(StateError, match="does not fit stage"):
        iterate(pipe).load_state_dict(sealed(state))


def sharded(of: int) -> Pipe:
    return numbers(of).sharding_filter().mix({unseekable(7).sharding_filter(): 2}, stop="repeat", seed=1)


def test_each_worker_mixes_its_shards() -> None:
    def loader() -> DataLoader2[Any]:
        return DataLoader2(sharded(40), reading_service=MultiProcessingReadingService(num_workers=2))

    with loader() as running, loader() as resumed:
        iterator = iter(running)
        behind = list(islice(iterator, 21))
        resumed.load_state_dict(running.state_dict())
        rest = list(iterator)
        assert list(resumed) == rest
    assert {*range(40)} <= {*behind, *rest}
