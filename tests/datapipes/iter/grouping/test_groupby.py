"""groupby collects what has one key, makes room when its buffer is full, and says what it cannot hand on."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.elements.chunk import DataChunk
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, StateError, UnsavableElement
from datapipes.iter import Grouper, IterableWrapper
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import failing_at, outcomes


def itself(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({}, ["aaa", "bb", "c"]),
        ({"group_size": 2}, ["aa", "bb", "a", "c"]),
        ({"buffer_size": 3, "group_size": 3, "guaranteed_group_size": 2}, ["aa", "bb", "a", "c"]),
        ({"buffer_size": None}, ["aaa", "bb", "c"]),
        ({"buffer_size": 2}, ["a", "b", "a", "b", "a", "c"]),
        ({"buffer_size": 2, "group_size": 2, "drop_remaining": True}, ["c"]),
    ],
)
def test_groups_come_when_they_are_complete_or_must_make_room(options: dict[str, Any], groups: list[str]) -> None:
    found = list(IterableWrapper("ababac").groupby(itself, **options))
    assert ["".join(group) for group in found] == groups
    assert {type(group) for group in found} == {DataChunk}


def test_a_group_that_makes_room_keeps_its_own_key() -> None:
    found = list(IterableWrapper(["a1", "a2", "b1", "c1"]).groupby(lambda x: x[0], keep_key=True, buffer_size=3))
    assert found == [("a", ["a1", "a2"]), ("b", ["b1"]), ("c", ["c1"])]


def naive(elements: list[int], of: int, most: int, size: int | None, least: int | None) -> list[list[int]]:
    """The same, dropping what is too small, by a search of all groups for the biggest."""
    groups: dict[int, list[int]] = {}
    found = []
    for element in elements:
        groups.setdefault(element % of, []).append(element)
        if len(groups[element % of]) == size:
            found.append(groups.pop(element % of))
        elif sum(map(len, groups.values())) == most:
            biggest = groups.pop(max(groups, key=lambda key: len(groups[key])))
            if least is None or len(biggest) >= least:
                found.append(biggest)
    return found + list(groups.values())


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 40), max_size=80),
    st.integers(1, 40),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 12)),
    st.integers(1, 12),
)
def test_it_agrees_with_a_plain_search(
    elements: list[int], of: int, most: int, size: int | None, guaranteed: int
) -> None:
    size = None if size is None else min(size, most)
    least = None if size is None else min(guaranteed, size)
    dp = IterableWrapper(elements).groupby(
        lambda x: x % of, buffer_size=most, group_size=size, guaranteed_group_size=least, drop_remaining=True
    )
    assert list(dp) == naive(elements, of, most, size, least)


def test_many_keys_cost_no_search_of_all_groups() -> None:
    dp = IterableWrapper(range(30_000)).groupby(lambda x: x % 9_000, buffer_size=9_000, group_size=3)
    found = outcomes(dp, most=10)
    assert found[0].startswith("RuntimeError: Failed to group items")
    assert sum(map(len, IterableWrapper(range(30_000)).groupby(itself, buffer_size=9_000))) == 30_000


def test_a_group_too_small_is_an_error_that_costs_no_other() -> None:
    found = outcomes(IterableWrapper("abab").groupby(itself, buffer_size=2, group_size=2))
    assert found[0].startswith(
        "RuntimeError: Failed to group items: 2 elements wait in .groupby(<itself at test_groupby.py"
    )
    assert "with the key 'a', has 1 of 2; it is dropped" in found[0]
    assert "with the key 'b'" in found[1]
    assert "with the key 'a'" in found[2]
    assert found[3:] == [["b"]]


def test_a_state_after_such_an_error_goes_on_alike() -> None:
    dp = IterableWrapper("abcabbb").groupby(itself, buffer_size=3, group_size=3)
    it: Any = iter(dp)
    with pytest.raises(RuntimeError, match="Failed to group"):
        next(it)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert outcomes(again) == outcomes(it)


def test_a_function_that_raises_costs_its_element() -> None:
    dp = IterableWrapper(range(6)).groupby(lambda x: failing_at(3)(x) % 2, group_size=2)
    assert outcomes(dp) == [[0, 2], "ValueError: 3 is bad", [1, 5], [4]]


@pytest.mark.parametrize(
    "options",
    [
        {"group_size": 0},
        {"group_size": 11, "buffer_size": 10},
        {"guaranteed_group_size": 1},
        {"group_size": 3, "guaranteed_group_size": 4},
        {"group_size": 3, "guaranteed_group_size": 0},
        {"buffer_size": 0},
    ],
)
def test_sizes_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match=r"should be larger than 0.*, in \.groupby\("):
        IterableWrapper("a").groupby(itself, **options)


def test_a_key_function_is_needed() -> None:
    with pytest.raises(TypeError, match=r"A callable function is expected by groupby\(\)"):
        Grouper(IterableWrapper("a"), "key")  # type: ignore[arg-type]  # what is refused


def test_open_streams_that_are_dropped_are_closed() -> None:
    streams = [StreamWrapper(io.BytesIO(b"x"), name=str(i)) for i in range(3)]
    dp = IterableWrapper(streams, deepcopy=False).groupby(
        lambda stream: stream.name, buffer_size=2, group_size=2, drop_remaining=True
    )
    assert len(list(dp)) == 1
    assert [stream.closed for stream in streams] == [True, True, False]


def test_open_streams_are_taken_anew_unless_one_has_failed() -> None:
    def opened(number: int) -> StreamWrapper:
        return StreamWrapper(io.BufferedReader(io.BytesIO(str(failing_at(2)(number)).encode())), name=str(number))

    dp = IterableWrapper(range(9)).map(opened).groupby(lambda stream: int(stream.name) % 2, group_size=2)
    it: Any = iter(dp)
    with pytest.raises(ValueError, match="2 is bad"):
        next(it)
    with pytest.raises(UnsavableElement, match=r"buffered by \.groupby"):
        it.state_dict()


@pytest.mark.parametrize(
    "saved", [7, {"taken": -1, "given": 0}, {"taken": 1, "given": 2}, {"groups": b"?"}, {"groups": [], "more": 1}]
)
def test_an_odd_state_is_refused(saved: Any) -> None:
    it: Any = iter(IterableWrapper(range(5)).groupby(itself))
    state = it.state_dict()
    state["cells"][1] = saved
    with pytest.raises(StateError, match="groupby"):
        iter(IterableWrapper(range(5)).groupby(itself)).load_state_dict(sealed(state))  # type: ignore[attr-defined]  # our iterator
