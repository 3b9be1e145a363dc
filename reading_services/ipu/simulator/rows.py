"""The rows of a call: which micro-batch has which, and whether they come out even."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from datapipes.errors import BadArgument
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.names.errors import Error
from reading_services.ipu.simulator.on_device import computed, narrowed


def check_rows(inputs: Iterable[tuple[str, Tensor]], batching: Batching) -> int:
    """Raise unless each tensor can be cut into equal micro-batches; return the rows of one of the first's."""
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
    """One of so many equal blocks of rows, in memory of its own: ``forward`` may write to it."""
    if tensor.dim():
        size = tensor.shape[0] // blocks
        tensor = tensor[block * size : (block + 1) * size]
    return computed(tensor)


def wire_bytes(tensors: Iterable[Tensor]) -> int:
    """Number of bytes on the way to the device or back, where no number has 64 bits.

    >>> import torch
    >>> wire_bytes([torch.zeros(3, dtype=torch.int64)])
    12
    >>> wire_bytes([torch.zeros(10, dtype=torch.int64)]), wire_bytes([torch.zeros(10, dtype=torch.uint8)])
    (40, 10)
    """
    return sum(tensor.numel() * narrowed(tensor.dtype).itemsize for tensor in tensors)
