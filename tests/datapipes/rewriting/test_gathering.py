"""Batches that are gathered at once: the same as those put together row by row."""

from __future__ import annotations

import multiprocessing
import re
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import datasets
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import TensorDataset, default_collate

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe
from datapipes.map import MapDataPipe, SequenceWrapper
from datapipes.map.shuffle import ShuffledPositions
from datapipes.memory import batches as memory
from datapipes.position.iterator import PipeIterator
from datapipes.position.plan import in_run
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from loader2 import DataLoader2


class Fetches(MapDataPipe[Any]):
    """A data set that can give several rows at once, and says how it was asked."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, key: int) -> dict[str, Any]:
        self.asked.append(1)
        return {"number": key, "row": torch.full((2,), float(key))}

    def __getitems__(self, keys: list[int]) -> list[dict[str, Any]]:
        self.asked.append(len(keys))
        return [{"number": key, "row": torch.full((2,), float(key))} for key in keys]


def tensor_of(length: int) -> Any:
    return torch.arange(3 * length, dtype=torch.float32).view(length, 3)


def of_parameters(length: int) -> Any:
    return TensorDataset(tensor_of(length).requires_grad_())


def pairs_of(length: int) -> Any:
    return TensorDataset(tensor_of(length), torch.arange(length))


class FetchesAsOne(Fetches):
    """A data set whose batches are made by one call, as rows of a tensor or of an array."""

    def __init__(self, length: int, as_array: bool) -> None:
        super().__init__(length)
        self.rows = tensor_of(length)
        self.as_array = as_array

    def __getitem__(self, key: int) -> Any:
        return self.rows[key].numpy() if self.as_array else self.rows[key]

    def __getitems__(self, keys: list[int]) -> Any:
        self.asked.append(len(keys))
        found = self.rows[keys[0] : keys[-1] + 1] if keys == [*range(keys[0], keys[-1] + 1)] else self.rows[keys]
        return found.numpy() if self.as_array else found


def mapped(length: int) -> Any:
    with tempfile.TemporaryFile() as file:
        rows = np.memmap(file, np.float32, "w+", shape=(max(length, 1), 3))
    rows[:] = tensor_of(max(length, 1)).numpy()
    return rows[:length]


ROWS: dict[str, Callable[[int], Any]] = {
    "in order": lambda n: SequenceWrapper(tensor_of(n)).to_iter_datapipe(),
    "some": lambda n: SequenceWrapper(tensor_of(n)).to_iter_datapipe(range(0, n, 2)),
    "shuffled": lambda n: SequenceWrapper(tensor_of(n)).shuffle(),
    "shuffled as a stream": lambda n: SequenceWrapper(tensor_of(n)).to_iter_datapipe().shuffle(buffer_size=4),
    "the first": lambda n: SequenceWrapper(tensor_of(n)).shuffle().header(7),
    "without the first": lambda n: SequenceWrapper(tensor_of(n)).shuffle().skip(2).take(9),
    "tensors side by side": lambda n: SequenceWrapper(pairs_of(n)).shuffle(),
    "fetched": lambda n: Fetches(n).to_iter_datapipe().shuffle(),
    "fetched as a tensor": lambda n: FetchesAsOne(n, as_array=False).shuffle(),
    "fetched as an array": lambda n: FetchesAsOne(n, as_array=True).to_iter_datapipe(),
    "array": lambda n: SequenceWrapper(tensor_of(n).numpy()).shuffle(),
    "array of another order": lambda n: SequenceWrapper(np.asfortranarray(tensor_of(n).numpy())).to_iter_datapipe(),
    "memory map": lambda n: SequenceWrapper(mapped(n), deepcopy=False).to_iter_datapipe().shuffle(buffer_size=4),
}


def same(x: Any) -> Any:
    return x


def shard(pipe: IterDataPipe[Any], of: int) -> IterDataPipe[Any]:
    filtered = pipe.sharding_filter()
    filtered.apply_sharding(of, of - 1)
    return filtered


def is_gathered(pipe: Any) -> bool:
    whole = structure.unfold(pipe)
    return in_run(whole, structure.walk(whole), Run(0)) is not whole


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, str):
        return bool(one == other)
    return bool(one.dtype == other.dtype and one.equal(other))


@given(
    rows=st.sampled_from(sorted(ROWS)),
    length=st.integers(0, 20),
    size=st.integers(1, 5),
    of=st.integers(0, 3),
    drop_last=st.booleans(),
    stop=st.integers(0, 8),
)
def test_batches_are_those_put_together_row_by_row(
    rows: str, length: int, size: int, of: int, drop_last: bool, stop: int
) -> None:
    def loader(between: bool) -> DataLoader2[Any]:
        pipe = ROWS[rows](length)
        pipe = shard(pipe, of) if of else pipe.sharding_filter()
        pipe = pipe.map(same) if between else pipe
        dl: DataLoader2[Any] = DataLoader2(pipe.batch(size, drop_last=drop_last).collate())
        dl.seed(3)
        return dl

    expected, gathered = list(loader(between=True)), list(loader(between=False))
    assert len(gathered) == len(expected)
    assert all(map(equal, gathered, expected))
    begun = loader(between=False)
    batches = iter(begun)
    first = [next(batches) for _ in range(min(stop, len(expected) - 1))]
    resumed = loader(between=False)
    resumed.load_state_dict(begun.state_dict())
    assert len(first) + len(rest := list(resumed)) == len(expected)
    assert all(map(equal, [*first, *rest], expected))


@pytest.mark.parametrize("rows", ROWS)
def test_these_are_gathered(rows: str) -> None:
    assert is_gathered(ROWS[rows](4).batch(2).collate())


def plain(length: int) -> IterDataPipe[Any]:
    return SequenceWrapper(tensor_of(length)).to_iter_datapipe()


@pytest.mark.parametrize(
    "graph",
    [
        plain(4).map(same).batch(2).collate(),
        plain(4).batch(2).collate(collate_fn=same),
        plain(4).batch(2, wrapper_class=tuple).collate(),
        plain(4).batch(2).collate(on_error="skip"),
        SequenceWrapper([1, 2, 3]).to_iter_datapipe().batch(2).collate(),
        SequenceWrapper(tensor_of(3)).to_iter_datapipe([2, 0]).batch(2).collate(),
        SequenceWrapper(np.arange(3)).to_iter_datapipe().batch(2).collate(),
        SequenceWrapper(np.ones((3, 2))[::-1], deepcopy=False).to_iter_datapipe().batch(2).collate(),
        SequenceWrapper(np.ones((3, 2), ">f4")).to_iter_datapipe().batch(2).collate(),
        SequenceWrapper(np.full((3, 2), "text")).to_iter_datapipe().batch(2).collate(),
        SequenceWrapper(tensor_of(3).requires_grad_(), deepcopy=False).to_iter_datapipe().batch(2).collate(),
        SequenceWrapper(of_parameters(3), deepcopy=False).to_iter_datapipe().batch(2).collate(),
    ],
    ids=[
        "mapped",
        "own function",
        "tuples",
        "tolerant",
        "numbers",
        "chosen",
        "array of numbers",
        "reversed",
        "other bytes",
        "text",
        "learnt",
        "learnt, side by side",
    ],
)
def test_these_are_not(graph: IterDataPipe[Any]) -> None:
    assert not is_gathered(graph)


@pytest.mark.parametrize("rows", ROWS)
def test_batches_that_are_dealt_out_are_gathered(rows: str) -> None:
    def batches(of: int, index: int) -> list[Any]:
        graph = ROWS[rows](9).batch(2).collate().sharding_filter()
        return list(PipeIterator.over(Session.of(graph, Run(3, shard=(of, index)))))

    graph = structure.unfold(ROWS[rows](9).batch(2).collate().sharding_filter())
    collate = in_run(graph, structure.walk(graph), Run(3, shard=(2, 0)))
    assert collate.fn is not default_collate
    whole = batches(1, 0)
    assert all(map(equal, batches(2, 1), whole[1::2]))
    assert len(batches(2, 1)) == len(whole[1::2])


def no_first_row(batch: torch.Tensor) -> torch.Tensor:
    if bool((batch == 0).any()):
        raise ValueError("the first row is bad")
    return batch


@pytest.mark.parametrize("drop_last", [False, True])
def test_positions_that_come_in_tensors_are_behind_when_their_batch_fails(drop_last: bool) -> None:
    rows = tensor_of(11)

    def loader(between: bool) -> DataLoader2[Any]:
        stream: Any = SequenceWrapper(rows).shuffle().sharding_filter()
        batches = (stream.map(same) if between else stream).batch(2, drop_last=drop_last).collate()
        dl: DataLoader2[Any] = DataLoader2(batches.map(no_first_row))
        dl.seed(6)
        return dl

    def outcomes(dl: DataLoader2[Any], most: int = 99) -> list[Any]:
        batches = iter(dl)
        found: list[Any] = []
        while len(found) < most:
            try:
                found.append(next(batches).tolist())
            except ValueError as error:
                found.append(str(error))
            except StopIteration:
                break
        return found

    expected = outcomes(loader(between=True))
    assert "the first row is bad" in expected
    assert outcomes(loader(between=False)) == expected
    with patch.object(ShuffledPositions, "_in_blocks", lambda self, size: None):
        one_by_one = [loader(between=False) for _ in expected]
        states = [(outcomes(dl, taken), dl.state_dict()) for taken, dl in enumerate(one_by_one)]
    for taken, (_, state) in enumerate(states):
        resumed = loader(between=False)
        resumed.load_state_dict(state)
        assert outcomes(resumed) == expected[taken:]
        begun = loader(between=False)
        outcomes(begun, taken)
        assert begun.state_dict()["cells"] == state["cells"]


def test_a_data_set_is_asked_once_for_a_batch() -> None:
    data = Fetches(10)
    assert len(list(data.to_iter_datapipe().batch(4).collate())) == 3
    assert data.asked == [4, 4, 2]


@pytest.mark.parametrize("as_array", [False, True])
def test_a_batch_that_comes_as_one_is_the_loops_own(as_array: bool) -> None:
    data = FetchesAsOne(4, as_array)
    for batch in data.to_iter_datapipe().batch(2).collate():
        batch.zero_()
    assert data.rows.equal(tensor_of(4))
    assert data.asked == [2, 2]


@pytest.mark.parametrize("kind", [None, "torch", "numpy"])
def test_columns_of_hugging_face_are_not_taken_apart(kind: str | None) -> None:
    columns = {"row": [[float(i), 1.0] for i in range(7)], "number": [*range(7)], "text": [*"abcdefg"]}
    data: Any = datasets.Dataset.from_dict(columns).with_format(kind)
    pipe: Any = SequenceWrapper(data).shuffle()
    with patch.object(datasets.Dataset, "__getitems__", None):
        found = list(pipe.set_seed(1).batch(3).collate())
    expected = list(pipe.set_seed(1).map(same).batch(3).collate())
    assert all(map(equal, found, expected))
    assert [len(batch["text"]) for batch in found] == [3, 3, 1]


def test_a_row_of_an_array_that_is_not_there() -> None:
    graph = SequenceWrapper(np.ones((3, 2))).to_iter_datapipe(range(5)).batch(2).collate()
    batches = iter(graph)
    next(batches)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        next(batches)


def test_of_the_first_rows_no_more_are_asked_for() -> None:
    data = Fetches(10)
    assert sum(len(batch["number"]) for batch in data.shuffle().header(7).batch(4).collate()) == 7
    assert data.asked == [4, 3]


def test_each_shard_asks_for_its_own() -> None:
    data = Fetches(10)
    batches = list(shard(data.to_iter_datapipe(), 2).batch(4).collate())
    assert [batch["number"].tolist() for batch in batches] == [[1, 3, 5, 7], [9]]
    assert data.asked == [4, 1]


def test_batches_lie_in_the_memory_that_is_given() -> None:
    given: list[bytearray] = []

    def allocate(size: int) -> bytearray:
        given.append(bytearray(size))
        return given[-1]

    rows: Any = torch.randn(64, 300)
    batch = [(row, i) for i, row in enumerate(rows)]
    memory.batches_from(allocate)
    try:
        gathered = next(iter(SequenceWrapper(rows).to_iter_datapipe().batch(64).collate()))
        collated, numbers = memory.collated(batch)
    finally:
        memory.batches_from(None)
    assert gathered.equal(rows)
    assert collated.equal(rows)
    assert numbers.equal(default_collate(batch)[1])
    assert [len(each) for each in given] == [64 * 300 * 4] * 2


def test_what_cannot_lie_there_is_collated_as_usual() -> None:
    memory.batches_from(lambda size: None)
    try:
        rows = [torch.zeros(20_000, requires_grad=True), torch.ones(20_000)]
        assert memory.collated(rows).equal(torch.stack(rows))
        uneven = [torch.zeros(2), torch.zeros(3)]
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
            memory.collated(uneven)
    finally:
        memory.batches_from(None)


def test_the_memory_of_a_large_batch_is_used_again_when_nobody_refers_to_it() -> None:
    rows = [torch.full((1 << 17,), float(number)) for number in range(4)]
    first = memory.collated(rows)
    kept, place = first[1], first.data_ptr()
    second = memory.collated(rows)
    assert second.data_ptr() != place  # a row of the first is still in use
    assert kept.equal(rows[1])
    del first, kept
    again = memory.collated(rows[:3])
    assert again.data_ptr() == place
    assert again.equal(torch.stack(rows[:3]))


def huge_pages_asked_for(address: int) -> bool:
    """Whether the mapping that has an address was advised to lie in huge pages, by the system's account."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise LookupError(f"{address:x} is in no mapping")


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="a system without huge pages")
def test_a_large_batch_lies_in_huge_pages_where_there_are_some() -> None:
    rows = [torch.zeros(1 << 20)] * 2
    large = memory.collated([row.clone() for row in rows])
    small = memory.collated([row[: 1 << 18] for row in rows])
    assert huge_pages_asked_for(large.data_ptr())
    assert not huge_pages_asked_for(small.data_ptr())


def collate_in_a_fork(rows: list[torch.Tensor]) -> None:
    torch.set_num_threads(1)  # those of the parent are not there
    memory.collated(rows)


def test_a_forked_process_does_not_write_into_the_memory_of_its_parent() -> None:
    rows = [torch.zeros(1 << 18), torch.zeros(1 << 18)]
    memory.collated(rows)  # gone at once, and kept for the next
    child = multiprocessing.get_context("fork").Process(target=collate_in_a_fork, args=([row + 1 for row in rows],))
    batch = memory.collated(rows)
    child.start()
    child.join(300)
    assert child.exitcode == 0
    assert not batch.any()


def test_threads_do_not_share_the_memory_of_a_batch() -> None:
    def made(number: int) -> bool:
        rows = [torch.full((1 << 17,), float(number))] * 2
        return all(bool((memory.collated(rows) == number).all()) for _ in range(50))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(made, range(8)))
