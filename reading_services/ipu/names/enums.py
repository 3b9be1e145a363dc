"""The enums of the IPU side. Their numbers are part of the contract: some options store ``.value``."""

from enum import IntEnum


class DataLoaderMode(IntEnum):
    """Place where a DataLoader makes its combined batches."""

    Sync = 0
    """In the loop of the caller."""
    Async = 1
    """Ahead of the loop, in a process of their own."""
    AsyncRebatched = 2
    """Ahead and in a process of their own, regrouped there, so that no row left over by a worker is lost."""


class SharingStrategy(IntEnum):
    """Transport of an asynchronous accessor's dataset and elements between processes."""

    SharedMemory, FileSystem, Fork, ForkServer = range(4)


class OutputMode(IntEnum):
    """Selection of the outputs of one step that come back to the host."""

    Final = 0
    """The outputs of the last micro-batch of each replica."""
    EveryN = 1
    """The outputs of every n-th device iteration."""
    All = 2
    """The outputs of every micro-batch."""
    Sum = 3
    """The sum of the outputs over the step, for each replica."""
    Default = 4
    """Final for training, All for inference."""


class ConnectionType(IntEnum):
    """Moment at which a model takes its device."""

    Always, OnDemand, Never = range(3)


class ReductionType(IntEnum):
    """Reduction of gradients over accumulation steps and replicas."""

    Sum, Mean, NoReduction = range(3)


class MeanReductionStrategy(IntEnum):
    """Moment at which a mean of gradients is divided."""

    Running, Post, PostAndLoss = range(3)


class CommGroupType(IntEnum):
    """Grouping of replicas."""

    All = 0
    Consecutive = 1
    """Neighbours: replica r is in group r // size."""
    Orthogonal = 2
    """Replicas at equal distances: r is in group r % (number of groups)."""
    NoGrouping = 3


class SyncPattern(IntEnum):
    """Synchronisation of IPUs, which wait for each other; stored only."""

    Full, SinglePipeline, ReplicaAndLadder = range(3)


class VariableRetrievalMode(IntEnum):
    """Replicas from which a variable is read; stored only."""

    OnePerGroup = 0
    AllReplicas = 2
