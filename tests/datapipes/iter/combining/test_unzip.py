"""unzip gives a stream for each column, under the rules of a fork."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import GraphError
from datapipes.iter import IterableWrapper
from tests.datapipes.iter.mishaps import outcomes

ROWS: list[tuple[Any, ...]] = [("a", 1, None), ("b", 2, None)]


def test_a_stream_for_each_column() -> None:
    columns = IterableWrapper(ROWS).unzip(3)
    assert [list(column) for column in columns] == [["a", "b"], [1, 2], [None, None]]
    assert [len(column) for column in columns] == [2, 2, 2]
    first, second, third = columns
    assert list(first.zip(second, third)) == ROWS


def test_columns_are_skipped() -> None:
    (numbers_only,) = IterableWrapper(ROWS).unzip(3, columns_to_skip=[0, 2])
    assert list(numbers_only) == [1, 2]


def test_one_column_needs_no_buffer() -> None:
    (letters,) = IterableWrapper(ROWS).unzip(2, buffer_size=0, columns_to_skip=[1])
    assert list(letters) == ["a", "b"]


def test_it_has_the_buffer_of_a_fork() -> None:
    letters, integers = IterableWrapper(ROWS).unzip(2, buffer_size=1)
    with pytest.raises(BufferError, match="fork buffer overflow"):
        list(letters.concat(integers))
    with pytest.warns(UserWarning, match="Unlimited buffer size is set for `fork`"):
        IterableWrapper(ROWS).unzip(2, buffer_size=-1)


@pytest.mark.parametrize(("length", "skipped"), [(0, None), (2, [0, 1])])
def test_no_column_is_refused(length: int, skipped: list[int] | None) -> None:
    with pytest.raises(GraphError, match="All instances are being filtered out in UnZipper"):
        IterableWrapper(ROWS).unzip(length, columns_to_skip=skipped)


def test_a_row_too_short_costs_the_column_that_is_missing() -> None:
    letters, integers = IterableWrapper([("a", 1), ("b",), ("c", 3)]).unzip(2)
    assert list(letters) == ["a", "b", "c"]
    assert outcomes(integers) == [1, "IndexError: tuple index out of range", 3]
    assert outcomes(letters.zip(integers)) == [("a", 1), "IndexError: tuple index out of range", ("c", 3)]
