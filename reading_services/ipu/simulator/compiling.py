"""Compilation of a model for the simulated device: all checks that are made once, between the users' hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.names.enums import OutputMode
from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.strategies import PipelinedExecution
from reading_services.ipu.options import Options
from reading_services.ipu.simulator.arguments import Arguments
from reading_services.ipu.simulator.cost import Work
from reading_services.ipu.simulator.ipus import check_number, check_pipeline, stages_and_ipus
from reading_services.ipu.simulator.on_device import DeviceModule
from reading_services.ipu.simulator.program import Program
from reading_services.ipu.simulator.randomness import Randomness
from reading_services.ipu.simulator.rows import KeptOutputs, check_rows, wire_bytes

CompileHook = Callable[[], Any]

_BEFORE: OrderedDict[int, CompileHook] = OrderedDict()
_AFTER: OrderedDict[int, CompileHook] = OrderedDict()


def registerPreCompileHook(hook: CompileHook) -> RemovableHandle:
    """Call a function before each compilation. ``remove()`` of the returned handle ends that.

    >>> registerPreCompileHook(lambda: None).remove()
    """
    return _registered(_BEFORE, hook)


def registerPostCompileHook(hook: CompileHook) -> RemovableHandle:
    """Call a function after each compilation. ``remove()`` of the returned handle ends that."""
    return _registered(_AFTER, hook)


def _registered(hooks: OrderedDict[int, CompileHook], hook: CompileHook) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"a compile hook needs to be callable, and {hook!r} is not")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


@dataclass
class Compiled:
    """Compiled program, and the facts about its steps that are known before the first one."""

    program: Program
    arguments: Arguments
    kept: KeptOutputs
    work: Work
    took: timedelta


def compile_model(
    module: nn.Module,
    options: Options,
    randomness: Randomness,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    trains: bool,
    device: DeviceModule | None = None,
) -> tuple[Compiled, list[Tensor]]:
    """Compile a module for arguments like these. Return their tensors, too.

    Args:
        device: The device's copy of the module, whose weights stay as they are. None: make one.
    """
    began = perf_counter()
    for hook in list(_BEFORE.values()):
        hook()
    arguments = Arguments.of(module.forward, args, kwargs)
    batching = Batching.of(options, None)
    kept = KeptOutputs(OutputMode(options.output_mode), options.output_return_period, batching)
    rows = check_rows(arguments.named(), batching)
    tensors = arguments.tensors(args, kwargs)
    with randomness.tried():
        program = Program(device or DeviceModule(module), arguments, batching, tensors, trains)
    pipelined = isinstance(options._execution_strategy, PipelinedExecution)
    stages, ipus = stages_and_ipus(program.blocks, options._execution_strategy)
    check_pipeline(options, batching, stages, trains)
    if kept.mode == OutputMode.EveryN and pipelined and ipus > 1:
        raise Error("OutputMode.EveryN is not supported for a model pipelined over several IPUs: use All or Final")
    if program.changes_buffers and batching.replicas > 1 and options.broadcast_buffers:
        raise Error(
            "PopTorch does not support broadcasting buffers that forward changes, and it has changed one: with several "
            "replicas call poptorch.Options().broadcastBuffers(False), and each keeps its own"
        )
    check_number(options, ipus, batching.replicas)
    work = Work.of(
        batching,
        micro_batch=rows,
        stages=stages,
        pipelined=pipelined,
        training=trains,
        synthetic=bool(options._Popart.options.get("syntheticDataMode", 0)),
        bytes_in=wire_bytes(tensors),
        bytes_out=kept.count * wire_bytes(program.like),
        flops=program.flops,
    )
    for hook in list(_AFTER.values()):
        hook()
    return Compiled(program, arguments, kept, work, timedelta(seconds=perf_counter() - began)), tensors
