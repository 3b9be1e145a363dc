"""sliding_window gives the windows that a loop over a list would, as a stream and by key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes import iterate
from datapipes.errors import BadArgument
from datapipes.map import SequenceWrapper
from tests.datapipes.iter.mishaps import failing_at, outcomes
from tests.naive_functions import windows
from tests.specimens.specimen import numbers, unseekable


@given(st.integers(0, 12), st.integers(1, 5), st.integers(1, 7), st.booleans(), st.data())
def test_windows_wherever_it_is_resumed(length: int, size: int, step: int, partial: bool, data: st.DataObject) -> None:
    expected = windows(list(range(length)), size, step, partial)
    by_key = SequenceWrapper(range(length)).sliding_window(size, step, partial)
    assert [by_key[k] for k in range(len(by_key))] == expected
    pipe = unseekable(length).sliding_window(size, step, partial)
    iterator = iterate(pipe)
    behind = [next(iterator) for _ in range(data.draw(st.integers(0, len(expected))))]
    again = iterate(pipe)
    again.load_state_dict(iterator.state_dict())
    assert behind + list(again) == behind + list(iterator) == list(pipe) == expected
    assert len(numbers(length).sliding_window(size, step, partial)) == len(expected)


@pytest.mark.parametrize(
    ("partial", "expected"),
    [(False, [[0, 1, 2], [1, 2, 3], [2, 3, 4]]), (True, [[0, 1, 2], [1, 2, 3], [2, 3, 4]])],
)
def test_no_element_is_given_again_at_the_end(partial: bool, expected: list[Any]) -> None:
    assert list(numbers(5).sliding_window(3, partial=partial)) == expected
    assert list(numbers(2).sliding_window(3, partial=partial)) == ([[0, 1]] if partial else [])


def test_an_element_that_failed_is_in_no_window() -> None:
    failing = numbers(6).map(failing_at(2, 3))
    errors = ["ValueError: 2 is bad", "ValueError: 3 is bad"]
    assert outcomes(failing.sliding_window(2)) == [[0, 1], *errors, [1, 4], [4, 5]]
    assert outcomes(failing.sliding_window(1, step=3)) == [[0], *errors, [5]]


def test_windows_share_their_elements() -> None:
    first, second = list(numbers(3).map(lambda x: [x]).sliding_window(2))
    assert first[1] is second[0]


def test_what_is_refused() -> None:
    for pipe in (numbers(3), SequenceWrapper("abc")):
        with pytest.raises(BadArgument, match=r"at least one element, in \.sliding_window\(0\)"):
            pipe.sliding_window(0)
        with pytest.raises(BadArgument, match=r"one element further, in \.sliding_window\(2, step=0\)"):
            pipe.sliding_window(2, step=0)
    for key in (-1, 2):
        with pytest.raises(IndexError, match=rf"Index {key} is out of bound: there is no such window"):
            SequenceWrapper("abc").sliding_window(2)[key]
