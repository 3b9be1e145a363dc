"""PopTorch's host side on a CPU: ``import reading_services.ipu as poptorch`` runs a data-loading script unchanged."""

from reading_services.ipu import enums, options
from reading_services.ipu.enums import (
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
from reading_services.ipu.errors import ConfigFileError, Error, RecoverableError, UnrecoverableError
from reading_services.ipu.hardware import ipuHardwareIsAvailable, ipuHardwareVersion
from reading_services.ipu.messages import setLogLevel
from reading_services.ipu.options import Options, TensorLocationSettings
from reading_services.ipu.strategies import AutoStage, Block, PipelinedExecution, ShardedExecution, Stage

__all__ = [
    "AutoStage",
    "Block",
    "CommGroupType",
    "ConfigFileError",
    "ConnectionType",
    "DataLoaderMode",
    "Error",
    "MeanReductionStrategy",
    "Options",
    "OutputMode",
    "PipelinedExecution",
    "RecoverableError",
    "ReductionType",
    "ShardedExecution",
    "SharingStrategy",
    "Stage",
    "SyncPattern",
    "TensorLocationSettings",
    "UnrecoverableError",
    "VariableRetrievalMode",
    "enums",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "options",
    "setLogLevel",
]
