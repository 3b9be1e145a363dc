"""Batches in memory of our own: what torch's default_collate makes, or its error, whatever the rows are."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import default_collate

from datapipes.elements.chunk import DataChunk
from datapipes.iter import IterableWrapper
from datapipes.memory import batches

Pair = namedtuple("Pair", "left right")


class Named(torch.Tensor):
    """A tensor of a class of its own."""


def _tensor(size: int, width: int = 3) -> torch.Tensor:
    return torch.arange(float(size * width)).view(size, width)


def _array(size: int, dtype: str = "f4") -> Any:
    return np.arange(3 * size).reshape(size, 3).astype(dtype)


ROWS: dict[str, Callable[[int], Any]] = {
    "tensor": _tensor,
    "tensor of another type": lambda n: _tensor(n).long(),
    "tensor of half the type": lambda n: _tensor(n).half(),
    "wider tensor": lambda n: _tensor(n, 4),
    "transposed tensor": lambda n: _tensor(3, n).t(),
    "tensor of one value": lambda n: torch.tensor(n),
    "parameter": lambda n: _tensor(n).requires_grad_(),
    "sparse tensor": lambda n: _tensor(n).to_sparse(),
    "conjugated tensor": lambda n: _tensor(n).to(torch.complex64).conj(),
    "tensor without memory": lambda n: _tensor(n).to("meta"),
    "nested tensor": lambda n: torch.nested.nested_tensor([_tensor(n), _tensor(n + 1)]),
    "tensor of a class": lambda n: _tensor(n).as_subclass(Named),
    "array": _array,
    "array of another type": lambda n: _array(n, "i8"),
    "array of bytes in the other order": lambda n: _array(n, ">f4"),
    "array of shorts": lambda n: _array(n, "u2"),
    "array of flags": lambda n: _array(n, "?"),
    "array of objects": lambda n: _array(n, "O"),
    "array of text": lambda n: _array(n, "U"),
    "array of dates": lambda n: _array(n, "i8").astype("M8[s]"),
    "array of one value": lambda n: np.array(n),
    "reversed array": lambda n: _array(n)[::-1],
    "array in columns": lambda n: np.asfortranarray(_array(n)),
    "array that repeats": lambda n: np.broadcast_to(np.float32(n), (n, 3)),
    "array of a packed field": lambda n: np.zeros((n, 3), dtype=[("a", "i1"), ("b", "f4")])["b"],
    "array of fields": lambda n: np.zeros(n, dtype=[("a", "i1"), ("b", "f4")]),
    "array with a mask": lambda n: np.ma.masked_array(_array(n), mask=True),
    "number of numpy": lambda n: np.float32(n),
    "flag of numpy": lambda n: np.bool_(n),
    "text of numpy": lambda n: np.str_(n),
    "number": lambda n: n,
    "large number": lambda n: 1 << 70,
    "fraction": float,
    "flag": bool,
    "text": str,
    "nothing": lambda n: None,
}
_exclusive_because = st.sampled_from(sorted(ROWS)).map(ROWS.__getitem__)
_kinds: Any = st.recursive(
    _exclusive_because,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: lambda n: (two[0](n), two[1](n))),
        st.tuples(inner, inner).map(lambda two: lambda n: Pair(two[0](n), two[1](n))),
        st.tuples(inner, inner).map(lambda two: lambda n: [two[0](n), two[1](n)]),
        st.tuples(inner, inner).map(lambda two: lambda n: {"a": two[0](n), "b": two[1](n)}),
        inner.map(lambda one: lambda n: OrderedDict(a=one(n))),
    ),
    max_leaves=3,
)


@pytest.fixture(autouse=True, params=["memory given", "memory of torch", "in torch's worker"])
def given_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "memory given":
        monkeypatch.setattr(batches, "_SMALL", 1)
        batches.batches_from(bytearray)
    if request.param == "in torch's worker":
        monkeypatch.setattr(batches, "get_worker_info", object)
    yield
    batches.batches_from(None)


def _outcome(collate: Callable[[Any], Any], rows: Any) -> Any:
    try:
        return collate(rows)
    except Exception as error:
        return type(error), str(error)


def _described(value: Any) -> Any:
    """A value as something that can be compared."""
    if isinstance(value, torch.Tensor):
        alone = value.is_nested or value.layout is not torch.strided or value.device.type != "cpu"
        what = str(value) if alone else (value.shape, value.numpy(force=True).tobytes())
        return type(value), value.dtype, value.requires_grad, what
    if isinstance(value, dict):
        return type(value), [(key, _described(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [_described(each) for each in value]
    return type(value), repr(value)


@given(
    st.lists(_kinds, min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=4),
    st.sampled_from([list, tuple, DataChunk]),
    st.integers(0, 3),
)
def test_the_batch_or_the_error_is_torchs(kinds: Any, others: Any, container: Any, size: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of arrays that cannot be written to, and of nested tensors
        rows = container([kinds[0](size), *(kinds[which % len(kinds)](size + more // 2) for which, more in others)])
        assert _described(_outcome(batches.collated, rows)) == _described(_outcome(default_collate, rows))


@pytest.mark.parametrize("first", ROWS)
def test_rows_of_two_kinds_are_torchs(first: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for then in ROWS:
            for rows in ([ROWS[first](2), ROWS[then](2)], [ROWS[first](2), ROWS[first](2), ROWS[then](3)]):
                assert _described(_outcome(batches.collated, rows)) == _described(_outcome(default_collate, rows)), then


@pytest.mark.parametrize("wrap", [list, lambda row: (row, 1), lambda row: {"x": row}, lambda row: [row, "a"]])
def test_lists_of_many_numbers_are_warned_of_once(wrap: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_warned", [])
    rows = IterableWrapper([wrap([number] * 16) for number in range(4)]).batch(2)
    with pytest.warns(UserWarning, match=r"16 tensors of a batch of lists of 16 numbers.* pack\(\)") as given:
        found = list(rows.collate())
    assert [warning.filename for warning in given] == [__file__]
    assert _described(found) == _described([default_collate(batch) for batch in rows])


@pytest.mark.parametrize("row", [[1] * 15, (1,) * 16, ["a"] * 16, [torch.ones(1)] * 16])
def test_other_lists_are_not_warned_of(row: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_warned", [])
    assert _described(batches.collated([row, row])) == _described(default_collate([row, row]))
