"""Rows of a step: division of the inputs into micro-batches, its check, and the places of outputs.

The step has one output tensor for each output of ``forward``. The outputs of each kept micro-batch are written into its
rows, in the order of the inputs: device iterations slowest, then accumulation steps, replicas fastest. Scalars, for
example losses, have one row each, unless there is only one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from datapipes.errors import BadArgument
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.names.enums import OutputMode
from reading_services.ipu.names.errors import Error
from reading_services.ipu.simulator.on_device import computed, narrowed


def check_rows(inputs: Iterable[tuple[str, Tensor]], batching: Batching) -> int:
    """Raise unless each tensor can be cut into equal micro-batches. Return the rows of the first tensor's."""
    sizes = []
    for name, tensor in inputs:
        if tensor.numel() == 0:
            raise Error(f"Zero-sized tensors are unsupported: {name} has the shape {tuple(tensor.shape)}")
        rows = tensor.shape[0] if tensor.dim() else 1
        if rows % batching.micro_batches:
            raise BadArgument(
                f"Invalid batch dimension: In the input {name} of shape {tuple(tensor.shape)}, dimension 0 is {rows}, "
                f"and has to be a multiple of {batching.micro_batches}, the product of "
                f"Options.deviceIterations({batching.iterations}), Options.replicationFactor({batching.replicas}) "
                f"divided by Options.inputReplicaGrouping.input_group_size({batching.group_size}), and "
                f"Options.Training.gradientAccumulation({batching.accumulation})"
            )
        sizes.append(rows // batching.micro_batches)
    return sizes[0] if sizes else 0


def rows_of(tensor: Tensor, block: int, blocks: int) -> Tensor:
    """Return one of ``blocks`` equal blocks of rows, in memory of its own: ``forward`` may write to it."""
    if tensor.dim():
        size = tensor.shape[0] // blocks
        tensor = tensor[block * size : (block + 1) * size]
    return computed(tensor)


def wire_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the number of bytes on the link, on which no number has 64 bits.

    >>> wire_bytes([torch.zeros(3, dtype=torch.int64)])
    12
    >>> wire_bytes([torch.zeros(10, dtype=torch.int64)]), wire_bytes([torch.zeros(10, dtype=torch.uint8)])
    (40, 10)
    """
    return sum(tensor.numel() * narrowed(tensor.dtype).itemsize for tensor in tensors)


@dataclass(frozen=True)
class KeptOutputs:
    """Selection of micro-batches whose outputs are kept.

    >>> kept = KeptOutputs(OutputMode.EveryN, 2, Batching(micro_batch=1, iterations=4))
    >>> kept.count, [kept.slot(d, 0, 0) for d in range(4)]
    (2, [None, 0, None, 1])
    """

    mode: OutputMode
    period: int
    batching: Batching

    def __post_init__(self) -> None:
        iterations = self.batching.iterations
        if self.mode == OutputMode.EveryN and self.period > iterations:
            raise Error(f"Return period must be <= deviceIterations: {self.period} > {iterations}")
        if self.mode == OutputMode.EveryN and iterations % self.period:
            raise Error(f"Return period must be a factor of deviceIterations: {self.period} is not one of {iterations}")

    @property
    def count(self) -> int:
        """Number of micro-batches whose outputs are kept."""
        all_of_them = self.batching.iterations * self.batching.accumulation * self.batching.replicas
        match self.mode:
            case OutputMode.All:
                return all_of_them
            case OutputMode.EveryN:
                return all_of_them // self.period
        return self.batching.replicas

    @property
    def each_step(self) -> bool:
        """Whether outputs come back during the step, and not only at its end."""
        return self.mode in (OutputMode.All, OutputMode.EveryN)

    def slot(self, d: int, a: int, r: int) -> int | None:
        """Return the place of one micro-batch's outputs among the kept ones. Return None if they are not kept."""
        b = self.batching
        match self.mode:
            case OutputMode.All:
                return (d * b.accumulation + a) * b.replicas + r
            case OutputMode.EveryN:
                kept, left = divmod(d + 1, self.period)
                return None if left else ((kept - 1) * b.accumulation + a) * b.replicas + r
            case OutputMode.Sum:
                return r
        return r if (d, a) == (b.iterations - 1, b.accumulation - 1) else None


class Outputs:
    """Output tensors of one step while they are filled."""

    def __init__(self, kept: KeptOutputs, like: list[Tensor]) -> None:
        self.kept = kept
        self.like = like
        make = torch.zeros if kept.mode == OutputMode.Sum else torch.empty
        self.tensors = [make(_shape(each, kept.count), dtype=narrowed(each.dtype)) for each in like]

    def add(self, d: int, a: int, r: int, tensors: list[Tensor]) -> None:
        """Copy the outputs of one micro-batch, if they are kept."""
        slot = self.kept.slot(d, a, r)
        if slot is None:
            return
        for whole, like, tensor in zip(self.tensors, self.like, tensors, strict=True):
            if tensor.shape != like.shape:
                raise Error(
                    f"an output has the shape {tuple(tensor.shape)}, but {tuple(like.shape)} when the model was "
                    "compiled: shapes must not depend on the data"
                )
            rows = like.shape[0] if like.dim() else 1
            place = whole[slot * rows : (slot + 1) * rows] if like.dim() else whole[slot]
            if self.kept.mode == OutputMode.Sum:
                place += tensor.detach()
            else:
                place.copy_(tensor.detach())

    def finished(self) -> list[Tensor]:
        """Return the tensors, to which no other reference is kept. A single scalar has no dimensions."""
        done = [
            whole[0] if like.dim() == 0 and self.kept.count == 1 else whole
            for whole, like in zip(self.tensors, self.like, strict=True)
        ]
        for tensor in done:
            tensor.backward = no_backward  # type: ignore[method-assign]  # for this tensor and copies of it
        return done


def no_backward(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise in place of an output's ``backward``: the gradients were used on the device."""
    raise Error(
        "backward() cannot be called explicitly on outputs of a PopTorch model: the call of the model has trained it"
    )


def _shape(like: Tensor, count: int) -> tuple[int, ...]:
    return (count * like.shape[0], *like.shape[1:]) if like.dim() else (count,)
