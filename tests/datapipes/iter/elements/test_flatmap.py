"""flatmap replaces an element by the elements of an iterable, and goes on in it after a failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import FlatMapper, IterableWrapper
from tests.datapipes.iter.mishaps import STRAY_STOP, failing_at, outcomes, stopping_at


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


def test_lists_generators_and_strings() -> None:
    dp = numbers(3).flatmap(lambda x: [x, -x])
    assert isinstance(dp, FlatMapper)
    assert list(dp) == list(dp) == [0, 0, 1, -1, 2, -2]
    assert list(numbers(3).flatmap(lambda x: (10 * x + i for i in range(x)))) == [10, 20, 21]
    assert list(IterableWrapper([12, 3]).flatmap(str)) == ["1", "2", "3"]


def test_without_a_function_the_element_itself_is_flattened() -> None:
    assert list(IterableWrapper([[1, 2], (3,), "ab", {4: 5}]).flatmap()) == [1, 2, 3, "a", "b", 4]


def test_a_function_that_counts_as_false_is_a_function() -> None:
    class Empty:
        def __len__(self) -> int:
            return 0

        def __call__(self, x: int) -> list[int]:
            return [10 * x]

    assert list(numbers(2).flatmap(Empty())) == [0, 10]


def test_columns() -> None:
    rows = IterableWrapper([(1, "ab"), (2, "c")])
    assert list(rows.flatmap(input_col=1)) == ["a", "b", "c"]
    assert list(rows.flatmap(input_col=[1, 0])) == ["ab", 1, "c", 2]
    assert list(rows.flatmap(lambda n, text: [text] * n, input_col=[0, 1])) == ["ab", "c", "c"]


def test_nothing_comes_of_nothing() -> None:
    assert list(numbers(3).flatmap(lambda x: [])) == []
    assert list(numbers(0).flatmap(lambda x: [x])) == []


def test_none_is_an_element_like_any_other() -> None:
    assert list(IterableWrapper([None, 1]).flatmap(lambda x: [x, None])) == [None, None, 1, None]


def test_length() -> None:
    with pytest.raises(TypeError, match="FlatMapper's length relies on the output of its function"):
        len(numbers(3).flatmap(lambda x: [x]))
    assert list(numbers(3).flatmap(lambda x: [x])) == [0, 1, 2]


def test_refused_arguments() -> None:
    number: Any = 3
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by flatmap\(\), got int: 3"):
        numbers(1).flatmap(number)
    with pytest.raises(BadArgument, match="takes 1 parameters, but 2 are required"):
        numbers(1).flatmap(lambda x: [x], input_col=[0, 1])


def test_a_result_that_cannot_be_iterated_costs_its_own_element_only() -> None:
    def maybe(x: int) -> Any:
        return 5 if x == 1 else [x]

    assert outcomes(numbers(3).flatmap(maybe)) == [0, "TypeError: 'int' object is not iterable", 2]


def test_an_iterator_that_raises_goes_on_where_it_can() -> None:
    check = failing_at(1)
    assert outcomes(numbers(2).flatmap(lambda x: map(check, range(3)))) == [0, "ValueError: 1 is bad", 2] * 2

    def generated(x: int) -> Iterator[int]:  # a generator cannot go on, so the next element is next
        yield from map(check, range(x, 3))

    assert outcomes(numbers(3).flatmap(generated)) == [0, "ValueError: 1 is bad", "ValueError: 1 is bad", 2]


def test_an_error_below_leaves_the_rest_of_an_element() -> None:
    dp = IterableWrapper(["abc", "de"]).flatmap(iter).map(failing_at("b", "d"))
    assert outcomes(dp) == ["a", "ValueError: b is bad", "c", "ValueError: d is bad", "e"]


def test_a_stray_stop_is_no_end() -> None:
    check = stopping_at(1)
    assert outcomes(numbers(3).flatmap(lambda x: [check(x)])) == [0, STRAY_STOP, 2]
