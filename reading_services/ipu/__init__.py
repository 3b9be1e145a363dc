"""PopTorch's host side on a CPU: ``import reading_services.ipu as poptorch`` runs a data-loading script unchanged.

- ``host/``: the host's side of the IPU: combined batches, the loader, the accessor and the reading service
- ``names/``: PopTorch's names: enums, errors, logging, execution strategies, structures of tensors
- ``options/``: options of loader and device: importable as ``poptorch.options``, too
- ``popdist/``: instances that poprun started: number, replicas and device
- ``poprun/``: the command ``poprun``, which starts several instances of a program: ``poprun --num-instances 2 python
  train.py``
- ``simulator/``: the simulated device: models that run on it as they would on IPUs, with the same numbers and none of
  the speed
- ``__main__``: the command line, ``python -m reading_services.ipu verdict SCRIPT:loader``
- ``enums``: ``poptorch.enums``
- ``optim``: ``poptorch.optim``
- ``profiling``: ``poptorch.profiling``
"""

from typing import TYPE_CHECKING, Any

from reading_services.ipu import enums, optim, options, profiling
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
from reading_services.ipu.host.accessor import AsynchronousDataAccessor
from reading_services.ipu.host.loader import DataLoader
from reading_services.ipu.host.service import IPUReadingService
from reading_services.ipu.names.absent import INSTEAD
from reading_services.ipu.names.annotations import (
    CPU,
    Attribute,
    NameScope,
    ipu_print_tensor,
    nop,
    printIpuTensor,
    set_available_memory,
)
from reading_services.ipu.names.custom_types import ICustomArgParser, registerCustomArgParser
from reading_services.ipu.names.errors import ConfigFileError, Error, RecoverableError, UnrecoverableError
from reading_services.ipu.names.messages import setLogLevel
from reading_services.ipu.names.strategies import (
    AutoStage,
    BeginBlock,
    Block,
    BlockFunction,
    PipelinedExecution,
    ShardedExecution,
    Stage,
    removeBlocks,
)
from reading_services.ipu.options import Options, TensorLocationSettings
from reading_services.ipu.simulator.compiling import registerPostCompileHook, registerPreCompileHook
from reading_services.ipu.simulator.cost import CostModel
from reading_services.ipu.simulator.executor import PoplarExecutor, inferenceModel, trainingModel
from reading_services.ipu.simulator.ipus import ipuHardwareIsAvailable, ipuHardwareVersion
from reading_services.ipu.simulator.losses import identity_loss, isRunningOnIpu
from reading_services.ipu.simulator.report import Report
from reading_services.ipu.simulator.timeline import Timeline
from reading_services.ipu.simulator.verdict.bottleneck import Verdict
from reading_services.ipu.simulator.verdict.judging import verdict

__all__ = [
    "CPU",
    "AsynchronousDataAccessor",
    "Attribute",
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
    "NameScope",
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
    "ipu_print_tensor",
    "isRunningOnIpu",
    "nop",
    "optim",
    "options",
    "printIpuTensor",
    "profiling",
    "registerCustomArgParser",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "removeBlocks",
    "setLogLevel",
    "set_available_memory",
    "trainingModel",
    "verdict",
]

if not TYPE_CHECKING:  # a type checker reports names that are not declared

    def __getattr__(name: str) -> Any:
        instead = f": {INSTEAD[name]} (docs/coming-from.md has all such names)" if name in INSTEAD else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{instead}", name=name)
