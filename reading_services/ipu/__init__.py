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

from datapipes.description.exports import lazy_imports
from reading_services.ipu.names.absent import INSTEAD

with lazy_imports(__name__):
    from reading_services.ipu import enums as enums
    from reading_services.ipu import optim as optim
    from reading_services.ipu import options as options
    from reading_services.ipu import profiling as profiling
    from reading_services.ipu.enums import CommGroupType as CommGroupType
    from reading_services.ipu.enums import ConnectionType as ConnectionType
    from reading_services.ipu.enums import DataLoaderMode as DataLoaderMode
    from reading_services.ipu.enums import MeanReductionStrategy as MeanReductionStrategy
    from reading_services.ipu.enums import OutputMode as OutputMode
    from reading_services.ipu.enums import ReductionType as ReductionType
    from reading_services.ipu.enums import SharingStrategy as SharingStrategy
    from reading_services.ipu.enums import SyncPattern as SyncPattern
    from reading_services.ipu.enums import VariableRetrievalMode as VariableRetrievalMode
    from reading_services.ipu.host.accessor import AsynchronousDataAccessor as AsynchronousDataAccessor
    from reading_services.ipu.host.loader import DataLoader as DataLoader
    from reading_services.ipu.host.service import IPUReadingService as IPUReadingService
    from reading_services.ipu.names.annotations import CPU as CPU
    from reading_services.ipu.names.annotations import Attribute as Attribute
    from reading_services.ipu.names.annotations import NameScope as NameScope
    from reading_services.ipu.names.annotations import ipu_print_tensor as ipu_print_tensor
    from reading_services.ipu.names.annotations import nop as nop
    from reading_services.ipu.names.annotations import printIpuTensor as printIpuTensor
    from reading_services.ipu.names.annotations import set_available_memory as set_available_memory
    from reading_services.ipu.names.custom_types import ICustomArgParser as ICustomArgParser
    from reading_services.ipu.names.custom_types import registerCustomArgParser as registerCustomArgParser
    from reading_services.ipu.names.errors import ConfigFileError as ConfigFileError
    from reading_services.ipu.names.errors import Error as Error
    from reading_services.ipu.names.errors import RecoverableError as RecoverableError
    from reading_services.ipu.names.errors import UnrecoverableError as UnrecoverableError
    from reading_services.ipu.names.messages import setLogLevel as setLogLevel
    from reading_services.ipu.names.strategies import AutoStage as AutoStage
    from reading_services.ipu.names.strategies import BeginBlock as BeginBlock
    from reading_services.ipu.names.strategies import Block as Block
    from reading_services.ipu.names.strategies import BlockFunction as BlockFunction
    from reading_services.ipu.names.strategies import PipelinedExecution as PipelinedExecution
    from reading_services.ipu.names.strategies import ShardedExecution as ShardedExecution
    from reading_services.ipu.names.strategies import Stage as Stage
    from reading_services.ipu.names.strategies import removeBlocks as removeBlocks
    from reading_services.ipu.options import Options as Options
    from reading_services.ipu.options import TensorLocationSettings as TensorLocationSettings
    from reading_services.ipu.simulator.compiling import registerPostCompileHook as registerPostCompileHook
    from reading_services.ipu.simulator.compiling import registerPreCompileHook as registerPreCompileHook
    from reading_services.ipu.simulator.cost import CostModel as CostModel
    from reading_services.ipu.simulator.executor import PoplarExecutor as PoplarExecutor
    from reading_services.ipu.simulator.executor import inferenceModel as inferenceModel
    from reading_services.ipu.simulator.executor import trainingModel as trainingModel
    from reading_services.ipu.simulator.ipus import ipuHardwareIsAvailable as ipuHardwareIsAvailable
    from reading_services.ipu.simulator.ipus import ipuHardwareVersion as ipuHardwareVersion
    from reading_services.ipu.simulator.losses import identity_loss as identity_loss
    from reading_services.ipu.simulator.losses import isRunningOnIpu as isRunningOnIpu
    from reading_services.ipu.simulator.report import Report as Report
    from reading_services.ipu.simulator.timeline import Timeline as Timeline
    from reading_services.ipu.simulator.verdict.bottleneck import Verdict as Verdict
    from reading_services.ipu.simulator.verdict.judging import verdict as verdict

if not TYPE_CHECKING:  # a type checker reports names that are not declared
    _known = globals()["__getattr__"]

    def __getattr__(name: str) -> Any:
        if name in INSTEAD:
            instead = f"{INSTEAD[name]} (docs/coming-from.md has all such names)"
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {instead}", name=name)
        return _known(name)
