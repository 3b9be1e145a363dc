"""demux gives each element to one child; an error is raised once, and every child gets the rest."""

from __future__ import annotations

from time import monotonic
from typing import Any

import numpy as np
import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper
from datapipes.iter.combining.hub import HubCell
from datapipes.iter.combining.spill import BufferBounds, SpillQueue
from tests.datapipes.iter.mishaps import STRAY_STOP, failing_at, outcomes, stopping_at

BAD = "ValueError: 2 is bad"


def numbers(count: int, *bad: int) -> Any:
    return IterableWrapper(range(count)).map(failing_at(*bad)) if bad else IterableWrapper(range(count))


def odd(x: int) -> int:
    return x % 2


def test_sends_each_element_to_one_child() -> None:
    even, odds = numbers(5).demux(2, odd)
    assert (list(even), list(odds)) == ([0, 2, 4], [1, 3])
    assert list(even.zip(odds)) == [(0, 1), (2, 3)]
    assert list(odds.concat(even)) == [1, 3, 0, 2, 4]
    a, b = numbers(0).demux(2, odd)
    assert list(a.concat(b)) == []


def test_a_child_may_be_read_in_several_places() -> None:
    a, b = numbers(6).demux(2, odd)
    assert list(a.zip(a, b)) == [(0, 0, 1), (2, 2, 3), (4, 4, 5)]
    assert list(a.concat(a)) == [0, 2, 4] * 2


@pytest.mark.parametrize("answer", [True, np.int64(1)])
def test_takes_any_whole_number(answer: Any) -> None:
    a, b = IterableWrapper([None, 5]).demux(2, lambda x: answer)
    assert (list(a), list(b)) == ([], [None, 5])


@pytest.mark.parametrize("answer", [2, -1, "0", 0.5, None])
def test_refuses_any_other_answer(answer: Any) -> None:
    a, _ = numbers(1).demux(2, lambda x: answer)
    with pytest.raises(ValueError, match="Output of the classification fn should be between 0 and 1, got") as caught:
        list(a)
    assert ("drop_none=True" in str(caught.value)) == (answer is None)


def test_drops_none_if_told_to() -> None:
    a, b = numbers(6).demux(2, lambda x: None if x < 2 else odd(x), drop_none=True)
    assert list(a.zip(b)) == [(2, 3), (4, 5)]


def test_refuses_arguments_with_the_call() -> None:
    with pytest.raises(BadArgument, match=r"Expected `num_instances` larger than 0, got 0, in \.demux\(0, <odd at"):
        numbers(1).demux(0, odd)
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by demux\(\), got int: 3"):
        numbers(1).demux(2, 3)
    with pytest.warns(UserWarning, match="Unlimited buffer size is set for `demux`"):
        numbers(1).demux(2, odd, buffer_size=-1)


def test_keeps_what_waits_for_others_up_to_its_buffer() -> None:
    a, b = numbers(5).demux(2, lambda x: int(x >= 4), buffer_size=4)
    assert list(iter(b.header(1).concat(a))) == [4, 0, 1, 2, 3]
    a, b = numbers(10).demux(2, lambda x: int(x >= 4), buffer_size=3)
    it = iter(b.concat(a))
    for _ in range(2):
        with pytest.raises(BufferError, match=r"demux buffer overflow: .* and child 0 lags behind by 4 elements"):
            next(it)


def test_keeps_nothing_for_a_child_that_nobody_reads() -> None:
    _, b = numbers(5000).demux(2, lambda x: int(x == 4999), buffer_size=0)
    assert list(b) == [4999]


def test_a_stray_stop_is_no_end() -> None:
    check = stopping_at(2)
    a, b = numbers(5).demux(2, lambda x: odd(check(x)))
    assert outcomes(a.concat(b)) == [0, STRAY_STOP, 4, 1, 3]


@pytest.mark.parametrize("bounds", [{}, {"buffer_bytes": 1 << 20}])
@pytest.mark.parametrize("deal", ["demux", "round_robin_demux"])
def test_what_an_element_costs_does_not_hang_on_the_number_of_children(
    monkeypatch: pytest.MonkeyPatch, deal: str, bounds: dict[str, int]
) -> None:
    """Counted in looks at queues, of which children that are read one after the other have many elements."""

    def looks(children: int, elements: int = 400) -> int:
        count = 0

        class Watched(SpillQueue):
            def __len__(self) -> int:
                nonlocal count
                count += 1
                return super().__len__()

        def watched(queues: HubCell) -> Watched:
            return Watched(queues._room or BufferBounds(1000, None, None, ""))

        with monkeypatch.context() as patched:
            patched.setattr(HubCell, "_new_queue", watched)
            several = dealt(deal, numbers(elements), children, **bounds)
            assert sorted(several[0].concat(*several[1:])) == list(range(elements))
        return count - 3 * children  # at its end

    assert looks(100) <= 1.5 * looks(4)


@pytest.mark.parametrize("deal", ["demux", "round_robin_demux"])
def test_a_thousand_children(deal: str) -> None:
    began = monotonic()
    several = dealt(deal, numbers(20_000), 1000)
    assert list(several[0].zip(*several[1:])) == [tuple(range(i, i + 1000)) for i in range(0, 20_000, 1000)]
    assert monotonic() - began < 20, "it takes a fraction of a second, and hours if children ask all children"


def dealt(deal: str, source: Any, children: int, **bounds: Any) -> list[Any]:
    """The children of a demux that deals in turn, or of a round_robin_demux."""
    arguments = [children] if deal == "round_robin_demux" else [children, lambda x: x % children]
    return list(getattr(source, deal)(*arguments, **bounds))


def test_the_bound_holds_behind_a_position_and_an_error() -> None:
    a, b = numbers(20, 2).demux(2, lambda x: int(x >= 8), buffer_size=6)
    it: Any = iter(b.header(1).concat(a))
    with pytest.raises(ValueError, match="2 is bad"):
        next(it)
    again: Any = iter(b.header(1).concat(a))
    again.load_state_dict(it.state_dict())
    for resumed in (it, again):
        with pytest.raises(BufferError, match="child 0 lags behind by 7 elements"):
            next(resumed)
