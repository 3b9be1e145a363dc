"""DataLoader: the contract's tables of steps, rows and lengths, in every mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

import reading_services.ipu as poptorch
from reading_services.ipu import CommGroupType, DataLoaderMode, Options, SharingStrategy
from tests.reading_services.ipu.host.datasets import (
    Endless,
    Numbers,
    Stream,
)

MODES = list(DataLoaderMode)
ASYNC = MODES[1:]
many_workers = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@contextmanager
def loader(
    dataset: Any, mode: DataLoaderMode = DataLoaderMode.Sync, options: Options | None = None, **arguments: Any
) -> Iterator[Any]:
    """A loader that is terminated; an asynchronous one forks, unless its options say otherwise."""
    asked = {"sharing_strategy": SharingStrategy.Fork, **arguments.pop("async_options", {})} if mode else None
    made = poptorch.DataLoader(options or Options(), dataset, mode=mode, async_options=asked, **arguments)
    try:
        yield made
    finally:
        made.terminate()


def numbers(step: torch.Tensor) -> list[int]:
    return [int(row) for row in step]


# -- how many rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elements", "batch", "iterations", "accumulation", "replicas", "combined", "steps"),
    [
        (10_000, 16, 50, 1, 1, 800, 12),
        (10_000, 16, 50, 1, 2, 1_600, 6),
        (10_000, 16, 50, 1, 4, 3_200, 3),
        (10_000, 2, 100, 1, 1, 200, 50),
        (100_000, 2, 100, 1, 4, 800, 125),
        (100_000, 2, 400, 8, 1, 6_400, 15),
        (2_000, 5, 5, 10, 1, 250, 8),
        (500, 1, 2, 1, 3, 6, 83),
    ],
)
def test_worked_examples(
    elements: int, batch: int, iterations: int, accumulation: int, replicas: int, combined: int, steps: int
) -> None:
    options = Options().deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    with loader(TensorDataset(torch.arange(elements)), options=options, batch_size=batch) as one:
        assert (one.combinedBatchSize, len(one)) == (combined, steps)
        found = [step[0] for step in one]
        assert [len(step) for step in found] == [combined] * steps
        assert torch.cat(found).tolist() == list(range(combined * steps))


@pytest.mark.parametrize(
    ("batch", "iterations", "accumulation", "replicas", "group", "combined", "steps"),
    [(1, 1, 1, 8, 4, 2, 32), (2, 2, 2, 4, 2, 16, 4)],
)
def test_replicas_that_share_rows(
    batch: int, iterations: int, accumulation: int, replicas: int, group: int, combined: int, steps: int
) -> None:
    options = Options().deviceIterations(iterations).replicationFactor(replicas)
    options.inputReplicaGrouping(group, CommGroupType.Consecutive).Training.gradientAccumulation(accumulation)
    with loader(TensorDataset(torch.arange(64)), options=options, batch_size=batch) as one:
        assert (one.combinedBatchSize, len(one)) == (combined, steps)


@pytest.mark.parametrize(
    ("processes", "replicas", "steps", "combined", "last"),
    [(4, 1, 390, 32, None), (4, 2, 195, 64, None), (1, 1, 1562, 32, None)],
)
def test_fifty_thousand_samples(
    monkeypatch: pytest.MonkeyPatch, processes: int, replicas: int, steps: int, combined: int, last: None
) -> None:
    if processes > 1:
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", str(processes))
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    options = Options().replicationFactor(replicas)
    with loader(TensorDataset(torch.arange(50_000)), options=options, batch_size=32) as one:
        assert len(one) == steps
        found = [step[0] for step in one]
    assert {len(step) for step in found} == {combined}
    first = 2 * 12_480 if processes > 1 else 0
    assert torch.cat(found).tolist() == list(range(first, first + steps * combined))


@many_workers
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("elements", "workers"), [(101, 7), (100, 7), (101, 0)])
def test_no_rows_of_a_stream_are_lost(mode: DataLoaderMode, dtype: torch.dtype, elements: int, workers: int) -> None:
    with loader(Stream(elements, dtype), mode, batch_size=4, num_workers=workers) as one:
        assert len(one) == 25
        for _ in range(2):
            steps = list(one)
            assert [(len(step), step.dtype) for step in steps] == [(4, dtype)] * 25
            assert len({row for step in steps for row in numbers(step)}) == 100


@many_workers
@pytest.mark.parametrize("worker_size", [1, 3, 4])
def test_workers_with_smaller_batches(worker_size: int) -> None:
    arguments: Any = {"batch_size": 4, "num_workers": 7, "rebatched_worker_size": worker_size}
    with loader(Stream(101), DataLoaderMode.AsyncRebatched, **arguments) as one:
        assert (one.batch_size, one.drop_last, one.combinedBatchSize) == (worker_size, False, 4)
        assert [len(step) for step in one] == [4] * 25


@many_workers
@pytest.mark.parametrize(
    ("dataset", "mode", "sizes"),
    [
        (Numbers(101), DataLoaderMode.Sync, {6: 16, 5: 1}),
        (Numbers(101), DataLoaderMode.Async, {6: 16, 5: 1}),
        (Numbers(101), DataLoaderMode.AsyncRebatched, {6: 16, 5: 1}),
        (Stream(101), DataLoaderMode.Sync, {6: 13, 3: 6, 5: 1}),
        (Stream(101), DataLoaderMode.Async, {6: 16, 5: 1}),
        (Stream(101), DataLoaderMode.AsyncRebatched, {6: 16, 5: 1}),
    ],
)
def test_left_overs_are_kept_on_request(dataset: Any, mode: DataLoaderMode, sizes: dict[int, int]) -> None:
    with loader(dataset, mode, batch_size=6, num_workers=7, drop_last=False) as one:
        assert len(one) == 17
        for _ in range(2):
            found = [len(step) for step in one]
            assert {size: found.count(size) for size in found} == sizes


@pytest.mark.parametrize("mode", MODES)
def test_a_collection_in_order_with_workers(mode: DataLoaderMode) -> None:
    options = Options().deviceIterations(2)
    with loader(Numbers(23), mode, options, batch_size=2, num_workers=2) as one:
        for _ in range(2):
            assert [numbers(step[:, 0]) for step in one] == [list(range(4 * i, 4 * i + 4)) for i in range(5)]


@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
def test_without_batches(mode: DataLoaderMode) -> None:
    with loader(Numbers(3), mode, batch_size=None, drop_last=False) as one:
        assert one.combinedBatchSize is None
        assert isinstance(one.options, Options)
        assert len(one) == 3
        assert [step.tolist() for step in one] == [[n] * 3 for n in range(3)]


def test_streams_with_and_without_a_length() -> None:
    with loader(Stream(101), batch_size=6, drop_last=False) as one:
        assert len(one) == 17
    with loader(Endless(), batch_size=3) as one:
        with pytest.raises(TypeError, match=r"object of type 'Endless' has no len\(\)"):
            len(one)
        assert [numbers(step) for step in one] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_any_sequence_is_a_dataset() -> None:
    with loader([torch.tensor(n) for n in range(5)], batch_size=2) as one:
        assert [numbers(step) for step in one] == [[0, 1], [2, 3]]


# -- iterating ---------------------------------------------------------------------------------------------------------


def test_sync_iterators_are_independent_and_async_is_one() -> None:
    with loader(Numbers(6), batch_size=2) as one:
        assert len([None for _ in one for _ in one]) == 9
    with loader(Numbers(6), DataLoaderMode.Async, batch_size=2) as one:
        assert iter(one) is iter(one)


def test_terminating_twice_and_where_there_is_nothing_to_end() -> None:
    with loader(Numbers(6), batch_size=2) as one:
        one.terminate()
        assert len(list(one)) == 3
    with loader(Numbers(6), DataLoaderMode.Async, batch_size=2) as one:
        one.terminate()
        one.terminate()
        with pytest.raises(AssertionError, match=r"terminate\(\)"):
            iter(one)


def test_options_of_the_accessor() -> None:
    with loader(Numbers(60), DataLoaderMode.Async, batch_size=2, async_options={"rebatched_size": 5}) as one:
        assert {len(step) for step in one} == {5}
