"""Models for the tests of the simulated device, and plain loops that say what a device should do."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from reading_services.ipu import OutputMode
from reading_services.ipu.host.arithmetic import Batching


class Linear(nn.Module):
    """A layer and its loss; ``(x, loss)`` when trained, else ``x``."""

    def __init__(self, inside: int = 3, outside: int = 2, reduction: str = "mean") -> None:
        super().__init__()
        self.layer = nn.Linear(inside, outside)
        self.loss = nn.MSELoss(reduction=reduction)

    def forward(self, x: Tensor, target: Tensor | None = None) -> Any:
        out = self.layer(x)
        return out if target is None else (out, self.loss(out, target))


class Same(nn.Module):
    """Gives back what it is given, with a loss so that it can be trained."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, (self.scale * x.float()).sum()


class Anything(nn.Module):
    """Gives back what it is given."""

    def forward(self, x: Any, y: Any = None, *, flag: Any = 1) -> Any:
        return x if y is None else (x, y)


def micro_batches(batching: Batching) -> Iterator[tuple[int, int, int]]:
    """(d, a, r), in the order of the outputs."""
    for d in range(batching.iterations):
        for a in range(batching.accumulation):
            for r in range(batching.replicas):
                yield d, a, r


def block_by_counting(batching: Batching, d: int, a: int, r: int, orthogonal: bool) -> int:
    """The block of rows that one replica gets, found by dealing blocks out one after the other."""
    groups = batching.replicas // batching.group_size
    group = r % groups if orthogonal else r // batching.group_size
    dealt = 0
    for one_d in range(batching.iterations):
        for one_a in range(batching.accumulation):
            for one_group in range(groups):
                if (one_d, one_a, one_group) == (d, a, group):
                    return dealt
                dealt += 1
    raise IndexError


def kept_by_counting(
    mode: OutputMode, period: int, batching: Batching, each: dict[tuple[int, int, int], Tensor]
) -> Tensor:
    """The output of a step, by the outputs of its micro-batches."""
    last = (batching.iterations - 1, batching.accumulation - 1)
    if mode == OutputMode.All:
        kept = [each[one] for one in micro_batches(batching)]
    elif mode == OutputMode.EveryN:
        kept = [each[d, a, r] for d, a, r in micro_batches(batching) if (d + 1) % period == 0]
    elif mode == OutputMode.Final:
        kept = [each[*last, r] for r in range(batching.replicas)]
    else:
        kept = [sum_of([t for (_, _, of), t in each.items() if of == r]) for r in range(batching.replicas)]
    if kept[0].dim():
        return torch.cat(kept)
    return torch.stack(kept) if len(kept) > 1 else kept[0]


def sum_of(tensors: list[Tensor]) -> Tensor:
    total = torch.zeros_like(tensors[0])
    for tensor in tensors:
        total = total + tensor
    return total


def trained_by_hand(
    model: nn.Module,
    make: Any,
    steps: list[tuple[Tensor, Tensor]],
    batching: Batching,
    mean: bool = True,
) -> nn.Module:
    """The same training in plain torch: one update for each device iteration, of the sum or mean of all gradients."""
    model = deepcopy(model)
    optimizer = make(model.parameters())
    for x, target in steps:
        size = len(x) // batching.micro_batches
        for d in range(batching.iterations):
            optimizer.zero_grad()
            for a in range(batching.accumulation):
                for r in range(batching.replicas):
                    start = block_by_counting(batching, d, a, r, orthogonal=bool(batching.group_type == 2)) * size
                    model(x[start : start + size], target[start : start + size])[1].backward()
            for parameter in model.parameters():
                if mean and parameter.grad is not None:
                    parameter.grad /= batching.accumulation * batching.replicas
            optimizer.step()
    return model
