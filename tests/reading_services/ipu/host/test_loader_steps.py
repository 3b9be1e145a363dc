"""DataLoader: samplers of batches, what a step looks like, and what its random numbers follow from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import Sampler

from reading_services.ipu import DataLoaderMode, Options, registerCustomArgParser
from tests.reading_services.ipu.host.datasets import Couple, CoupleParser, Drawn, Elements, Named, Numbers
from tests.reading_services.ipu.host.test_loader import ASYNC, MODES, loader, numbers

# -- samplers ----------------------------------------------------------------------------------------------------------


class Uneven(Sampler[list[int]]):
    """Batches of 1, 2, 3, 1, 2 indices."""

    def __init__(self, with_length: bool = True) -> None:
        self.batches = [[0], [1, 2], [3, 4, 5], [6], [7, 8]]
        self.with_length = with_length

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)

    def __len__(self) -> int:
        if not self.with_length:
            raise NotImplementedError
        return len(self.batches)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("n", "drop_last", "steps"),
    [
        (1, True, [[0], [1, 2], [3, 4, 5], [6], [7, 8]]),
        (2, True, [[0, 1, 2], [3, 4, 5, 6]]),
        (2, False, [[0, 1, 2], [3, 4, 5, 6], [7, 8]]),
        (5, True, [[0, 1, 2, 3, 4, 5, 6, 7, 8]]),
        (6, False, [[0, 1, 2, 3, 4, 5, 6, 7, 8]]),
    ],
)
def test_batch_samplers(mode: DataLoaderMode, n: int, drop_last: bool, steps: list[list[int]]) -> None:
    options = Options().deviceIterations(n)
    with loader(Numbers(9), mode, options, batch_sampler=Uneven(), drop_last=drop_last) as one:
        assert (one.combinedBatchSize, len(one)) == (n, len(steps))
        for _ in range(2):
            assert [numbers(step[:, 0]) for step in one] == steps


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_sampler_of_one_size(mode: DataLoaderMode, workers: int) -> None:
    sampler = torch.utils.data.BatchSampler(range(20), batch_size=3, drop_last=False)
    options = Options().deviceIterations(2)
    with loader(Numbers(20), mode, options, batch_sampler=sampler, num_workers=workers) as one:
        assert (one.combinedBatchSize, len(one)) == (6, 3)
        assert [numbers(step[:, 0]) for step in one] == [list(range(6 * i, 6 * i + 6)) for i in range(3)]


def test_a_sampler_without_enough_batches_makes_no_steps() -> None:
    with loader(Numbers(9), options=Options().deviceIterations(6), batch_sampler=Uneven()) as one:
        assert (list(one), len(one)) == ([], 0)
    with loader(Numbers(3), options=Options().deviceIterations(2), batch_sampler=[], drop_last=False) as one:
        assert list(one) == []


@pytest.mark.parametrize("mode", MODES)
def test_batches_of_a_sampler_in_a_users_type(mode: DataLoaderMode) -> None:
    registerCustomArgParser(Couple, CoupleParser())
    try:
        options = Options().deviceIterations(2)
        arguments = {"batch_sampler": [[0, 1], [2, 3], [4, 5], [6, 7]], "collate_fn": couple_of}
        with loader(Numbers(8), mode, options, **arguments) as one:
            found = [(numbers(step.left), numbers(step.right), step.label) for step in one]
        assert [found[0][:2], found[1][:2]] == [([0, 1, 2, 3], [0, -1, -2, -3]), ([4, 5, 6, 7], [-4, -5, -6, -7])]
    finally:
        registerCustomArgParser(Couple, None)


@pytest.mark.parametrize("arguments", [{"batch_sampler": [[0, 1, 2], [3], [], [4, 5]]}, {"batch_size": 2}])
def test_a_collate_function_decides_about_rows_and_types(arguments: dict[str, Any]) -> None:
    steps = {}
    for mode in (DataLoaderMode.Sync, DataLoaderMode.Async):
        with loader(Numbers(6), mode, collate_fn=padded, **arguments) as one:
            steps[mode] = list(one)
    for sync, ahead in zip(*steps.values(), strict=True):
        assert len(sync["rows"]) == len(ahead["rows"])
        assert ahead["label"].dtype == torch.int64
        for key in sync:
            assert torch.equal(sync[key].to(ahead[key].dtype), ahead[key])
    assert len({each["label"].dtype for each in steps[DataLoaderMode.Sync]}) == 2
    assert len({len(each["rows"]) for each in steps[DataLoaderMode.Async]}) > 1


def padded(rows: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rows of at most five numbers, of some only, with labels of whatever type torch makes of a list."""
    kept = [row for row in rows if row[0] != 4]
    whole = torch.zeros(len(kept), 5)
    for row, numbers_of_it in zip(whole, kept, strict=True):
        row[: len(numbers_of_it)] = numbers_of_it
    return {"rows": whole, "label": torch.tensor([int(row[0]) if row[0] < 3 else float(row[0]) for row in kept])}


def couple_of(rows: list[torch.Tensor]) -> Couple:
    left = torch.stack(rows)[:, 0]
    return Couple(left, -left, "label")


# -- what a step is ----------------------------------------------------------------------------------------------------

X, Y = torch.ones(3), torch.zeros(1)


@pytest.mark.parametrize(
    ("element", "sync", "other"),
    [
        (X, torch.Tensor, torch.Tensor),
        ((X, Y), list, list),
        ([X, Y], list, list),
        ({"x": X, "y": Y}, dict, dict),
        (Named(X, Y), Named, list),
        ((X, 5), list, list),
        ({"x": (X, {"y": Y})}, dict, dict),
    ],
)
def test_containers(element: Any, sync: type, other: type) -> None:
    dataset = Elements(*[element] * 4)
    for mode, kind in ((DataLoaderMode.Sync, sync), (DataLoaderMode.Async, other)):
        with loader(dataset, mode, batch_size=2) as one:
            steps = list(one)
        assert [type(step) for step in steps] == [kind, kind]
    with loader(Elements((X, 5), (X, 6)), DataLoaderMode.Async, batch_size=2) as one:
        assert next(iter(one))[1].tolist() == [5, 6]


# -- random numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ASYNC)
def test_shuffling_ahead_follows_from_the_seed(mode: DataLoaderMode) -> None:
    def epochs(seed: int, by_options: bool) -> list[list[int]]:
        options = Options()
        if by_options:
            options.randomSeed(seed)
        torch.manual_seed(0 if by_options else seed)
        with loader(Numbers(20, 1), mode, options, batch_size=2, shuffle=True) as one:
            return [[row for step in one for row in numbers(step)] for _ in range(2)]

    for by_options in (True, False):
        first = epochs(1, by_options)
        assert first == epochs(1, by_options) != epochs(2, by_options)
        assert first[0] != first[1]
        assert [sorted(epoch) for epoch in first] == [list(range(20))] * 2


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_draw_alike_each_time(workers: int) -> None:
    def drawn() -> list[Any]:
        options = Options().randomSeed(3)
        with loader(Drawn(), DataLoaderMode.Async, options, batch_size=2, num_workers=workers) as one:
            return [step.tolist() for _ in range(2) for step in one]

    assert drawn() == drawn()
