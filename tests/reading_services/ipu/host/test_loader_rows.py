"""Rows that are gathered: exactly what torch's own loop makes, in memory that is used again only when it may be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

import reading_services.ipu as poptorch
from reading_services.ipu import DataLoaderMode, Options
from reading_services.ipu.host.loader import gather_of
from tests.reading_services.ipu.host.test_loader import loader

IMAGES = torch.arange(50 * 3 * 100 * 100, dtype=torch.float32).view(50, 3, 100, 100)
LABELS = torch.arange(50)


class Several(Dataset[Any]):
    """A dataset that gives several rows at once."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        return {"image": IMAGES[index], "label": index}

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


DATASETS = [
    TensorDataset(IMAGES, LABELS),
    TensorDataset(LABELS),
    TensorDataset(IMAGES[::2], IMAGES[::2].to(torch.float16), LABELS[::2].bool()),
    Subset(TensorDataset(IMAGES, LABELS), list(range(49, 0, -2))),
    Several(),
    list(range(20)),
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and all(map(same, one, other))
    return one.dtype == other.dtype and torch.equal(one, other)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("workers", [0])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_the_same_as_torch(dataset: Any, shuffle: bool, drop_last: bool, workers: int) -> None:
    arguments: Any = {"shuffle": shuffle, "drop_last": drop_last, "num_workers": workers}
    torch.manual_seed(4)
    expected = [list(batches) for batches in [DataLoader(dataset, 6, **arguments)] * 2]
    torch.manual_seed(4)
    ours = poptorch.DataLoader(Options().deviceIterations(2), dataset, 3, persistent_workers=False, **arguments)
    found = [list(steps) for steps in [ours] * 2]
    for ours_of_epoch, theirs in zip(found, expected, strict=True):
        assert len(ours_of_epoch) == len(theirs)
        assert all(map(same, ours_of_epoch, theirs))


@pytest.mark.parametrize("dataset", [DATASETS[0], DATASETS[4]])
def test_the_same_as_torch_with_workers(dataset: Any) -> None:
    test_the_same_as_torch(dataset, shuffle=True, drop_last=False, workers=2)


@pytest.mark.parametrize("dataset", DATASETS)
def test_ahead_the_same_as_here(dataset: Any) -> None:
    with loader(dataset, batch_size=6) as here, loader(dataset, DataLoaderMode.Async, batch_size=6) as ahead:
        assert all(map(same, ahead, here))


def test_negative_positions_count_from_the_end() -> None:
    with loader(TensorDataset(LABELS), batch_size=2, sampler=[-1, 0, 3, -50]) as one:
        assert [step[0].tolist() for step in one] == [[49, 0], [3, 0]]


def test_positions_that_are_not_there() -> None:
    for bad in (50, -51):
        with loader(TensorDataset(LABELS), sampler=[bad]) as one, pytest.raises(IndexError):
            list(one)


@pytest.mark.parametrize(
    "dataset",
    [
        TensorDataset(torch.ones(3, requires_grad=True)),
        type("Mine", (TensorDataset,), {})(LABELS),
        TensorDataset(LABELS.to_sparse()),
        [1, 2, 3],
    ],
)
def test_what_is_read_row_by_row(dataset: Any) -> None:
    assert gather_of(dataset) is None


def test_a_users_collation_is_asked() -> None:
    with loader(TensorDataset(LABELS), batch_size=2, collate_fn=len) as one:
        assert list(one) == [2] * 25


def test_memory_is_used_again_when_nothing_lies_in_it_any_more() -> None:
    with loader(TensorDataset(IMAGES), batch_size=10) as one:
        assert len({step[0].data_ptr() for _ in range(4) for step in one}) <= 2
        kept = [step[0] for step in one]
        assert len({image.data_ptr() for image in kept}) == 5
        views = [step[0][3:, 1].numpy() for step in one]
        list(one)
    assert torch.equal(torch.cat(kept), IMAGES)
    for number, view in enumerate(views):
        assert torch.equal(torch.from_numpy(view), IMAGES[10 * number + 3 : 10 * number + 10, 1])


def test_a_step_outlives_its_loader() -> None:
    with loader(TensorDataset(IMAGES), batch_size=10) as one:
        steps = list(one)
    del one
    assert torch.equal(torch.cat([step[0] for step in steps]), IMAGES)
