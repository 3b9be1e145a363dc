"""mux takes turns among its inputs in whole rounds, mux_longest up to the last element.

An input that fails keeps its turn and costs no other element.
"""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.iter import IterableWrapper, Multiplexer, MultiplexerLongest
from datapipes.map import SequenceWrapper
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import failing_at, outcomes


def numbers(start: int, stop: int) -> IterableWrapper[int]:
    return IterableWrapper(range(start, stop))


def test_turns_up_to_the_shortest() -> None:
    dp = numbers(0, 3).mux(numbers(10, 12), numbers(20, 29))
    assert isinstance(dp, Multiplexer)
    assert list(dp) == list(dp) == [0, 10, 20, 1, 11, 21]
    assert len(dp) == 6
    assert list(numbers(0, 3).mux()) == [0, 1, 2]


def test_an_empty_input_ends_it() -> None:
    dp = numbers(0, 3).mux(numbers(0, 0))
    assert (list(dp), len(dp)) == ([], 0)


def test_none_is_an_element_like_any_other() -> None:
    assert list(IterableWrapper([None, 1]).mux(IterableWrapper([2, None]))) == [None, 2, 1, None]


def test_plain_iterables_and_map_style_pipes_are_inputs_too() -> None:
    mapped: Any = SequenceWrapper((5, 6))
    assert list(Multiplexer([0, 1], "ab", mapped)) == [0, "a", 5, 1, "b", 6]


def test_refused_inputs() -> None:
    number: Any = 5
    with pytest.raises(BadArgumentType, match="needs an iterable, got int: 5"):
        numbers(0, 1).mux(number)
    with pytest.raises(BadArgument, match="Expected at least one DataPipe"):
        Multiplexer()


@pytest.mark.parametrize("bad", [0, 1, 11, 22])
def test_an_input_that_raises_keeps_its_turn(bad: int) -> None:
    inputs = [numbers(start, start + 3).map(failing_at(bad)) for start in (0, 10, 20)]
    found = outcomes(inputs[0].mux(*inputs[1:]))
    assert [x for x in found if isinstance(x, str)] == [f"ValueError: {bad} is bad"]
    turns = [[x for x in range(start, start + 3) if x != bad] for start in (0, 10, 20)]
    assert [x for x in found if isinstance(x, int)] == [x for turn in zip(*turns, strict=False) for x in turn]


def test_an_error_below_leaves_the_rest_of_the_round() -> None:
    dp = numbers(0, 2).mux(numbers(10, 12)).map(failing_at(0, 11))
    assert outcomes(dp) == ["ValueError: 0 is bad", 10, 1, "ValueError: 11 is bad"]


def test_a_round_under_way_is_remembered_by_a_state() -> None:
    dp = numbers(0, 3).mux(numbers(10, 13).map(failing_at(11)))
    it: Any = iter(dp)
    assert [next(it), next(it)] == [0, 10]
    with pytest.raises(ValueError, match="11 is bad"):
        next(it)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert list(again) == list(it) == [1, 12]


def test_the_longest_goes_on_alone() -> None:
    dp = numbers(0, 3).mux_longest(numbers(10, 11), [], numbers(20, 25))
    assert list(dp) == list(dp) == [0, 10, 20, 1, 21, 2, 22, 23, 24]
    assert len(dp) == 9
    assert repr(numbers(0, 1).mux_longest(numbers(2, 3))) == (
        "IterableWrapper(range(0, 1)).mux_longest(IterableWrapper(range(2, 3)))"
    )
    assert list(IterableWrapper([None]).mux_longest([None, 1])) == [None, None, 1]


def test_length_of_an_unsized_input_of_mux_longest() -> None:
    dp = numbers(0, 2).mux_longest(numbers(0, 2).filter(lambda x: True))
    with pytest.raises(TypeError, match=r"^MultiplexerLongest instance doesn't have valid length: \.mux_longest\("):
        len(dp)
    with pytest.raises(BadArgument, match="Expected at least one DataPipe"):
        MultiplexerLongest()


@pytest.mark.parametrize("bad", [0, 1, 11, 20])
def test_an_input_that_raises_keeps_its_turn_in_mux_longest(bad: int) -> None:
    inputs = [numbers(start, start + n).map(failing_at(bad)) for start, n in ((0, 3), (10, 2), (20, 1))]
    found = outcomes(inputs[0].mux_longest(*inputs[1:]))
    assert [x for x in found if isinstance(x, str)] == [f"ValueError: {bad} is bad"]
    others = [[x for x in range(start, start + n) if x != bad] for start, n in ((0, 3), (10, 2), (20, 1))]
    assert [x for x in found if isinstance(x, int)] == list(IterableWrapper(others[0]).mux_longest(*others[1:]))


@pytest.mark.parametrize("live", [None, [3], [0, 0], [1, 0, 2], [0, 2, 1], ["0"], [-1]])
def test_turns_that_cannot_be_are_refused(live: Any) -> None:
    dp = numbers(0, 3).mux_longest("abc", "def")
    it: Any = iter(dp)
    assert next(it) == 0
    state = it.state_dict()
    place = next(place for place, cell in state["cells"].items() if type(cell) is list)
    assert state["cells"][place] == [1, 2, 0]
    state["cells"][place] = live
    with pytest.raises(StateError, match="does not fit stage"):
        iter(dp).load_state_dict(sealed(state))  # type: ignore[attr-defined]  # a PipeIterator
