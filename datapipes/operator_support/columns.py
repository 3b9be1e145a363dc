"""A function of some columns of an element, instead of the whole element.

``input_col`` names the columns that are the function's arguments: one index or key, or a list or tuple of them.
``output_col`` names the column for the result. ``None``: the first input column, and the other input columns are
removed. -1: a new last column. A tuple is rebuilt as a plain tuple. Any other element (list, dict) is changed in place
and handed on.

A column is removed once, by its position before the change.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sized
from typing import Any

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.messages.where import where

APPEND = -1

Place = Callable[[Any, Any], Any]
"""Takes an element and a result. Returns the element with the result."""


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """Raise ``ValueError`` unless ``fn`` can be called with one positional argument for every input column.

    >>> validate_input_col(lambda left, right: left + right, [0, 1])
    >>> validate_input_col(lambda left, right: left + right, 0)
    Traceback (most recent call last):
        ...
    datapipes.errors.BadArgument: The function ... takes 2 positional parameters, but 1 are required by input_col=0. ...
    """
    if not callable(fn):
        raise BadArgumentType(f"A callable function is expected, but {type(fn).__name__} was given: {fn!r}")
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        # `int` and other functions written in C may have no signature. Then the call itself will show an error.
        return
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    by_name_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]

    if by_name_only:
        raise BadArgument(
            f"The function {where(fn)} takes {len(by_name_only)} non-default keyword-only parameters "
            f"({', '.join(by_name_only)}), which no column can fill. Bind them with functools.partial."
        )
    if given > len(positional) and not takes_any_number:
        taken = (
            f"{len(parameters)} parameters" if given > len(parameters) else f"{len(positional)} positional parameters"
        )
        raise BadArgument(
            f"The function {where(fn)} takes {taken}, but {given} are required by {input_col=}. "
            "List fewer columns, or give the function a parameter for each."
        )
    if any(p.default is p.empty for p in positional[given:]):
        raise BadArgument(
            f"The function {where(fn)} takes {len(positional)} positional parameters, but {given} are required by "
            f"{input_col=}. List a column for each, or give the others a default."
        )


def check_columns(input_col: Any, output_col: Any) -> Any:
    """Return ``output_col`` without a list around it. Raise BadArgument if it cannot work. A second call is harmless.

    >>> check_columns(input_col=0, output_col=["sum"])
    'sum'
    >>> check_columns(input_col=None, output_col=1)
    Traceback (most recent call last):
        ...
    datapipes.errors.BadArgument: `output_col` must be None when `input_col` is None, ...
    """
    if input_col is None and output_col is not None:
        raise BadArgument(
            f"`output_col` must be None when `input_col` is None, but {output_col=}: the result then is the whole "
            "element. Give `input_col` as well."
        )
    if isinstance(output_col, (list, tuple)):
        if len(output_col) != 1:
            raise BadArgument(
                f"`output_col` must be a single-element list or tuple, but {output_col=}: the function has one result. "
                "Name the one column it goes to."
            )
        # A key that would have another meaning without its list stays in the list.
        return output_col if isinstance(output_col[0], (list, tuple, type(None))) else output_col[0]
    if output_col is None and isinstance(input_col, (list, tuple)) and not input_col:
        raise BadArgument(
            f"`output_col` must be given with {input_col=}: there is no input column to put the result in."
        )
    return output_col


def on_input(fn: Callable[..., Any], input_col: Any) -> Callable[[Any], Any]:
    """Return ``fn`` as a function of the element: it takes the input columns, and its result is returned.

    >>> on_input(operator.add, ["x", "y"])({"x": 1, "y": 2, "z": 3})
    3
    """
    return fn if input_col is None else _reading(fn, _listed(input_col), place=None)


def on_columns(fn: Callable[..., Any], input_col: Any, output_col: Any = None) -> Callable[[Any], Any]:
    """Return ``fn`` as a function of the element: it takes the input columns, and its result goes to the output column.

    >>> on_columns(operator.add, [2, 0])((1, 2, 3))
    (2, 4)
    >>> on_columns(operator.neg, "x", "minus x")({"x": 1})
    {'x': 1, 'minus x': -1}
    """
    if input_col is None:
        check_columns(input_col, output_col)
        return fn
    return _reading(fn, _listed(input_col), placing(input_col, output_col))


def placing(input_col: Any, output_col: Any = None) -> Place:
    """Return the second half of ``on_columns``, for results that come later: (element, result) -> element.

    >>> placing(input_col=0, output_col=-1)((1, 2), "a result")
    (1, 2, 'a result')
    """
    output_col = check_columns(input_col, output_col)
    if output_col is not None:
        target = output_col[0] if isinstance(output_col, (list, tuple)) else output_col
        return _append if target == APPEND else _assigning(target)
    if input_col is None:
        return _replace
    columns = _listed(input_col)
    return _assigning(columns[0]) if len(columns) == 1 else _merging(columns)


def _listed(input_col: Any) -> list[Any]:
    return list(input_col) if isinstance(input_col, (list, tuple)) else [input_col]


def _reading(fn: Callable[..., Any], columns: list[Any], place: Place | None) -> Callable[[Any], Any]:
    """Return a function that calls ``fn`` with columns of an element and places the result, or returns it."""

    def missing(error: LookupError, element: Any) -> None:
        named = repr(columns[0]) if len(columns) == 1 else f"one of {columns}"
        error.add_note(f"The input column {named} is not in {_outline(element)}.")

    def on_one(element: Any) -> Any:
        try:
            value = element[column]
        except LookupError as error:
            missing(error, element)
            raise
        result = fn(value)
        return result if place is None else place(element, result)

    def on_several(element: Any) -> Any:
        try:
            values = pick(element)
        except LookupError as error:
            missing(error, element)
            raise
        result = fn(*values)
        return result if place is None else place(element, result)

    if len(columns) == 1:
        [column] = columns
        return on_one
    pick: Callable[[Any], tuple[Any, ...]] = operator.itemgetter(*columns) if columns else lambda element: ()
    return on_several


def _replace(element: Any, result: Any) -> Any:
    return result


def _append(element: Any, result: Any) -> Any:
    if isinstance(element, tuple):
        return (*element, result)
    try:
        element.append(result)
    except AttributeError as error:
        error.add_note(
            f"output_col=-1 appends to a list or tuple, but the element is {_outline(element)}: name a column."
        )
        raise
    return element


def _assigning(target: Any) -> Place:
    def assign(element: Any, result: Any) -> Any:
        row = list(element) if isinstance(element, tuple) else element
        try:
            row[target] = result
        except LookupError as error:
            error.add_note(f"The output column {target!r} is not in {_outline(element)}; output_col=-1 appends one.")
            raise
        return element if row is element else tuple(row)

    return assign


def _merging(columns: list[Any]) -> Place:
    """Return a function that puts the result into the first of the columns and removes the other ones."""
    first, *others = columns
    indices = [_index(column) for column in columns]
    counted_from_behind = any(index is not None and index < 0 for index in indices)
    # Keys and non-negative positions can be sorted now. Negative positions depend on the length of the element.
    removed = _from_behind(first, others, by_position=None not in indices)

    def merge(element: Any, result: Any) -> Any:
        row = list(element) if isinstance(element, tuple) else element
        row[first] = result
        doomed = removed
        if counted_from_behind and not isinstance(row, Mapping):
            head, *tail = (column + len(row) if column < 0 else column for column in columns)
            doomed = _from_behind(head, tail, by_position=True)
        for column in doomed:
            del row[column]
        return element if row is element else tuple(row)

    return merge


def _from_behind(first: Any, others: list[Any], by_position: bool) -> list[Any]:
    """Return the columns to remove, each once and never the first. The last position comes first, so none shifts."""
    doomed = [column for number, column in enumerate(others) if column != first and column not in others[:number]]
    return sorted(doomed, reverse=True) if by_position else doomed


def _index(column: Any) -> int | None:
    try:
        return operator.index(column)
    except TypeError:
        return None


def _outline(element: Any) -> str:
    """Return a short description of an element for a note: its keys, or its length."""
    kind = type(element).__name__
    if isinstance(element, Mapping):
        return f"the {kind} with keys {list(element)}"
    return f"the {kind} of length {len(element)}" if isinstance(element, Sized) else f"the {kind}"
