"""PopTorch's enums under the name of its module."""

from reading_services.ipu.names.enums import (
    CommGroupType,
    ConnectionType,
    DataLoaderMode,
    MeanReductionStrategy,
    OutputMode,
    ReductionType,
    SharingStrategy,
    SyncPattern,
    VariableRetrievalMode,
)

__all__ = [
    "CommGroupType",
    "ConnectionType",
    "DataLoaderMode",
    "MeanReductionStrategy",
    "OutputMode",
    "ReductionType",
    "SharingStrategy",
    "SyncPattern",
    "VariableRetrievalMode",
]
