"""rebatch gives each row once, in batches of one size, and copies only what lies in several batches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datapipes import iterate
from datapipes.errors import BadArgument, StateError
from datapipes.iter import IterableWrapper, Rebatcher
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.datapipes.iter.mishaps import outcomes

KINDS: dict[str, tuple[Callable[[list[int]], Any], Callable[[Any], list[int]]]] = {
    "list": (lambda rows: {"x": rows}, lambda batch: batch["x"]),
    "tensor": (lambda rows: torch.tensor(rows, dtype=torch.int64), torch.Tensor.tolist),
    "array": (lambda rows: {"x": numpy.array(rows, dtype="i4")}, lambda batch: batch["x"].tolist()),
    "record batch": (
        lambda rows: pyarrow.record_batch({"x": pyarrow.array(rows, pyarrow.int64())}),
        lambda batch: batch.column(0).to_pylist(),
    ),
    "table": (
        lambda rows: pyarrow.table({"x": pyarrow.array(rows, pyarrow.int64())}),
        lambda batch: batch.column(0).to_pylist(),
    ),
}


@given(
    st.lists(st.integers(0, 7)),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from([0, 1, 5, 99]),
    st.sampled_from([*KINDS]),
    st.data(),
)
def test_rows_wherever_it_is_resumed(
    sizes: list[int], rows: int, drop_last: bool, shuffle_rows: int, kind: str, data: st.DataObject
) -> None:
    make, rows_of = KINDS[kind]
    batches = [[10 * i + k for k in range(size)] for i, size in enumerate(sizes)]
    source = IterableWrapper(list(map(make, batches)), deepcopy=False)
    pipe = source.rebatch(rows, drop_last, shuffle_rows).set_seed(1)
    found = list(map(rows_of, pipe))
    whole = list(chain(*batches))
    if not shuffle_rows:
        ended = range(0, len(whole) - len(whole) % rows if drop_last else len(whole), rows)
        assert found == [whole[at : at + rows] for at in ended]
    assert {len(batch) for batch in found[:-1]} <= {rows}
    assert {*chain(*found)} <= {*whole}
    assert sum(map(len, found)) == len(whole) - (len(whole) % rows if drop_last else 0)
    iterator = iterate(pipe.set_seed(1))
    behind = list(map(rows_of, islice(iterator, data.draw(st.integers(0, len(found))))))
    again = iterate(pipe)
    again.load_state_dict(iterator.state_dict())
    assert behind + list(map(rows_of, again)) == behind + list(map(rows_of, iterator)) == found


def test_a_batch_within_one_that_came_is_a_slice_of_it() -> None:
    whole = torch.arange(10)
    first, second = IterableWrapper([{"x": whole[:8]}, {"x": whole[8:]}], deepcopy=False).rebatch(4).take(2)
    assert (first["x"].data_ptr(), second["x"].data_ptr()) == (whole[0].data_ptr(), whole[4].data_ptr())
    array = numpy.arange(6)
    first, second = IterableWrapper([array], deepcopy=False).rebatch(3, tensors=True)
    assert torch.equal(second, torch.tensor([3, 4, 5]))
    array[5] = 0
    assert second[2] == 0


def test_tensors_of_whatever_came() -> None:
    for batch in (
        {"x": [1, 2, 3]},
        {"x": numpy.array([1, 2, 3])},
        pyarrow.table({"x": [1, 2, 3]}),
        pyarrow.record_batch({"x": [1, 2, 3]}),
    ):
        first, last = IterableWrapper([batch]).rebatch(2, tensors=True)
        assert torch.equal(first["x"], torch.tensor([1, 2]))
        assert torch.equal(last["x"], torch.tensor([3]))
    with pytest.raises(TypeError, match="column 'x' is of type string, but tensors are made of numbers"):
        list(IterableWrapper([pyarrow.table({"x": ["a"]})]).rebatch(2, tensors=True))


def test_rows_are_mixed_across_batches() -> None:
    batches = [torch.arange(10 * i, 10 * i + 10) for i in range(6)]
    found = list(IterableWrapper(batches).rebatch(10, shuffle_rows=30).set_seed(1))
    assert [len({int(x) // 10 for x in batch}) for batch in found] == [3] * 6
    assert [{int(x) // 30 for x in batch} for batch in found] == [{0}] * 3 + [{1}] * 3
    assert list(IterableWrapper(batches).rebatch(10, shuffle_rows=30).set_shuffle(False).map(max)) == [
        max(batch) for batch in batches
    ]


def test_what_is_no_batch_costs_itself_alone() -> None:
    wrong: list[Any] = [
        5,
        [1],
        {},
        {"x": [1], "y": [1, 2]},
        {"x": "text"},
        torch.tensor(1),
        {"x": torch.zeros(1)},
        {"y": [1]},
    ]
    found = outcomes(IterableWrapper([{"x": [1]}, *wrong, {"x": [2, 3]}]).rebatch(2))
    assert [str(x).partition(":")[0] for x in found[:-2]] == ["BadArgument"] * len(wrong)
    assert found[-2:] == [{"x": [1, 2]}, {"x": [3]}]


def test_what_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"at least one row, in \.rebatch\(0\)"):
        IterableWrapper([]).rebatch(0)
    with pytest.raises(BadArgument, match="not be below 0"):
        IterableWrapper([]).rebatch(1, shuffle_rows=-1)
    pipe = IterableWrapper([torch.arange(5)]).rebatch(2)
    iterator = iterate(pipe)
    next(iterator)
    state = iterator.state_dict()
    state["cells"][max(state["cells"])]["shuffled"] = -1
    with pytest.raises(StateError, match="does not fit stage"):
        iterate(pipe).load_state_dict(sealed(state))


def test_row_groups_of_parquet(tmp_path: Path) -> None:
    file = str(tmp_path / "rows.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"x": range(100), "name": ["a"] * 100}), file, row_group_size=30)
    groups = IterableWrapper([file]).list_row_groups().shuffle().sharding_filter().read_parquet(columns=["x"])
    found = [batch["x"].tolist() for batch in groups.rebatch(32, shuffle_rows=60, tensors=True)]
    assert list(map(len, found)) == [32, 32, 32, 4]
    assert sorted(chain(*found)) == list(range(100))


def columns(i: int) -> dict[str, torch.Tensor]:
    return {"x": torch.arange(7 * i, 7 * i + 7)}


def test_shards_in_workers() -> None:
    graph: Rebatcher = IterableWrapper(range(20)).sharding_filter().map(columns).rebatch(8, shuffle_rows=20)
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(num_workers=2)) as loader:
        assert sorted(int(x) for batch in loader for x in batch["x"]) == list(range(140))
