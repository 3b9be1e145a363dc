"""filter hands on what its function says True to, and takes nothing but True and False for an answer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import Filter, IterableWrapper
from tests.datapipes.iter.mishaps import STRAY_STOP, outcomes, stopping_at


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


def is_even(x: int) -> bool:
    return x % 2 == 0


def test_filter() -> None:
    dp = numbers(6).filter(is_even)
    assert isinstance(dp, Filter)
    assert list(dp) == list(dp) == [0, 2, 4]


def test_none_is_an_element_like_any_other() -> None:
    assert list(IterableWrapper([None, 1, None]).filter(lambda x: x is None)) == [None, None]


@pytest.mark.parametrize("keep", [True, False])
def test_all_or_nothing(keep: bool) -> None:
    assert list(numbers(3).filter(lambda x: keep)) == ([0, 1, 2] if keep else [])
    assert list(numbers(0).filter(lambda x: keep)) == []


def test_columns() -> None:
    rows = [(0, "a"), (1, "b"), (2, "c")]
    assert list(IterableWrapper(rows).filter(is_even, input_col=0)) == [rows[0], rows[2]]
    assert list(IterableWrapper([{"x": 1}, {"x": 2}]).filter(is_even, input_col="x")) == [{"x": 2}]
    assert list(IterableWrapper([(1, 2), (2, 1)]).filter(lambda a, b: a < b, input_col=[0, 1])) == [(1, 2)]


@pytest.mark.parametrize("answer", [1, 0, None, "yes", np.True_])
def test_an_answer_that_is_no_bool_is_an_error(answer: Any) -> None:
    with pytest.raises(ValueError, match=rf"Boolean output is required for `filter_fn`, got {type(answer).__name__}"):
        list(numbers(1).filter(lambda x: answer))


def test_such_an_answer_costs_its_own_element_only() -> None:
    def answer(x: int) -> Any:
        return "no bool" if x == 1 else True

    first, error, last = outcomes(numbers(3).filter(answer))
    assert (first, last) == (0, 2)
    assert error.startswith("ValueError: Boolean output is required")


def test_refused_arguments() -> None:
    number: Any = 3
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by filter\(\), got int: 3"):
        numbers(1).filter(number)
    with pytest.raises(BadArgument, match=r"takes 1 parameters, but 2 are required by input_col=\[0, 1\]"):
        numbers(1).filter(is_even, input_col=[0, 1])


def test_a_stray_stop_is_no_end() -> None:
    check = stopping_at(1)
    assert outcomes(numbers(3).filter(lambda x: check(x) >= 0)) == [0, STRAY_STOP, 2]


def test_the_stream_of_a_refused_element_is_closed() -> None:
    files = [io.StringIO(text) for text in "abc"]
    rows = ((str(i), StreamWrapper(file)) for i, file in enumerate(files))
    dp = IterableWrapper(rows, deepcopy=False).filter(lambda name: name == "1", input_col=0)
    it = iter(dp)
    name, stream = next(it)
    assert (name, stream.read()) == ("1", "b")
    assert [file.closed for file in files] == [True, False, False]
    assert next(it, None) is None
    assert [file.closed for file in files] == [True, False, True]


def test_a_class_of_users_filters_by_apply_filter_fn() -> None:
    class Counting(Filter[Any]):
        def __iter__(self) -> Iterator[Any]:
            return (element for element in self.datapipe if self._apply_filter_fn(element))

    class Negated(Filter[Any]):
        def _apply_filter_fn(self, data: Any) -> Any:
            return not super()._apply_filter_fn(data)

    assert list(Counting(numbers(5), is_even)) == [0, 2, 4]
    assert list(Negated(IterableWrapper([(1, 2), (2, 3)]), is_even, input_col=1)) == [(2, 3)]
