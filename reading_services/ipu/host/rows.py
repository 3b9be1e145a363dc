"""Collate rows of tensors at once: exactly the batches that torch's own loop over rows and its collation make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.data import Subset, TensorDataset

from datapipes.rewriting.gathering import batches_of

GatherRows = Callable[[Sequence[int]], Any]


def gather_of(dataset: Any) -> GatherRows | None:
    """A function from indices to a collated batch; None if rows can only be had one by one.

    >>> import torch
    >>> gather = gather_of(Subset(TensorDataset(torch.arange(10), torch.arange(10) * 2), [1, 3, -1]))
    >>> gather([2, 0])
    [tensor([9, 1]), tensor([18,  2])]
    """
    if type(dataset) is Subset and (inner := gather_of(dataset.dataset)) is not None:
        chosen = dataset.indices
        return lambda indices: inner([chosen[i] for i in indices])
    if type(dataset) is TensorDataset and dataset.tensors and (together := batches_of(dataset)) is not None:
        count = len(dataset)
        return lambda indices: together([i + count if i < 0 else i for i in indices])
    return None
