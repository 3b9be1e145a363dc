"""Options of loaders and models: the batches of a loader, and the execution of a model."""

# Setters are declared without bodies; `kept` makes the bodies.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, Self, TypeVar, cast

import torch
from tqdm import tqdm

from datapipes.errors import BadArgument
from reading_services.ipu.names.enums import CommGroupType, OutputMode
from reading_services.ipu.names.messages import logger
from reading_services.ipu.names.strategies import ExecutionStrategy, PipelinedExecution
from reading_services.ipu.options.distributed import _DistributedOptions, blaming
from reading_services.ipu.options.files import Files
from reading_services.ipu.options.stored import (
    StoredOptions,
    _JitOptions,
    _PopartOptions,
    _PrecisionOptions,
    _TensorLocationOptions,
    _TrainingOptions,
)
from reading_services.ipu.options.values import Value, kept, settled

T = TypeVar("T")
_PARTS = {
    "Training": "_training",
    "Distributed": "_distributed",
    "TensorLocations": "_tensor_locations",
    "Precision": "_precision",
    "Jit": "_jit",
    "_Popart": "_popart",
}


def _part(kind: type[T], name: str, doc: str) -> T:
    """Return a property for one part of the options. As a property, it cannot be replaced."""
    return cast("T", property(attrgetter(_PARTS[name]), doc=doc))


class Options(StoredOptions, Files):
    """Options of loaders and models: the batches of a loader, and the execution of a model.

    A loader or a model freezes its options. Change a ``clone()`` for another one.

    >>> options = Options().deviceIterations(50).replicationFactor(2)
    >>> options.Training.gradientAccumulation(4).gradient_accumulation
    4
    >>> options.device_iterations, options.replication_factor
    (50, 2)
    """

    replication_factor = Value(1, at_least=1)
    input_group_size = Value(1, at_least=1)
    input_cgt = Value(CommGroupType.Consecutive)
    device_iterations = Value(1, at_least=1)
    output_mode = Value(OutputMode.Default.value)
    output_return_period = Value(1)
    random_seed: int
    """Absent until ``randomSeed`` is called."""

    Training = _part(_TrainingOptions, "Training", "Accumulation and reduction of gradients.")
    Distributed = _part(_DistributedOptions, "Distributed", "Number of this process among several.")
    TensorLocations = _part(_TensorLocationOptions, "TensorLocations", "Memory in which tensors are kept.")
    Precision = _part(_PrecisionOptions, "Precision", "Types of intermediate results.")
    Jit = _part(_JitOptions, "Jit", "Obsolete.")
    _Popart = _part(_PopartOptions, "_Popart", "Settings by the backend's own names.")
    _execution_strategy: ExecutionStrategy

    def __init__(self) -> None:
        popart = _PopartOptions()
        super().__init__(popart)
        self.__dict__.update(
            _training=_TrainingOptions(popart),
            _distributed=_DistributedOptions(),
            _tensor_locations=_TensorLocationOptions(),
            _precision=_PrecisionOptions(popart),
            _jit=_JitOptions(),
            _execution_strategy=PipelinedExecution(),
        )
        if folder := os.environ.get("POPTORCH_CACHE_DIR"):
            self.enableExecutableCaching(folder)
        if text := os.environ.get("POPTORCH_DEFAULT_OPTIONS"):
            with blaming("from the environment variable POPTORCH_DEFAULT_OPTIONS"):
                self.from_json(text)

    @kept("Set the batches that the device takes in one step. In training, each ends with a weight update.")
    def deviceIterations(self, device_iterations: int) -> Self: ...
    @kept("Set the number of copies of the model in this process. Each copy gets rows of its own.")
    def replicationFactor(self, replication_factor: int) -> Self: ...
    @kept("Set the execution strategy of a model on several IPUs.", "_execution_strategy", ExecutionStrategy)
    def setExecutionStrategy(self, strategy: ExecutionStrategy) -> Self: ...

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> Self:
        """Let groups of replicas share their rows. Call ``replicationFactor`` before.

        >>> Options().replicationFactor(4).inputReplicaGrouping(2, CommGroupType.Orthogonal).input_group_size
        2
        """
        self.checkIsFrozen()
        if input_group_type == CommGroupType.NoGrouping:
            input_group_size, input_group_type = 1, CommGroupType.Consecutive
        if input_group_type == CommGroupType.All:
            raise BadArgument("input_group_type cannot be All; to give all replicas the same rows, group all of them")
        replicas = self.replication_factor
        self._check("input_group_size", input_group_size)
        if input_group_size > replicas:
            raise BadArgument(
                f"input_group_size {input_group_size} cannot be larger than the replication factor, which is "
                f"{replicas} so far; call replicationFactor first"
            )
        if replicas % input_group_size:
            raise BadArgument(
                f"input_group_size {input_group_size} must be a factor of the replication factor, {replicas}"
            )
        return self.set(input_group_size=input_group_size, input_cgt=input_group_type)

    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> Self:
        """Choose the outputs of a step that come back. For ``EveryN``, the period is a number of iterations.

        >>> Options().outputMode(OutputMode.EveryN, 5).output_return_period
        5
        """
        self.checkIsFrozen()
        _check_output(output_mode, output_return_period)
        if output_return_period is not None and output_mode != OutputMode.EveryN:
            logger.info("output_return_period=%s has no effect with %s", output_return_period, output_mode.name)
        return self.set(output_mode=output_mode.value, output_return_period=output_return_period or 1)

    def defaultOutputMode(self) -> bool:
        """Return whether no output mode was chosen."""
        return self.output_mode == OutputMode.Default

    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: OutputMode | None = None,
        output_return_period: int = 1,
    ) -> None:
        """Keep a tensor of the graph for ``short_name``. Raise AttributeError if the options are frozen."""
        self.checkIsFrozen()
        if output_mode is not None:
            _check_output(output_mode, output_return_period)
        period = output_return_period if output_mode == OutputMode.EveryN else 1
        self.anchored_tensors[short_name] = [long_name, output_mode is None, output_mode, period]

    def randomSeed(self, random_seed: int) -> Self:
        """Seed the device, the shuffling of processes that share data, and torch itself, at once."""
        self.checkIsFrozen()
        if not isinstance(random_seed, int):
            raise BadArgument(f"the random seed is an int, and not {random_seed!r}")
        torch.manual_seed(random_seed)
        return self.createOrSet(random_seed=random_seed)

    def clone(self) -> Self:
        """Return an independent copy, which is not frozen."""
        return self.__deepcopy__({})

    def toDict(self) -> dict[str, Any]:
        """Return all options of the backend in one flat dictionary."""
        if self.defaultOutputMode():
            raise BadArgument("An output mode must be picked before serialisation; call outputMode()")
        merged = self._execution_strategy.backendOptions()
        parts = [part.toDict() for part in (self.Training, self.Distributed, self.TensorLocations)]
        for values in (self._popart.options, self._values, *parts):
            if shared := sorted(merged.keys() & values.keys()):
                raise BadArgument(f"Can't merge dictionaries, they have some keys in common: {', '.join(shared)}")
            merged.update(values)
        if self._show_compilation_progress_bar:
            merged["compilation_progress_bar_fn"] = _progress_bar
        return merged

    def _shown(self) -> list[str]:
        flags = sorted(self.__dict__.keys() - {"_values", "_frozen", *_PARTS.values()})
        private = [f"{name}={settled(self.__dict__[name])}" for name in flags]
        parts = [f"{name}={self.__dict__[part]!r}" for name, part in _PARTS.items()]
        return [*super()._shown(), *private, *parts]


_progress_bar: Callable[..., Any] = partial(tqdm, desc="Graph compilation", unit="%")


def _check_output(mode: OutputMode, period: int | None) -> None:
    if not isinstance(mode, OutputMode):
        raise BadArgument(f"the output mode is a poptorch.OutputMode, and not {mode!r}")
    if mode == OutputMode.EveryN and (not isinstance(period, int) or period < 1):
        raise BadArgument("EveryN must have output_return_period set to valid positive integer")
