"""The enums of the IPU side. Their numbers are part of the contract: some options store ``.value``."""

from enum import IntEnum


class DataLoaderMode(IntEnum):
    """How a DataLoader makes its combined batches."""

    Sync = 0
    """In the loop that asks for them."""
    Async = 1
    """Ahead, in a process of their own."""
    AsyncRebatched = 2
    """Ahead, and regrouped there, so that what workers have left over is not lost."""


class SharingStrategy(IntEnum):
    """How an asynchronous accessor gets its dataset, and its elements home."""

    SharedMemory, FileSystem, Fork, ForkServer = range(4)


class OutputMode(IntEnum):
    """Selection of the outputs of one step that come back to the host."""

    Final = 0
    """Those of the last micro-batch of each replica."""
    EveryN = 1
    """Those of every n-th device iteration."""
    All = 2
    """Those of every micro-batch."""
    Sum = 3
    """Their sum over the step, for each replica."""
    Default = 4
    """Final for training, All for inference."""


class ConnectionType(IntEnum):
    """When a model takes its device."""

    Always, OnDemand, Never = range(3)


class ReductionType(IntEnum):
    """How gradients are put together over accumulation steps and replicas."""

    Sum, Mean, NoReduction = range(3)


class MeanReductionStrategy(IntEnum):
    """When a mean of gradients is divided."""

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
    """The replicas that a variable is read of; stored only."""

    OnePerGroup = 0
    AllReplicas = 2
