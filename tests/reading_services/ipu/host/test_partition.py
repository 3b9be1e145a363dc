"""Several processes, each with its own part of the data: the contract's tables, and a naive reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.utils.data import IterableDataset, TensorDataset, get_worker_info

import reading_services.ipu as poptorch
from datapipes.iter import IterableWrapper, IterDataPipe
from reading_services.ipu import DataLoaderMode, Options, SharingStrategy
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.host.partition import ProcessBlock
from tests.reading_services.ipu.host.datasets import Endless, Numbers, Stream


def loader(process: int, processes: int, dataset: Any, seed: int | None = None, **arguments: Any) -> Any:
    options = Options()
    options.Distributed.configureProcessId(process, processes)
    if seed is not None:
        options.randomSeed(seed)
    return poptorch.DataLoader(options, dataset, **arguments)


def rows(steps: Any) -> list[int]:
    return [int(row) for step in steps for row in (step[0] if isinstance(step, list) else step)]


def naive(elements: int, combined: int, processes: int, drop_last: bool, seed: int | None, epochs: int) -> Any:
    """Elements that each process sees in each epoch, written down as the contract says it."""
    generator = torch.Generator()
    generator.manual_seed(seed or 0)
    seen = []
    for epoch in range(epochs):
        order = list(range(elements)) if seed is None else torch.randperm(elements, generator=generator).tolist()
        start, parts = 0, []
        for process in range(processes):
            if drop_last:
                size = combined * (elements // (combined * processes))
                moved = elements % size if seed is not None and epoch % 2 == 0 else 0
            else:
                size = elements // processes + (process < elements % processes)
                moved = 0
            parts.append(order[start + moved : start + moved + size])
            start += size
        seen.append(parts)
    return seen


@given(st.integers(1, 60), st.integers(1, 6), st.integers(2, 5), st.booleans(), st.none() | st.integers(0, 3))
def test_blocks_are_those_of_the_contract(
    elements: int, combined: int, processes: int, drop_last: bool, seed: int | None
) -> None:
    assume(not drop_last or elements >= combined * processes)
    blocks = [
        ProcessBlock(elements, Batching(micro_batch=combined, processes=processes, process=p), drop_last, seed)
        for p in range(processes)
    ]
    for epoch, parts in enumerate(naive(elements, combined, processes, drop_last, seed, epochs=3)):
        for block, part in zip(blocks, parts, strict=True):
            block.epoch = epoch
            assert list(block) == part
            assert len(block) == len(part)


def test_a_hundred_in_three() -> None:
    found = [rows(loader(p, 3, TensorDataset(torch.arange(100)), batch_size=4)) for p in range(3)]
    assert found == [list(range(32)), list(range(32, 64)), list(range(64, 96))]


@pytest.mark.parametrize(("combined", "processes"), [(4, 3), (2, 2)])
def test_two_epochs_meet_every_element(combined: int, processes: int) -> None:
    loaders = [
        loader(p, processes, TensorDataset(torch.arange(100)), 7, batch_size=combined, shuffle=True)
        for p in range(processes)
    ]
    epochs = [[rows(one) for one in loaders] for _ in range(2)]
    for parts in epochs:
        together = [row for part in parts for row in part]
        assert len(set(together)) == len(together)
    assert {row for parts in epochs for part in parts for row in part} == set(range(100))
    assert all(one != two for one, two in zip(*epochs, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
def test_every_way_of_loading_sees_the_same_permutations(mode: DataLoaderMode, workers: int) -> None:
    options = {"sharing_strategy": SharingStrategy.Fork} if mode else None
    one = loader(
        1,
        3,
        Numbers(50, width=1),
        11,
        batch_size=2,
        shuffle=True,
        num_workers=workers,
        mode=mode,
        async_options=options,
    )
    expected = naive(50, 2, 3, True, 11, epochs=3)
    assert [rows(one) for _ in range(3)] == [parts[1] for parts in expected]
    one.terminate()


@pytest.mark.parametrize("buffer_size", [1, 3])
def test_epochs_that_are_left_early_count_however_far_it_has_run_ahead(buffer_size: int) -> None:
    options = {"sharing_strategy": SharingStrategy.Fork, "buffer_size": buffer_size}
    one = loader(
        0, 2, Numbers(8, width=1), 3, batch_size=2, shuffle=True, mode=DataLoaderMode.Async, async_options=options
    )
    expected = [parts[0] for parts in naive(8, 2, 2, True, 3, epochs=4)]
    assert rows([next(iter(one))]) == expected[0][:2]
    assert rows(one) == expected[1]
    steps = iter(one)
    assert rows([next(steps), next(steps)]) == expected[2]
    assert rows(one) == expected[3]
    one.terminate()


def test_unequal_parts_without_drop_last() -> None:
    loaders = [loader(p, 4, TensorDataset(torch.arange(50_000)), batch_size=64, drop_last=False) for p in range(4)]
    assert [len(one) for one in loaders] == [196] * 4
    last = list(loaders[3])[-1][0]
    assert len(last) == 20
    assert rows(loaders[1])[0] == 12_500


def test_partitioning_can_be_left_to_the_dataset() -> None:
    one = loader(1, 3, TensorDataset(torch.arange(10)), batch_size=2, auto_distributed_partitioning=False, shuffle=True)
    assert sorted(rows(one)) == list(range(10))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"shuffle": True}, AssertionError, r"must set poptorch.Options.randomSeed\(\)"),
        ({"batch_size": None, "drop_last": False}, AssertionError, "batch_size=None not allowed"),
        ({"batch_size": 40}, ValueError, "100 elements are too few for 3 processes .* 40 rows"),
        ({"sampler": range(5)}, AssertionError, "sampler is mutually exclusive"),
        ({"batch_sampler": [[1], [2]]}, poptorch.Error, "mutually exclusive with auto_distributed_partitioning=True"),
    ],
)
def test_what_several_processes_cannot_share(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        loader(0, 3, TensorDataset(torch.arange(100)), **arguments)


# -- streams -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 40), st.integers(1, 4), st.integers(2, 4))
def test_a_stream_is_dealt_out(elements: int, batch: int, processes: int) -> None:
    parts = [rows(loader(p, processes, Stream(elements), batch_size=batch, drop_last=False)) for p in range(processes)]
    assert sorted(row for part in parts for row in part) == list(range(elements))
    assert parts[1] == list(range(1, elements, processes))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("drop_last", [True, False])
def test_dealing_out_with_workers(workers: int, drop_last: bool) -> None:
    parts = [rows(loader(p, 2, Stream(61), batch_size=4, drop_last=drop_last, num_workers=workers)) for p in range(2)]
    together = sorted(row for part in parts for row in part)
    if drop_last:
        assert len(parts[0]) == len(parts[1]) == 28
        assert len(set(together)) == len(together)
    else:
        assert together == list(range(61))


@pytest.mark.filterwarnings("ignore:.*has no sharding_filter")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("sharded", [True, False])
def test_a_pipe_is_sharded(workers: int, sharded: bool) -> None:
    pipe: Any = IterableWrapper(range(50)).shuffle()
    pipe = (pipe.sharding_filter() if sharded else pipe).map(float)
    loaders = [loader(p, 3, pipe, 5, batch_size=2, drop_last=False, num_workers=workers) for p in range(3)]
    epochs = [[row for one in loaders for row in rows(one)] for _ in range(2)]
    times = 1 if sharded else max(workers, 1)  # whose classes or functions may take a worker's part by themselves
    assert [sorted(epoch) for epoch in epochs] == [sorted([*range(50)] * times)] * 2
    assert epochs[0] != epochs[1]


class TakesItsPart(IterDataPipe[float]):
    """A pipe that looks up which worker it is in."""

    def __iter__(self) -> Any:
        info = get_worker_info()
        yield from map(float, range(50) if info is None else range(info.id, 50, info.num_workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pipe_that_takes_its_workers_part_loses_nothing(workers: int) -> None:
    loaders = [loader(p, 3, TakesItsPart(), 5, batch_size=2, drop_last=False, num_workers=workers) for p in range(3)]
    assert sorted(row for one in loaders for row in rows(one)) == list(range(50))


def test_lengths_of_shares() -> None:
    assert [len(loader(p, 3, Stream(20), batch_size=2, drop_last=False)) for p in range(3)] == [4, 4, 3]
    assert [len(loader(p, 3, Stream(20), batch_size=2)) for p in range(3)] == [3, 3, 3]
    with pytest.raises(TypeError, match=r"object of type 'Endless' has no len\(\)"):
        len(loader(0, 3, Endless(), batch_size=2))


def test_a_stream_can_take_its_part_by_itself() -> None:
    class Mine(IterableDataset[int]):
        def __iter__(self) -> Any:
            yield from range(4)

    assert rows(loader(1, 3, Mine(), batch_size=2, auto_distributed_partitioning=False)) == [0, 1, 2, 3]
