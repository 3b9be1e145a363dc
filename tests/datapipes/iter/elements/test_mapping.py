"""map and collate replace each element by what a function makes of it; a failure costs one element."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import Collator, IterableWrapper, Mapper
from tests.datapipes.iter.mishaps import STRAY_STOP, failing_at, outcomes, stopping_at


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


def add(left: int, right: int) -> int:
    return left + right


def test_map() -> None:
    dp = numbers(4).map(lambda x: 10 * x)
    assert isinstance(dp, Mapper)
    assert list(dp) == list(dp) == [0, 10, 20, 30]
    assert len(dp) == 4


def test_none_is_an_element_like_any_other() -> None:
    assert list(IterableWrapper([None, 1]).map(lambda x: x)) == [None, 1]
    assert list(numbers(2).map(lambda x: None)) == [None, None]


def test_an_empty_source() -> None:
    dp = numbers(0).map(str)
    assert (list(dp), len(dp)) == ([], 0)


@pytest.mark.parametrize(
    ("element", "input_col", "output_col", "result"),
    [
        ((1, 2, 3), 1, None, (1, 5, 3)),
        ([1, 2, 3], 1, None, [1, 5, 3]),
        ((1, 2), 0, -1, (1, 2, 4)),
        ({"x": 1, "y": 2}, "x", None, {"x": 4, "y": 2}),
        ({"x": 1}, "x", "z", {"x": 1, "z": 4}),
        ((1, 2), [1], [0], (5, 2)),
    ],
)
def test_columns(element: Any, input_col: Any, output_col: Any, result: Any) -> None:
    dp = IterableWrapper([element]).map(lambda x: x + 3, input_col=input_col, output_col=output_col)
    assert list(dp) == [result]


def test_several_columns_become_one() -> None:
    rows: IterableWrapper[Any] = IterableWrapper([(0, 1, 2)])
    merged: list[Any] = list(rows.map(add, input_col=[2, 0]))
    assert merged == [(1, 2)]


def test_a_missing_column_is_an_error_of_that_element_alone() -> None:
    rows = IterableWrapper([{"x": 1}, {"y": 2}, {"x": 3}]).map(str, input_col="x")
    assert outcomes(rows) == [{"x": "1"}, "KeyError: 'x'", {"x": "3"}]


def test_what_cannot_be_called_is_refused_with_the_call() -> None:
    number: Any = 3
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by map\(\), got int: 3"):
        numbers(1).map(number)
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by collate\(\), got int: 3"):
        numbers(1).collate(number)


def test_a_function_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"add at test_mapping.py:\d+ takes 2 positional parameters, but 1 are"):
        numbers(1).map(add)
    with pytest.raises(BadArgument, match="takes 2 parameters, but 3 are required"):
        numbers(1).map(add, input_col=[0, 1, 2])
    assert list(numbers(2).map(partial(add, 5))) == [5, 6]


def test_an_output_column_without_input_columns_is_refused() -> None:
    with pytest.raises(BadArgument, match="`output_col` must be None when `input_col` is None"):
        numbers(1).map(str, output_col=1)
    with pytest.raises(BadArgument, match="must be a single-element list or tuple"):
        numbers(1).map(str, input_col=0, output_col=[1, 2])


def test_a_failure_does_not_disturb_the_stages_around_it() -> None:
    dp = numbers(5).map(lambda x: x + 1).map(failing_at(2)).map(str)
    assert outcomes(dp) == ["1", "ValueError: 2 is bad", "3", "4", "5"]


def test_an_error_names_the_stage_and_the_function() -> None:
    with pytest.raises(ValueError, match="1 is bad") as caught:
        list(numbers(4).map(str).map(int).map(failing_at(1)).map(str))
    (note,) = caught.value.__notes__
    assert note.startswith("raised in stage .map(<checked at mishaps.py:")


def test_a_stray_stop_is_no_end() -> None:
    assert outcomes(numbers(4).map(stopping_at(1))) == [0, STRAY_STOP, 2, 3]
    assert outcomes(numbers(3).collate(stopping_at(1))) == [0, STRAY_STOP, 2]
    rows = IterableWrapper([[0], [1], [2]])
    assert outcomes(rows.map(stopping_at(1), input_col=0)) == [[0], STRAY_STOP, [2]]


def test_collate_makes_tensors() -> None:
    dp = numbers(4).batch(2).collate()
    assert isinstance(dp, Collator)
    first, second = dp
    assert torch.equal(first, torch.tensor([0, 1]))
    assert torch.equal(second, torch.tensor([2, 3]))
    assert len(dp) == 2


class Row:
    """Something that can be referred to weakly."""


def test_a_batch_goes_before_the_next_one_is_made() -> None:
    rows: weakref.WeakSet[Row] = weakref.WeakSet()
    there = []

    def new(_: int) -> Row:
        there.append(len(rows))
        rows.add(row := Row())
        return row

    assert list(numbers(9).map(new).batch(3).collate(len)) == [3, 3, 3]
    assert max(there) == 2  # those of this batch


def test_collate_fn_wins_over_conversion() -> None:
    assert list(numbers(2).batch(2).collate(sum)) == [1]
    assert list(numbers(2).batch(2).collate(sum, collate_fn=max)) == [1]
    assert list(numbers(3).batch(3).collate(conversion=sum, collate_fn=len)) == [3]


def test_a_batch_that_cannot_be_collated_is_lost_alone() -> None:
    first, second, third = outcomes(IterableWrapper([[1, 2], [[1], [1, 2]], [3]]).collate())
    assert torch.equal(first, torch.tensor([1, 2]))
    assert "each element in list of batch should be of equal size" in second
    assert torch.equal(third, torch.tensor([3]))


COLUMNS: list[tuple[Any, Any, Any]] = [(str, None, None), (add, [0, 1], None), (str, 1, -1), (str, "x", "y")]


@pytest.mark.parametrize(("fn", "input_col", "output_col"), COLUMNS)
def test_a_class_of_users_maps_by_apply_fn(fn: Any, input_col: Any, output_col: Any) -> None:
    class Passing(Mapper[Any]):
        def __iter__(self) -> Iterator[Any]:
            for element in self.datapipe:
                yield self._apply_fn(element)

    source = IterableWrapper([{"x": 1}, {"x": 2}] if input_col == "x" else [(1, 2), (3, 4)])
    assert list(Passing(source, fn, input_col, output_col)) == list(source.map(fn, input_col, output_col))


def test_an_apply_fn_of_users_counts() -> None:
    class Twice(Mapper[Any]):
        def _apply_fn(self, data: Any) -> Any:
            return super()._apply_fn(super()._apply_fn(data))

    class TwiceCollated(Collator[Any]):
        def _apply_fn(self, data: Any) -> Any:
            return [super()._apply_fn(data)]

    assert list(Twice(numbers(3), lambda x: x + 1)) == [2, 3, 4]
    ((batch,),) = TwiceCollated(numbers(2).batch(2))
    assert batch.tolist() == [0, 1]
