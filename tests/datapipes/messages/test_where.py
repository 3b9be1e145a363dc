"""A callable is named with the place where the user wrote it, whatever it is wrapped in."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from datapipes.messages.where import where


def double(x: int) -> int:
    return 2 * x


class Scale:
    def __call__(self, x: int) -> int:
        return x

    def method(self, x: int) -> int:
        return x


def never_called(*args: object) -> None:
    raise AssertionError("where() called the function")


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (len, "len"),
        (str.upper, "str.upper"),
        (math.sqrt, "sqrt"),
        (Scale, "Scale"),
        (functools.partial(functools.partial(double)), "double at "),
        (functools.lru_cache(double), "double at "),
        (functools.wraps(double)(lambda *args: None), "double at "),
        (functools.partial(max, 1), "max"),
        (operator.itemgetter(1), "itemgetter"),
        (np.add, "add"),
        (MagicMock(), "MagicMock at "),
        (None, "NoneType"),
    ],
)
def test_where_names_any_callable(fn: Callable[..., Any], expected: str) -> None:
    assert where(fn).startswith(expected)


def test_the_place_is_that_of_the_definition() -> None:
    assert where(double) == f"double at test_where.py:{double.__code__.co_firstlineno}"
    assert where(Scale()) == f"Scale at test_where.py:{Scale.__call__.__code__.co_firstlineno}"
    assert where(Scale().method) == f"Scale.method at test_where.py:{Scale.method.__code__.co_firstlineno}"


def test_nothing_is_called() -> None:
    assert where(functools.partial(never_called, 1)).startswith("never_called at ")


def test_what_is_local_is_named_without_what_is_around_it() -> None:
    def local() -> None:
        pass

    assert where(local).startswith("local at ")
    assert where(lambda: None).startswith("lambda at ")
