"""to_iter_datapipe streams the elements of given keys; a key whose element fails is passed over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper, MapToIterConverter
from datapipes.map import MapDataPipe, SequenceWrapper
from tests.datapipes.iter.mishaps import failing_at, outcomes


class Squares(MapDataPipe[int]):
    """Has no length."""

    def __getitem__(self, key: int) -> int:
        if key >= 4:
            raise IndexError(key)
        return key * key


def test_all_keys_of_a_sized_pipe() -> None:
    dp = SequenceWrapper(["a", None]).to_iter_datapipe()
    assert isinstance(dp, MapToIterConverter)
    assert list(dp) == list(dp) == ["a", None]
    assert len(dp) == 2


@pytest.mark.parametrize("indices", [[2, 0], (2, 0), np.array([2, 0]), {2: "x", 0: "y"}.keys()])
def test_given_keys_in_their_order(indices: Any) -> None:
    dp = SequenceWrapper("abc").to_iter_datapipe(indices)
    assert list(dp) == ["c", "a"]
    assert len(dp) == 2


def test_no_keys_give_no_elements() -> None:
    dp = SequenceWrapper("abc").to_iter_datapipe([])
    assert (list(dp), len(dp)) == ([], 0)


def test_keys_of_any_kind() -> None:
    mapping = {"x": 1, "y": None}
    assert list(SequenceWrapper(mapping).to_iter_datapipe(mapping)) == [1, None]


def test_what_is_no_map_style_pipe_is_refused() -> None:
    stream: Any = IterableWrapper([1])
    with pytest.raises(BadArgumentType, match="MapToIterConverter can only apply on MapDataPipe, got IterableWrapper"):
        MapToIterConverter(stream)


def test_a_pipe_without_a_length_needs_keys() -> None:
    with pytest.raises(BadArgumentType, match=r"to_iter_datapipe\(\) needs to know the keys of Squares\(\)"):
        Squares().to_iter_datapipe()
    assert list(Squares().to_iter_datapipe([3, 1])) == [9, 1]


def test_an_error_costs_one_key() -> None:
    dp = SequenceWrapper(range(4)).map(failing_at(1)).to_iter_datapipe()
    assert outcomes(dp) == [0, "ValueError: 1 is bad", 2, 3]
    assert outcomes(Squares().to_iter_datapipe([1, 7, 2])) == [1, "IndexError: 7", 4]
    missing = SequenceWrapper({"x": 1}).to_iter_datapipe(["y", "x"])
    assert outcomes(missing) == ["KeyError: 'y'", 1]


def test_an_error_below_costs_one_key() -> None:
    dp = SequenceWrapper(range(3)).to_iter_datapipe().map(failing_at(1))
    assert outcomes(dp) == [0, "ValueError: 1 is bad", 2]
