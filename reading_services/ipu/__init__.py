"""PopTorch's host side on a CPU: ``import reading_services.ipu as poptorch`` runs a data-loading script unchanged."""

from reading_services.ipu import enums, optim, options, profiling
from reading_services.ipu.accessor import AsynchronousDataAccessor
from reading_services.ipu.bottleneck import Verdict
from reading_services.ipu.cost import CostModel
from reading_services.ipu.custom_types import ICustomArgParser, registerCustomArgParser
from reading_services.ipu.device.executor import PoplarExecutor
from reading_services.ipu.device.hooks import registerPostCompileHook, registerPreCompileHook
from reading_services.ipu.device.losses import identity_loss, isRunningOnIpu
from reading_services.ipu.device.wrapping import inferenceModel, trainingModel
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
from reading_services.ipu.judging import verdict
from reading_services.ipu.loader import DataLoader
from reading_services.ipu.messages import setLogLevel
from reading_services.ipu.options import Options, TensorLocationSettings
from reading_services.ipu.report import Report
from reading_services.ipu.service import IPUReadingService
from reading_services.ipu.strategies import (
    AutoStage,
    BeginBlock,
    Block,
    BlockFunction,
    PipelinedExecution,
    ShardedExecution,
    Stage,
    removeBlocks,
)
from reading_services.ipu.timeline import Timeline

__all__ = [
    "AsynchronousDataAccessor",
    "AutoStage",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "CommGroupType",
    "ConfigFileError",
    "ConnectionType",
    "CostModel",
    "DataLoader",
    "DataLoaderMode",
    "Error",
    "ICustomArgParser",
    "IPUReadingService",
    "MeanReductionStrategy",
    "Options",
    "OutputMode",
    "PipelinedExecution",
    "PoplarExecutor",
    "RecoverableError",
    "ReductionType",
    "Report",
    "ShardedExecution",
    "SharingStrategy",
    "Stage",
    "SyncPattern",
    "TensorLocationSettings",
    "Timeline",
    "UnrecoverableError",
    "VariableRetrievalMode",
    "Verdict",
    "enums",
    "identity_loss",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "isRunningOnIpu",
    "optim",
    "options",
    "profiling",
    "registerCustomArgParser",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "removeBlocks",
    "setLogLevel",
    "trainingModel",
    "verdict",
]
