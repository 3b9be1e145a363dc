"""A chunk is a list in every respect, at the price of one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from datapipes.elements.chunk import DataChunk


def test_chunk_equals_prints_and_indexes_as_the_list() -> None:
    chunk = DataChunk(x * x for x in range(4))
    assert isinstance(chunk, list)
    assert chunk == [0, 1, 4, 9]
    assert repr(chunk) == str(chunk) == "[0, 1, 4, 9]"
    assert (len(chunk), chunk[2], list(chunk), DataChunk()) == (4, 4, [0, 1, 4, 9], [])


def test_chunk_is_made_in_c() -> None:
    assert "__init__" not in vars(DataChunk)
    assert "__new__" not in vars(DataChunk)
    assert DataChunk.__init__ is list.__init__


def test_items_is_a_plain_list_of_its_own() -> None:
    chunk = DataChunk([1, 2])
    assert type(chunk.items) is list
    chunk.items.append(3)
    assert chunk == chunk.items == [1, 2]


def test_raw_elements_do_not_depend_on_how_a_subclass_iterates() -> None:
    class Rows(DataChunk[Any]):
        def __iter__(self) -> Iterator[Any]:
            for frame in self.raw_iterator():
                yield from frame

    rows = Rows([[1, 2], [3]])
    assert list(rows) == [1, 2, 3]
    assert list(rows.raw_iterator()) == rows.items == [[1, 2], [3]]
    assert rows.as_str() == "[1, 2, 3]"


@pytest.mark.parametrize(
    ("elements", "indent", "text"), [([], "", "[]"), (["a", 1], "", "[a, 1]"), ([DataChunk([1])], "\t", "\t[[1]]")]
)
def test_as_str(elements: list[object], indent: str, text: str) -> None:
    assert DataChunk(elements).as_str(indent) == text


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_chunk_pickles_and_copies_as_a_chunk(protocol: int) -> None:
    chunk = DataChunk([1, DataChunk("ab")])
    for twin in (pickle.loads(pickle.dumps(chunk, protocol)), copy.copy(chunk), copy.deepcopy(chunk)):
        assert type(twin) is DataChunk
        assert type(twin[1]) is DataChunk
        assert twin == chunk
