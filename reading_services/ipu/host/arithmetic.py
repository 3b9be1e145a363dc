"""Batch sizes of the IPU: number of rows of a step, and their division, shared by loader and device.

A step takes one combined batch. It has one micro-batch for each device iteration, accumulation step and input group,
the iterations slowest and the groups fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reading_services.ipu.names.enums import CommGroupType

if TYPE_CHECKING:
    from reading_services.ipu.options import Options


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Numbers that determine the sizes of batches.

    >>> batching = Batching(micro_batch=16, iterations=50, replicas=4)
    >>> batching.combined, batching.steps(10_000, drop_last=True)
    (3200, 3)
    >>> Batching(micro_batch=1, iterations=2, accumulation=2, replicas=2).block(d=1, a=0, g=1)
    5
    """

    micro_batch: int | None
    """mb: rows of one forward pass; None if the dataset makes its batches itself."""
    accumulation: int = 1
    """A: micro-batches whose gradients one weight update sums up."""
    replicas: int = 1
    """R: copies of the model in this process."""
    group_size: int = 1
    """G: replicas that get the same rows."""
    group_type: CommGroupType = CommGroupType.Consecutive
    iterations: int = 1
    """D: weight updates, or batches, in one step."""
    processes: int = 1
    """P: processes that share the data."""
    process: int = 0
    """p: the number of this process."""

    def __post_init__(self) -> None:
        counts = (self.accumulation, self.replicas, self.group_size, self.iterations, self.processes)
        if min(counts) < 1 or (self.micro_batch is not None and self.micro_batch < 1):
            raise ValueError(f"{self}: each of these counts must be 1 or more")
        if self.group_size > self.replicas:
            raise ValueError(
                f"input groups of {self.group_size} replicas, and only {self.replicas} replicas: "
                "call replicationFactor before inputReplicaGrouping"
            )
        if not 0 <= self.process < self.processes:
            raise ValueError(
                f"process {self.process} of {self.processes}: processes are counted from 0; "
                "the order is configureProcessId(process_id, num_processes)"
            )

    @classmethod
    def of(cls, options: Options, batch_size: int | None) -> Batching:
        """Return the batch sizes of options and a loader's ``batch_size``."""
        return cls(
            micro_batch=batch_size,
            accumulation=options.Training.gradient_accumulation,
            replicas=options.replication_factor,
            group_size=options.input_group_size,
            group_type=options.input_cgt,
            iterations=options.device_iterations,
            processes=options.Distributed.numProcesses,
            process=options.Distributed.processId,
        )

    @property
    def groups(self) -> int:
        """K: input groups, each with rows of its own."""
        return self.replicas // self.group_size

    @property
    def micro_batches(self) -> int:
        """n: micro-batches in one step."""
        return self.iterations * self.accumulation * self.groups

    @property
    def combined(self) -> int | None:
        """Rows of one step."""
        return None if self.micro_batch is None else self.micro_batch * self.micro_batches

    @property
    def replica_batch(self) -> int | None:
        """Rows that one replica uses for one weight update."""
        return None if self.micro_batch is None else self.micro_batch * self.accumulation

    @property
    def global_batch(self) -> int | None:
        """Rows of one weight update in all replicas of this process. Rows of an input group count for each replica."""
        return None if self.replica_batch is None else self.replica_batch * self.replicas

    def block(self, d: int, a: int, g: int) -> int:
        """Return the index in a step of the micro-batch of device iteration d, accumulation step a, input group g."""
        return (d * self.accumulation + a) * self.groups + g

    def group_of(self, replica: int) -> int:
        """Return the input group of a replica."""
        if self.group_type == CommGroupType.Orthogonal:
            return replica % self.groups
        return replica // self.group_size

    def part(self, elements: int, drop_last: bool) -> range:
        """Return the indices of a dataset that belong to this process: one block without a gap.

        >>> Batching(micro_batch=4, processes=3, process=1).part(100, drop_last=True)
        range(32, 64)
        """
        if self.processes == 1:
            return range(elements)
        if self.combined is None:
            raise ValueError("without a batch size, a dataset cannot be divided among processes: pass a batch_size")
        if drop_last:
            size = elements // (self.combined * self.processes) * self.combined
            return range(self.process * size, (self.process + 1) * size)
        size, more = divmod(elements, self.processes)
        start = self.process * size + min(self.process, more)
        return range(start, start + size + (self.process < more))

    def steps(self, elements: int, drop_last: bool) -> int:
        """Return the number of steps of this process in an epoch over ``elements`` elements in all processes."""
        if self.combined is None:
            raise ValueError("without a batch size, the number of steps is that of the dataset's own batches")
        mine = len(self.part(elements, drop_last))
        return mine // self.combined if drop_last else -(-mine // self.combined)
