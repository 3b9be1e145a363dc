"""Reduce gradients and share first weights among several processes, through ``torch.distributed``.

All processes take part in each exchange in the same order, because they run the same program. Each gets the same sums,
to the last bit, so that equal weights stay equal.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch import distributed as dist

from reading_services.ipu.names.messages import logger


def joined(processes: int) -> bool:
    """Return whether this process can reach all processes. Log a warning if there are several and it cannot."""
    if processes == 1:
        return False
    world = dist.get_world_size() if dist.is_available() and dist.is_initialized() else None
    if world != processes:
        logger.warning(
            "This is one of %d processes, and %s: GRADIENTS ARE NOT REDUCED among them, and each trains a model of its "
            "own. Call torch.distributed.init_process_group('gloo') in all of them first",
            processes,
            "no process group is initialised" if world is None else f"the process group has {world}",
        )
    return world == processes


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace gradients by their sums over all processes. A missing gradient counts as zeros."""
    by_type: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in parameters:
        by_type.setdefault(parameter.dtype, []).append(parameter)
    for dtype, group in by_type.items():
        # One exchange for all: the gradients, then for each the number of processes that have one.
        there = torch.tensor([parameter.grad is not None for parameter in group], dtype=dtype)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in group]
        flat = torch.cat([*(grad.reshape(-1) for grad in grads), there])
        dist.all_reduce(flat)
        *sums, having = torch.split(flat, [*(parameter.numel() for parameter in group), len(group)])
        for parameter, total, count in zip(group, sums, having, strict=True):
            parameter.grad = total.view_as(parameter) if count else None


def from_first(tensors: Iterable[Tensor]) -> None:
    """Broadcast the tensors of the first process to all."""
    for tensor in tensors:
        dist.broadcast(tensor.detach(), src=0)
