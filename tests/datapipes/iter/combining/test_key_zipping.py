"""zip_with_iter and zip_with_map join by key; what has no partner, or two, is an error that says so."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import failing_at, outcomes

REFERENCES = IterableWrapper([(x, f"reference {x}") for x in (2, 0, 1, 3)])


def first(pair: Any) -> Any:
    return pair[0]


def itself(x: Any) -> Any:
    return x


def test_partners_are_found_whatever_the_order() -> None:
    dp = IterableWrapper(range(4)).zip_with_iter(REFERENCES, itself, first)
    assert list(dp) == list(dp) == [(x, (x, f"reference {x}")) for x in range(4)]
    assert len(dp) == 4


def test_one_key_function_does_for_both_and_the_key_may_be_kept() -> None:
    source = IterableWrapper([(1, "a"), (0, "b")])
    assert list(source.zip_with_iter(IterableWrapper([(0, "c"), (1, "d")]), first, keep_key=True)) == [
        (1, ((1, "a"), (1, "d"))),
        (0, ((0, "b"), (0, "c"))),
    ]
    merged = source.zip_with_iter(REFERENCES, first, merge_fn=lambda x, y: (x[1], y[1]), keep_key=True)
    assert list(merged) == [(1, ("a", "reference 1")), (0, ("b", "reference 0"))]


def test_the_reference_may_be_endless() -> None:
    dp = IterableWrapper([5, 3]).zip_with_iter(IterableWrapper(count(), deepcopy=False), itself)
    assert list(dp) == [(5, 5), (3, 3)]


def naive(source: list[int], references: list[int], most: int) -> list[Any]:
    """Pairs and the kinds of errors, by searching through lists."""
    found: list[Any] = []
    waiting: list[int] = []
    unread: Iterator[int] = iter(references)
    for x in source:
        if x in waiting:
            waiting.remove(x)
            found.append((x, x))
            continue
        for y in unread:
            if y in waiting:
                found.append("Duplicate key")
            elif y == x:
                found.append((x, x))
                break
            else:
                waiting = [*waiting, y][-most:]
        else:
            found.append("No matching key")
    return found


KEYS = st.lists(st.integers(0, 9), max_size=12)


@given(KEYS, KEYS, st.integers(1, 4), st.integers(0, 12))
def test_it_finds_what_a_search_finds(source: list[int], references: list[int], most: int, saved: int) -> None:
    dp = IterableWrapper(source).zip_with_iter(IterableWrapper(references), itself, buffer_size=most)
    expected = naive(source, references, most)

    def shown(x: Any) -> Any:
        return x if type(x) is tuple else next(kind for kind in ("Duplicate key", "No matching key") if kind in x)

    with warnings.catch_warnings(action="ignore"):
        assert [shown(x) for x in outcomes(dp)] == expected
        it: Any = iter(dp)
        assert [shown(x) for x in outcomes(it, most=saved)] == expected[:saved]
        again: Any = iter(dp)
        again.load_state_dict(it.state_dict())
        assert [shown(x) for x in outcomes(again)] == expected[saved:]


def test_no_more_wait_than_may() -> None:
    source, references = IterableWrapper([3, 1, 2]), IterableWrapper([1, 2, 3])
    assert list(source.zip_with_iter(references, itself, buffer_size=2)) == [(3, 3), (1, 1), (2, 2)]
    with pytest.warns(UserWarning, match="Buffer reaches the upper limit: .* oldest first") as caught:
        found = outcomes(source.zip_with_iter(references, itself, buffer_size=1))
    assert len(caught) == 1
    assert found[0] == (3, 3)
    assert found[1].startswith("BufferError: No matching key can be found: .zip_with_iter(")
    assert found[2:] == [(2, 2)]


def test_a_buffer_of_one_does_for_streams_in_step() -> None:
    source = IterableWrapper(range(5))
    assert list(source.zip_with_iter(IterableWrapper(range(5)), itself, buffer_size=1)) == [(x, x) for x in range(5)]


def test_an_error_of_the_reference_ends_no_search() -> None:
    references = IterableWrapper([0, 2, 1, 3]).map(failing_at(2))
    found = outcomes(IterableWrapper(range(4)).zip_with_iter(references, itself))
    assert found[:2] == [(0, 0), "ValueError: 2 is bad"]
    assert found[2] == (1, 1)
    assert found[3].startswith("BufferError: No matching key")
    assert "key 2" in found[3]
    assert found[4:] == [(3, 3)]


def test_streams_that_nobody_asked_for_are_closed() -> None:
    opened: list[StreamWrapper] = []

    def open_one(x: int) -> tuple[int, StreamWrapper]:
        opened.append(StreamWrapper(io.BytesIO(bytes([x]))))
        return x, opened[-1]

    def joined(*numbers: int, most: int | None = None) -> list[Any]:
        opened.clear()
        source = IterableWrapper(numbers)
        return list(source.zip_with_iter(IterableWrapper(range(4)).map(open_one), itself, first, buffer_size=most))

    kept = joined(2, 0)
    assert [stream.closed for stream in opened] == [False, True, False]
    assert kept[0][1][1].read() == b"\2"
    with pytest.warns(UserWarning, match="Buffer reaches the upper limit"):
        kept = joined(3, 2, most=1)
    assert [stream.closed for stream in opened] == [True, True, False, False]
    opened.clear()
    dp = IterableWrapper([2, 0]).zip_with_iter(IterableWrapper(range(4)).map(open_one), itself, first)
    it: Any = iter(dp)
    kept = [next(it)]
    it.close()
    assert [stream.closed for stream in opened] == [True, True, False]


def test_refused_arguments() -> None:
    source, wrong, no_function = IterableWrapper([1]), {1: 1}, 5
    pipes: Any = (wrong, SequenceWrapper([1]))
    for pipe in pipes:
        with pytest.raises(BadArgumentType, match="`ref_datapipe` to be an `IterDataPipe`, got"):
            source.zip_with_iter(pipe, itself)
    for size in (0, -1):
        with pytest.raises(BadArgument, match="'buffer_size' is required to be positive, or None"):
            source.zip_with_iter(source, itself, buffer_size=size)
    fn: Any = no_function
    for arguments in ((fn,), (itself, fn), (itself, None, False, 1, fn)):
        with pytest.raises(BadArgumentType, match=r"A callable function is expected by zip_with_iter\(\)"):
            source.zip_with_iter(source, *arguments)
    with pytest.raises(TypeError, match="IterKeyZipper instance doesn't have valid length"):
        len(source.filter(bool).zip_with_iter(source, itself))


@pytest.mark.parametrize("saved", [1, {"waiting": b"", "sought": b""}, {"waiting": b""}])
def test_a_position_that_cannot_be_is_refused(saved: Any) -> None:
    dp = IterableWrapper(range(4)).zip_with_iter(REFERENCES, itself, first)
    it: Any = iter(dp)
    next(it)
    state = it.state_dict()
    place = next(place for place, cell in state["cells"].items() if type(cell) is dict)
    state["cells"][place] = saved
    with pytest.raises(StateError, match="does not fit stage"):
        iter(dp).load_state_dict(sealed(state))  # type: ignore[attr-defined]  # a PipeIterator


LOOKED_UP = SequenceWrapper({"a": 1, "b": 2})


def test_what_a_collection_has_is_joined() -> None:
    source = IterableWrapper(["b", "a"])
    assert list(source.zip_with_map(LOOKED_UP, itself)) == [("b", 2), ("a", 1)]
    assert list(source.zip_with_map(LOOKED_UP, itself, keep_key=True)) == [("b", ("b", 2)), ("a", ("a", 1))]
    assert list(source.zip_with_map(LOOKED_UP, itself, merge_fn=lambda x, y: x * y)) == ["bb", "a"]
    assert len(source.zip_with_map(LOOKED_UP, itself)) == 2


def test_a_key_that_a_collection_does_not_have() -> None:
    source = IterableWrapper(["b", "c", "a"])
    found = outcomes(source.zip_with_map(LOOKED_UP, itself))
    assert (found[0], found[2]) == (("b", 2), ("a", 1))
    assert "'c' is not a valid key of the collection in .zip_with_map(" in found[1]
    assert found[1].startswith("KeyError")
    assert outcomes(IterableWrapper([5]).zip_with_map(SequenceWrapper([1]), itself))[0].startswith("KeyError")
    with pytest.warns(UserWarning, match="goes on after KeyError"):
        assert list(source.zip_with_map(LOOKED_UP, itself, on_error="skip")) == [("b", 2), ("a", 1)]


def test_refused_arguments_of_zip_with_map() -> None:
    source = IterableWrapper([1])
    pipes: Any = ({"a": 1}, source)
    for pipe in pipes:
        with pytest.raises(BadArgumentType, match="`map_datapipe` to be a `MapDataPipe`, got"):
            source.zip_with_map(pipe, itself)
    fn: Any = 5
    for arguments in ((fn,), (itself, fn)):
        with pytest.raises(BadArgumentType, match=r"A callable function is expected by zip_with_map\(\)"):
            source.zip_with_map(LOOKED_UP, *arguments)
