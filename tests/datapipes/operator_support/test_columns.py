"""Columns go in and come out as the contract's table says, for every kind of element and every choice of columns."""

from __future__ import annotations

import copy
import functools
import operator
from collections import deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.operator_support.columns import check_columns, on_columns, on_input, placing, validate_input_col

Row = namedtuple("Row", "x y")
Function = Callable[..., Any]


def none() -> None: ...
def one(a: Any) -> Any: ...
def two(a: Any, b: Any) -> Any: ...
def one_or_two(a: Any, b: Any = 0) -> Any: ...
def any_number(*args: Any) -> Any: ...
def one_or_more(a: Any, *args: Any) -> Any: ...
def two_or_more(a: Any, b: Any, *args: Any) -> Any: ...
def with_option(a: Any, *, b: Any = 0, **others: Any) -> Any: ...
def with_demand(a: Any, *, b: Any) -> Any: ...
def by_position(a: Any, /) -> Any: ...
def by_name(**named: Any) -> Any: ...


class Adding:
    """A callable that is no function."""

    def __call__(self, a: Any, b: Any) -> Any: ...

    def method(self, a: Any) -> Any: ...


@pytest.mark.parametrize(
    ("fn", "input_col"),
    [
        (int, 0),
        (str, [0, 1, 2, 3]),
        (dict, ["a", "b"]),
        (len, "a"),
        (one, None),
        (one, 0),
        (one, ["a"]),
        (none, []),
        (two, (0, 1)),
        (one_or_two, 0),
        (one_or_two, [0, 1]),
        (any_number, [0, 1, 2]),
        (any_number, None),
        (one_or_more, [0]),
        (one_or_more, [0, 1, 2]),
        (with_option, None),
        (by_position, 3),
        (Adding(), [0, 1]),
        (Adding().method, 0),
        (functools.partial(two, 1), 0),
        (functools.partial(two, b=1), 0),
        (functools.partial(with_demand, b=1), 0),
    ],
)
def test_functions_that_can_be_called_are_accepted(fn: Function, input_col: Any) -> None:
    validate_input_col(fn, input_col)


@pytest.mark.parametrize(
    ("fn", "input_col", "message"),
    [
        (with_demand, 0, r"with_demand at .* takes 1 non-default keyword-only parameters \(b\)"),
        (none, None, "none at .* takes 0 parameters, but 1 are required"),
        (one, [0, 1], r"one at test_columns\.py:\d+ takes 1 parameters, but 2 are required by input_col=\[0, 1\]"),
        (by_name, [0, 1], "takes 1 parameters, but 2 are required"),
        (two, None, "two at .* takes 2 positional parameters, but 1 are required"),
        (two, ("a",), "takes 2 positional parameters"),
        (two_or_more, 0, "takes 2 positional parameters"),
        (with_option, [0, 1], "with_option at .* takes 1 positional parameters, but 2 are required"),
        (by_name, 0, "takes 0 positional parameters, but 1 are required"),
        (Adding(), 0, "Adding at .* takes 2 positional parameters"),
        (functools.partial(two, 1), [0, 1], "two at .* takes 1 parameters, but 2 are required"),
        (functools.partial(two, a=1), 0, r"two at .* takes 1 non-default keyword-only parameters \(b\)"),
    ],
)
def test_functions_that_cannot_be_called_are_refused(fn: Function, input_col: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate_input_col(fn, input_col)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="A callable function is expected, but int"):
        validate_input_col(3, 0)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    ("output_col", "normalised"),
    [(None, None), (-1, -1), (0, 0), ("a", "a"), ([2], 2), (("a",), "a"), ([-1], -1), ([("a", 1)], [("a", 1)])],
)
def test_output_col_is_taken_out_of_its_list_once(output_col: Any, normalised: Any) -> None:
    assert check_columns(0, output_col) == normalised
    assert check_columns(0, check_columns(0, output_col)) == normalised


@pytest.mark.parametrize(
    ("input_col", "output_col", "message"),
    [
        (None, 0, "`output_col` must be None when `input_col` is None"),
        (None, [-1], "`output_col` must be None"),
        (0, [0, 1], "must be a single-element list or tuple"),
        (0, (), "must be a single-element list or tuple"),
        ([], None, "no input column to put the result in"),
    ],
)
def test_columns_that_cannot_work_are_refused_at_construction(input_col: Any, output_col: Any, message: str) -> None:
    for build in (check_columns, placing, functools.partial(on_columns, two)):
        with pytest.raises(ValueError, match=message):
            build(input_col, output_col)


def test_without_columns_the_function_itself_is_the_result() -> None:
    fn: Function = two
    assert on_columns(fn, None, None) is fn
    assert on_input(fn, None) is fn
    assert placing(None)((1, 2), "result") == "result"


@pytest.mark.parametrize(
    ("element", "fn", "input_col", "output_col", "expected"),
    [
        ((0, 1, 2), operator.neg, 1, None, (0, -1, 2)),
        ((0, 1, 2), operator.neg, [1], None, (0, -1, 2)),
        ((0, 1, 2), operator.neg, -1, None, (0, 1, -2)),
        ((0, 1, 2), operator.sub, [2, 0], None, (1, 2)),
        ((0, 1, 2), operator.sub, (0, 2), None, (-2, 1)),
        ((0, 1, 2), operator.sub, [2, 0], -1, (0, 1, 2, 2)),
        ((0, 1, 2), operator.sub, [2, 0], [1], (0, 2, 2)),
        ((0, 1, 2), operator.neg, 1, [-1], (0, 1, 2, -1)),
        (Row(1, 2), operator.neg, 0, None, (-1, 2)),
        ([0, 1, 2], operator.sub, [2, 0], None, [1, 2]),
        ([0, 1, 2], operator.neg, 2, -1, [0, 1, 2, -2]),
        ({"x": 1, "y": 2}, operator.neg, "x", None, {"x": -1, "y": 2}),
        ({"x": 1, "y": 2}, operator.sub, ("x", "y"), None, {"x": -1}),
        ({"x": 1, "y": 2}, operator.neg, "x", "z", {"x": 1, "y": 2, "z": -1}),
        ({"x": 1, 2: 2, None: 3}, max, ["x", 2, None], None, {"x": 3}),
        ({-1: 1, 0: 2, -2: 3}, max, [-1, 0, -2], None, {-1: 3}),
        ({"x": 1}, operator.neg, "x", [("a", "tuple")], {"x": 1, ("a", "tuple"): -1}),
        ({"x": 1}, lambda: "made", [], "id", {"x": 1, "id": "made"}),
        ((0, 1, 2, 3), max, [0, -1, 1], None, (3, 2)),
        ((0, 1, 2, 3), max, [0, -1, -2], None, (3, 1)),
        ((0, 1, 2), operator.add, [2, 2], None, (0, 1, 4)),
        ((0, 1, 2), max, [2, 0, -3, -1], None, (1, 2)),
    ],
)
def test_table(element: Any, fn: Function, input_col: Any, output_col: Any, expected: Any) -> None:
    result = on_columns(fn, input_col, output_col)(element)
    assert result == expected
    assert type(result) is type(expected)
    assert isinstance(element, tuple) or result is element


def test_other_mutable_sequences_are_changed_in_place() -> None:
    element = deque([0, 1, 2, 3])
    assert on_columns(max, [0, 1, -1], None)(element) is element
    assert element == deque([3, 2])


def test_missing_columns_keep_their_error_and_are_named() -> None:
    with pytest.raises(IndexError) as missing:
        on_columns(operator.neg, 3)((1, 2))
    assert missing.value.__notes__ == ["The input column 3 is not in the tuple of length 2."]
    with pytest.raises(KeyError) as unknown:
        on_input(operator.add, ["x", "z"])({"x": 1})
    assert unknown.value.__notes__ == ["The input column one of ['x', 'z'] is not in the dict with keys ['x']."]
    with pytest.raises(IndexError) as out:
        on_columns(operator.neg, 0, 2)([1, 2])
    assert out.value.__notes__ == ["The output column 2 is not in the list of length 2; output_col=-1 appends one."]


def test_dicts_cannot_be_appended_to() -> None:
    with pytest.raises(AttributeError) as appended:
        on_columns(operator.neg, "x", -1)({"x": 1})
    assert "name a column" in appended.value.__notes__[0]


def test_errors_of_the_function_are_left_alone() -> None:
    def failing(value: object) -> None:
        raise KeyError(value)

    with pytest.raises(KeyError, match="1") as raised:
        on_columns(failing, "x")({"x": 1})
    assert not hasattr(raised.value, "__notes__")


def test_placing_is_the_second_half() -> None:
    place = placing([2, 0])
    assert place((0, 1, 2), "result") == (1, "result")


def reference(element: Any, fn: Function, input_col: Any, output_col: Any) -> Any:
    """The table of the contract word by word, on a dict of columns; positions are keys until the end."""
    if input_col is None:
        return fn(element)
    named = isinstance(element, dict)
    columns = dict(element) if named else dict(enumerate(element))

    def key(column: Any) -> Any:
        return column if named else range(len(element))[column]

    listed = [key(c) for c in (input_col if isinstance(input_col, (list, tuple)) else [input_col])]
    result = fn(*[columns[c] for c in listed])
    if isinstance(output_col, (list, tuple)):
        output_col = output_col[0]
    if output_col is None:
        columns[listed[0]] = result
        columns = {c: value for c, value in columns.items() if c == listed[0] or c not in listed}
    elif output_col == -1:
        if named:
            raise AttributeError("append")
        columns[len(element)] = result
    else:
        columns[key(output_col)] = result
    if named:
        return columns
    return tuple(columns.values()) if isinstance(element, tuple) else list(columns.values())


def outcome(call: Callable[[], Any]) -> Any:
    try:
        value = call()
    except (LookupError, AttributeError) as error:
        return type(error)
    return type(value), value


positions = st.integers(-5, 4)
keys = st.sampled_from(["a", "b", "c", 0, 1, -2])
elements = st.one_of(
    st.lists(st.integers(), max_size=5),
    st.lists(st.integers(), max_size=5).map(tuple),
    st.builds(Row, st.integers(), st.integers()),
    st.dictionaries(keys, st.integers(), max_size=5),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    element = draw(elements)
    columns = keys if isinstance(element, dict) else positions
    several = st.lists(columns, min_size=1, max_size=4)
    input_col = draw(st.one_of(columns, several, several.map(tuple)))
    output = columns.filter(lambda column: column != -1)
    output_col = draw(st.one_of(st.none(), st.just(-1), output, output.map(lambda column: [column])))
    return element, input_col, output_col


@given(case=cases())
def test_columns_do_what_a_naive_reading_of_the_contract_does(case: tuple[Any, Any, Any]) -> None:
    element, input_col, output_col = case

    def fn(*values: object) -> object:
        return ("result of", *values)

    expected = outcome(lambda: reference(copy.copy(element), fn, input_col, output_col))
    before = copy.copy(element)
    given_result = outcome(lambda: on_columns(fn, input_col, output_col)(element))
    assert given_result == expected
    if isinstance(element, tuple) or isinstance(expected, type):
        assert element == before
    else:
        assert given_result[1] is element
