"""Rows of a dataset that are read at once: those of tensors are gathered, into memory that is used again and again.

The batches are exactly those that torch's own loop over rows and its collation make.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import Subset, TensorDataset

from datapipes import memory
from datapipes.gathering import has_rows, selected
from reading_services.workers import arena

Gather = Callable[[Sequence[int]], Any]


def gather_of(dataset: Any) -> Gather | None:
    """A function from indices to a collated batch; None if rows can only be had one by one.

    >>> gather = gather_of(Subset(TensorDataset(torch.arange(10), torch.arange(10) * 2), [1, 3, 5]))
    >>> gather([2, 0])
    [tensor([5, 1]), tensor([10,  2])]
    """
    if type(dataset) is Subset and (inner := gather_of(dataset.dataset)) is not None:
        chosen = dataset.indices
        return lambda indices: inner([chosen[i] for i in indices])
    if type(dataset) is TensorDataset and dataset.tensors and all(map(has_rows, dataset.tensors)):
        tensors, count = dataset.tensors, len(dataset)
        return lambda indices: _rows(tensors, count, indices)
    return None


def _rows(tensors: Sequence[torch.Tensor], count: int, indices: Sequence[int]) -> list[torch.Tensor]:
    positions = torch.tensor(indices, dtype=torch.int64)
    positions = torch.where(positions < 0, positions + count, positions)
    return [selected(tensor, positions) for tensor in tensors]


class Recycled:
    """Memory for the batches of one loader: what one of them lay in is used again when it is gone."""

    def __init__(self) -> None:
        self._writer: arena.Writer | None = None

    def __call__(self, size: int) -> memoryview | None:
        if self._writer is None:
            self._writer = arena.recycled(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        return self._writer.reserve(size)

    def __reduce__(self) -> Any:
        return Recycled, ()

    def used_by(self, fetch: Gather) -> Gather:
        """The same function; its batches lie in this memory, unless they are to lie in other memory already."""

        def fetch_here(indices: Sequence[int]) -> Any:
            with memory.batches_may_be_from(self):
                return fetch(indices)

        return fetch_here
