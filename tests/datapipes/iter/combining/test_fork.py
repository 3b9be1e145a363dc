"""fork gives every child every element, or its error; no child ends short and none gets out of step."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper
from datapipes.iter.combining import hub
from datapipes.iter.combining.hub import HubCell
from tests.datapipes.iter.mishaps import STRAY_STOP, failing_at, outcomes, stopping_at

BAD = "ValueError: 2 is bad"


def numbers(count: int, *bad: int) -> Any:
    return IterableWrapper(range(count)).map(failing_at(*bad)) if bad else IterableWrapper(range(count))


@pytest.mark.parametrize("children", [1, 2, 3])
def test_fork_is_a_list_of_streams_of_everything(children: int) -> None:
    forks = numbers(3).fork(children)
    assert isinstance(forks, list)
    assert [list(fork) for fork in forks] == [[0, 1, 2]] * children
    assert [len(fork) for fork in forks] == [3] * children
    first, *others = forks
    assert list(first.zip(*others)) == [(x,) * children for x in range(3)]


def test_fork_children_are_read_in_any_order() -> None:
    a, b = IterableWrapper([None, 1]).fork(2)
    assert list(a.concat(b)) == list(b.concat(a)) == [None, 1, None, 1]
    assert list(a) == list(a) == [None, 1]
    c, d = numbers(0).fork(2)
    assert list(c.zip(d)) == []


def test_a_child_may_be_read_in_several_places() -> None:
    a, b = numbers(3).fork(2)
    assert list(a.zip(a, b)) == [(x, x, x) for x in range(3)]
    joined = a.zip(b)
    assert list(joined.concat(joined)) == [(x, x) for x in range(3)] * 2
    assert list(joined.zip(joined)) == [((x, x), (x, x)) for x in range(3)]


def test_fork_refuses_arguments_with_the_call() -> None:
    with pytest.raises(BadArgument, match=r"Expected `num_instances` larger than 0, got 0, in \.fork\(0\)"):
        numbers(1).fork(0)
    with pytest.raises(
        BadArgument, match=r"copy must be None, 'shallow' or 'deep', got 'no', in \.fork\(2, copy='no'\)"
    ):
        numbers(1).fork(2, copy="no")


@pytest.mark.parametrize(("limit", "ahead"), [(1, 1), (4, 4)])
def test_fork_keeps_what_one_child_is_ahead_up_to_its_buffer(limit: int, ahead: int) -> None:
    a, b = numbers(9).fork(2, buffer_size=limit)
    assert list(a.header(ahead).concat(b.header(ahead))) == [*range(ahead)] * 2
    found = outcomes(a.header(ahead + 1).concat(b.header(2)), most=ahead + 3)
    assert found[:ahead] == list(range(ahead))
    assert all("fork buffer overflow" in error and "insufficient" in error for error in found[ahead:])
    assert len(found) == ahead + 3, "the overflow is there until the other child is read"


def test_fork_in_step_needs_a_buffer_of_one() -> None:
    a, b = numbers(4).fork(2, buffer_size=1)
    assert list(a.zip(b)) == [(x, x) for x in range(4)]
    a, b = numbers(4).fork(2, buffer_size=0)
    with pytest.raises(BufferError, match=r"fork buffer overflow: \.fork\(2, buffer_size=0\) keeps up to 0 elements"):
        list(a.zip(b))


def test_a_child_that_is_read_alone_needs_no_buffer() -> None:
    a, _ = numbers(5000).fork(2, buffer_size=0)
    assert sum(1 for _ in a) == 5000


def test_an_overflow_takes_nothing() -> None:
    a, b = numbers(5).fork(2, buffer_size=2)
    # The child that is read three times as often gets too far ahead, and raises.
    found = outcomes(b.mux(a.batch(3)), most=4)
    assert found[:2] == [0, [0, 1, 2]]
    assert ["buffer overflow" in str(x) for x in found[2:]] == [True, True]


def test_an_unlimited_buffer_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="Unlimited buffer size is set for `fork`") as caught:
        a, b = numbers(3000).fork(2, buffer_size=-1)
    assert caught[0].filename == __file__
    assert list(a.concat(b)) == [*range(3000)] * 2


@pytest.mark.parametrize(
    ("copy", "same_list", "same_inside"), [(None, True, True), ("shallow", False, True), ("deep", False, False)]
)
def test_copies(copy: str | None, same_list: bool, same_inside: bool) -> None:
    element = [["x"]]
    a, b, c = IterableWrapper([element], deepcopy=False).fork(3, copy=copy)
    ((x, y, z),) = a.zip(b, c)
    for one, other in ((x, y), (y, z), (x, z), (x, element), (y, element), (z, element)):
        assert (one is other, one[0] is other[0]) == (same_list, same_inside)


def test_children_stay_in_step_after_an_error() -> None:
    a, b, c = numbers(4, 2).fork(3)
    assert outcomes(a.zip(b, c)) == [(0, 0, 0), (1, 1, 1), BAD, BAD, BAD, (3, 3, 3)]
    a, b = numbers(4).fork(2)
    assert outcomes(a.zip(b.map(failing_at(2)))) == [(0, 0), (1, 1), BAD, (3, 3)]
    assert outcomes(a.map(failing_at(2)).zip(b)) == [(0, 0), (1, 1), BAD, (3, 3)]
    a, b = numbers(6, 2).fork(2)
    assert outcomes(a.batch(2).zip(b.batch(2))) == [([0, 1], [0, 1]), BAD, BAD, ([3, 4], [3, 4]), ([5], [5])]


def test_children_may_be_read_from_different_threads() -> None:
    a, b = numbers(3000).map(str).map(int).fork(2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert list(a.prefetch(40).zip(b.prefetch(50))) == [(x, x) for x in range(3000)]
    finally:
        sys.setswitchinterval(interval)


def test_errors_that_wait_in_threads_keep_the_children_in_step() -> None:
    a, b = numbers(60, 2).fork(2)
    found = outcomes(a.prefetch(3).zip(b.prefetch(5)))
    assert found == [(0, 0), (1, 1), BAD, BAD, *((x, x) for x in range(3, 60))]


def test_an_error_of_a_child_is_its_own_object_with_the_same_story() -> None:
    class Strange(Exception):
        def __init__(self, code: int, *, hint: str) -> None:  # cannot be made from its args
            super().__init__(f"code {code}")
            self.hint = hint

    def strange(x: int) -> int:
        raise FileNotFoundError(2, "No such file", "a.csv") if x else Strange(7, hint="twice")

    a, b = numbers(2).map(strange).fork(2)
    it = iter(a.concat(b))
    errors: list[Any] = []
    for _ in range(4):
        with pytest.raises((Strange, FileNotFoundError)) as caught:
            next(it)
        errors.append(caught.value)
    first, missing, again, missing_again = errors
    assert (type(again), str(again), again.hint) == (Strange, str(first), "twice")
    assert again is not first
    assert (type(missing_again), str(missing_again)) == (FileNotFoundError, str(missing))
    assert missing_again.filename == "a.csv"
    assert all("raised in stage .map(<strange at test_fork.py:" in error.__notes__[0] for error in errors)
    assert "in strange" in str(again.__cause__)  # as a text, because frames would keep the iterator
    assert "in strange" in str(missing_again.__cause__)


def test_a_copy_that_fails_comes_to_every_child() -> None:
    class Never:
        def __deepcopy__(self, memo: Any) -> None:
            raise ValueError("2 is bad")

    a, b = IterableWrapper([1, Never(), 3], deepcopy=False).fork(2, copy="deep")
    assert outcomes(a.concat(b)) == [1, BAD, 3] * 2


def test_an_interrupted_element_comes_again_for_both_children() -> None:
    interruptions = [KeyboardInterrupt()]

    def interrupted(x: int) -> int:
        if x == 1 and interruptions:
            raise interruptions.pop()
        return x

    a, b = numbers(3).map(interrupted).fork(2)
    it = iter(a.zip(b))
    assert next(it) == (0, 0)
    with pytest.raises(KeyboardInterrupt):
        next(it)
    assert list(it) == [(1, 1), (2, 2)]


def test_an_error_that_waits_for_a_child_is_remembered_by_a_state() -> None:
    a, b = numbers(5, 2).fork(2)
    dp = a.header(4).concat(b)
    it: Any = iter(dp)
    assert [next(it), next(it)] == [0, 1]
    with pytest.raises(ValueError, match="2 is bad"):
        next(it)
    assert next(it) == 3
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert outcomes(it) == [4, 0, 1, BAD, 3, 4]
    *others, error, last, very_last = outcomes(again)
    assert (others, last, very_last) == ([4, 0, 1], 3, 4)
    assert error == ("GraphError: .fork(2) met an error before its position was saved: ValueError: 2 is bad")


def test_a_stray_stop_above_a_fork_is_no_end() -> None:
    a, b = numbers(3).map(stopping_at(1)).fork(2)
    assert outcomes(a.concat(b)) == [0, STRAY_STOP, 2] * 2


def test_ctrl_c_that_leaves_the_lock_locked_does_not_stop_the_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Python 3.14, where it may come in the call that enters a ``with`` block."""
    hubs: list[HubCell] = []

    class Known(HubCell):
        def __init__(self, hub: Any) -> None:
            super().__init__(hub)
            hubs.append(self)

    monkeypatch.setattr(hub, "HubCell", Known)
    interruptions = [KeyboardInterrupt()]

    def once(x: int) -> int:
        if x == 2 and interruptions:
            raise interruptions.pop()
        return x

    a, b = numbers(5).map(once).fork(2)
    it = iter(a.zip(b))
    assert [next(it), next(it)] == [(0, 0), (1, 1)]
    with pytest.raises(KeyboardInterrupt):
        next(it)
    (cell,) = hubs
    assert cell.lock.acquire(blocking=False)
    assert list(it) == [(2, 2), (3, 3), (4, 4)]
