"""Executors: a user's model that trains, or infers, on the simulated device, one step a call.

There are two copies of the weights. The host's copy is the user's parameters, which stay the same objects; the device's
copy belongs to the program. They are copied to the device when it is attached, else only on demand. They are copied to
the host after each step that trains, so that a weight always shows its trained value.

All times that an executor returns are modelled, except two measured ones: the compile time, and the last line of a
report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from itertools import count
from threading import Lock
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.weak import WeakTensorKeyDictionary

from datapipes.errors import BadArgument
from reading_services.ipu.names import old_names
from reading_services.ipu.names.enums import ConnectionType, MeanReductionStrategy, OutputMode, ReductionType
from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.messages import logger
from reading_services.ipu.names.strategies import PipelinedExecution
from reading_services.ipu.options import Options
from reading_services.ipu.simulator import processes
from reading_services.ipu.simulator.compiling import Compiled, compile_model
from reading_services.ipu.simulator.cost import CostModel, Mode
from reading_services.ipu.simulator.counters import Counters, Latency, counted, latency, silent
from reading_services.ipu.simulator.ipus import chip
from reading_services.ipu.simulator.optimisers import Snapshot
from reading_services.ipu.simulator.program import Training
from reading_services.ipu.simulator.randomness import Randomness
from reading_services.ipu.simulator.report import CallMeter, Report

_STEPS = count(1)
_TRAINED: Any = WeakTensorKeyDictionary()
"""For each trained weight of a user, the number of the last step that trained it."""
_LENT = ("_poptorch_trainer", "destroy", "copyWeightsToHostIfNeeded", "__getstate__")
"""Attributes that a model has while it is trained. Its copies and pickles leave them out."""


def _refuse_wrapped(model: nn.Module) -> None:
    if "_poptorch_trainer" in vars(model):
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel': call destroy() on the model or on its "
            "executor before it is wrapped again"
        )


def _plain_state(model: nn.Module) -> Any:
    state: Any = type(model).__getstate__(model)  # type: ignore[no-untyped-call]  # of object
    return {name: each for name, each in state.items() if name not in _LENT} if isinstance(state, dict) else state


def _shallow_copy(model: nn.Module) -> nn.Module:
    """Return a model with the same parts and attributes, without a trainer."""
    made = type(model).__new__(type(model))
    vars(made).update((name, each) for name, each in vars(model).items() if name not in _LENT)
    return made


class _Weights:
    """Pairs of parameters and buffers: those of a module on the host, and of its copy on the device."""

    def __init__(self, host: nn.Module, device: nn.Module) -> None:
        self._host, self._device = host, device

    def to_device(self) -> None:
        """Overwrite the device's weights."""
        self._copy(self._pairs())

    def to_host(self) -> None:
        """Overwrite the host's weights, in place: they stay the same objects."""
        self._copy((device, host) for host, device in self._pairs())

    def parameters(self) -> dict[int, nn.Parameter]:
        """Return the device's parameters by the ids of the host's."""
        return {id(host): device for host, device in self._pairs() if isinstance(device, nn.Parameter)}

    def on_device(self) -> list[Tensor]:
        """Return all weights of the device."""
        return [device for _, device in self._pairs()]

    def mark_trained(self) -> None:
        """Record that a step has trained the weights."""
        number = next(_STEPS)
        for _, host in _named(self._host):
            _TRAINED[host] = number

    def last_trained(self) -> int:
        """Return the number of the last step of any model that trained one of the weights."""
        return max((_TRAINED.get(host, 0) for _, host in _named(self._host)), default=0)

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        device = dict(_named(self._device))
        for name, tensor in _named(self._host):
            if name in device:  # buffers that were None at the time of the copy have no pair
                yield tensor, device[name]

    @staticmethod
    def _copy(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        with torch.inference_mode(False), torch.no_grad():
            for source, target in pairs:
                target.copy_(source)


def _named(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


class PoplarExecutor:
    """Model on the device; ``trainingModel`` and ``inferenceModel`` make it.

    Names that it does not have itself are those of the user's model.
    """

    def __init__(self, model: nn.Module, options: Options, optimizer: Snapshot | None, given: Options) -> None:
        self.model = model
        """The user's own model."""
        self.options = options
        """The model's frozen options."""
        self.cost_model = CostModel()
        """The constants of modelled time. It can be replaced at any time."""
        self.computes = True
        """Whether steps are computed. If not, they take their modelled time, train nothing and return zeros."""
        self._module = _shallow_copy(model)  # keeps the training flag and other attributes of this moment
        self._optimizer = optimizer
        self._given = given
        self._compiled: Compiled | None = None
        self._weights: _Weights | None = None
        self._held: Lock | None = None
        self._seen = 0  # number of the last step that trained the weights before they were copied to the device
        self._has_run = False
        self._said: set[str] = set()
        self._meter = CallMeter()
        self._randomness = Randomness(self._first_seed())
        if optimizer is not None:
            self._wrap()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step: all device iterations on these inputs. A training model is trained by each iteration."""
        if self.options.connection_type == ConnectionType.Never:
            raise BadArgument("Trying to run a model on an offline device: the connection type is Never")
        with torch.inference_mode(False):  # the device's weights must not be inference tensors
            if self._compiled is None:
                tensors = self._compile(args, kwargs)
            else:
                tensors = self._matched(self._compiled, args, kwargs)
            self._warn_of(args, kwargs, tensors)
            if self._held is None:
                self.attachToDevice()
            if self._optimizer is None and self._weights is not None and self._weights.last_trained() != self._seen:
                self.copyWeightsToDevice()
            return self._step(tensors)

    def _step(self, tensors: list[Tensor]) -> Any:
        compiled = self._known()
        began = perf_counter()
        computes = self.computes and not compiled.work.synthetic  # outputs of synthetic data mean nothing
        trains = self._optimizer is not None and computes
        try:
            with self._randomness.drawn():
                program, kept = compiled.program, compiled.kept
                outputs = program.run(tensors, kept) if computes else program.silent(kept)
        finally:
            if trains and self._weights is not None:
                self._weights.mark_trained()
                self.copyWeightsToHost()
        self._has_run = True
        self._meter.add(compiled.work, began, perf_counter())
        return outputs

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for inputs like these. Nothing is run, and the weights stay as they are."""
        if self._compiled is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        with torch.inference_mode(False):
            self._compile(args, kwargs)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        trains = self._optimizer is not None
        if trains and vars(self.model).get("_poptorch_trainer") is not self:
            self._wrap()  # used again after destroy()
        self._randomness = Randomness(self._first_seed())
        compiled, tensors = compile_model(self._module, self.options, self._randomness, args, kwargs, trains)
        self._weights = _Weights(self._module, compiled.program.module)
        self._compiled = compiled
        try:
            self._set_training()
            if self.options.connection_type != ConnectionType.Never:
                self.attachToDevice()
        except BaseException:
            self._compiled = self._weights = None
            raise
        return tensors

    def _matched(self, compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """Return the tensors of a later call. Compile again if only their number of rows grew and this is accepted."""
        try:
            return compiled.arguments.tensors(args, kwargs)
        except Error:
            times = compiled.arguments.growth(args, kwargs)
            if times < 2 or not old_names.let_pass(
                f"The inputs have {times} times as many rows as those that the model was compiled with: it is compiled "
                "again, and its weights and the state of its optimizer stay as they are"
            ):
                raise
        trains = self._optimizer is not None
        self._compiled, tensors = compile_model(
            self._module, self.options, self._randomness, args, kwargs, trains, compiled.program.device
        )
        self._compiled.program.continue_from(compiled.program)
        return tensors

    def _set_training(self) -> None:
        """Give the program an optimiser from the last snapshot. It keeps the state of the optimiser before it."""
        if self._optimizer is None or self._weights is None:
            return
        program, options = self._known().program, self.options
        before = program.training
        several = options.Distributed.numProcesses
        program.training = Training(
            self._optimizer.on_device(self._weights.parameters(), before.optimizer if before else None),
            averages=options.Training.accumulation_and_replication_reduction_type == ReductionType.Mean,
            processes=before.processes if before else several if processes.joined(several) else 1,
            max_grad_norm=self._optimizer.max_grad_norm,
        )

    def setOptimizer(self, optimizer: Optimizer) -> None:
        """Take over the current hyper-parameters of an optimiser. Its momentum and other state are kept."""
        if self._optimizer is None:
            raise Error("setOptimizer() is for training models, and this one is for inference")
        snapshot = Snapshot.of(optimizer)
        if self._compiled is not None and snapshot.accum_type != self._optimizer.accum_type:
            raise BadArgument(
                f"the model is already compiled with accum_type={self._optimizer.accum_type}, which cannot be changed "
                f"to {snapshot.accum_type}: call destroy() first"
            )
        self._optimizer = snapshot
        self._set_training()

    def isCompiled(self) -> bool:
        """Return whether the model is compiled: its inputs are fixed and steps can run."""
        return self._compiled is not None

    def isAttachedToDevice(self) -> bool:
        """Return whether the model holds a device."""
        return self._held is not None

    def attachToDevice(self) -> None:
        """Take a device, and copy the weights to it."""
        self._known()
        if self.options.connection_type == ConnectionType.Never:
            raise BadArgument("Trying to attach to an offline device: the connection type is Never")
        if self._held is not None:
            raise Error("Device is already attached")
        self._held = chip(self.options)
        try:
            self.copyWeightsToDevice()
        except BaseException:
            self._let_go()
            raise

    def detachFromDevice(self) -> None:
        """Release the device. The next call takes it again."""
        self._known()
        if self._held is None:
            raise Error("Device is not attached")
        self._let_go()

    def destroy(self) -> None:
        """Release the device, and make the user's model a plain one again.

        A model that was never compiled stays as it is.
        """
        if self._compiled is None:
            return
        self._let_go()
        self._compiled = self._weights = None
        self._has_run = False
        self._unwrap()

    def copyWeightsToHost(self) -> None:
        """Overwrite the user's parameters and buffers with those of the device."""
        compiled = self._known()
        if self._weights is not None and self._held is not None and not compiled.work.synthetic:
            self._weights.to_host()

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Return whether weights had to be copied to the host. Always False: each step copies them."""
        return False

    def copyWeightsToDevice(self) -> None:
        """Overwrite the device's weights with the user's. Training results that are only on the device are lost."""
        compiled = self._known()
        if self._weights is None or self._held is None or compiled.work.synthetic:
            return
        self._weights.to_device()
        self._seen = self._weights.last_trained()
        program = compiled.program
        if program.training is not None and program.training.processes > 1:
            processes.from_first(self._weights.on_device())
        program.reset_replicas()

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> Any:
        """Load the user's model, and the device's weights if it is attached."""
        found = self.model.load_state_dict(state_dict, strict=strict)
        if self._held is not None:
            self.copyWeightsToDevice()
        return found

    def compilationTime(self) -> timedelta:
        """Return the measured compile time of the simulation."""
        if self._compiled is None:
            raise Error("Please compile the model before obtaining compilation time.")
        if not self.options._show_compilation_progress_bar:
            raise Error("Please set showCompilationProgressBar option before compiling: it keeps the time")
        return self._compiled.took

    def cycleCount(self) -> int:
        """Return the modelled cycles of replica 0 in the last step, without transfers."""
        if not self.options._Popart.options["instrumentWithHardwareCycleCounter"]:
            raise Error("Cycle count logging is disabled. Please set poptorch.Options().logCycleCount(True)")
        if self._compiled is None or not self._has_run:
            raise Error("Please run the model at least once before obtaining cycle count.")
        cost = self.cost_model.step(self._compiled.work)
        return max(1, round((cost.compute + cost.bubble + cost.reduction) * self.cost_model.clock))

    def getPerfCounters(self) -> Counters:
        """Return when each tensor of the last step crossed the link: start and end in modelled seconds."""
        if self._compiled is None:
            return silent()
        tensors = len(self._compiled.arguments.named()), len(self._compiled.program.like)
        if not self._has_run or self._compiled.work.synthetic:
            return silent(*tensors)
        return counted(self.cost_model.step(self._compiled.work), self._compiled.kept, *tensors)

    def getHostIpuLatency(self) -> Latency:
        """Return the least, largest and mean modelled seconds from the host to the device."""
        return latency(self.getPerfCounters(), "input", "input_complete")

    def getComputeLatency(self) -> Latency:
        """Return the least, largest and mean modelled seconds from the end of the inputs to the outputs."""
        return latency(self.getPerfCounters(), "input_complete", "output")

    def getIpuHostLatency(self) -> Latency:
        """Return the least, largest and mean modelled seconds from the device to the host."""
        return latency(self.getPerfCounters(), "output", "output_complete")

    def getLatency(self) -> Latency:
        """Return the least, largest and mean modelled seconds from the first input to the last output."""
        return latency(self.getPerfCounters(), "input", "output_complete")

    def report(self, load: float | None = None, mode: Mode = "async", cost: CostModel | None = None) -> Report:
        """Return a report of the modelled time of all steps. ``load``: the loader's seconds per step, if known."""
        return self._meter.report(cost or self.cost_model, load, mode)

    @property
    def rng_state(self) -> list[int]:
        """The seed and the state of the device's random numbers."""
        self._known()
        return self._randomness.numbers

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        self._known()
        self._randomness.numbers = state

    def __getattr__(self, name: str) -> Any:
        if "model" not in vars(self):  # under construction, or in a copy
            raise AttributeError(name)
        return getattr(self.model, name)

    def _known(self) -> Compiled:
        if self._compiled is None:
            raise Error("Model has not been compiled or has been destroyed.")
        return self._compiled

    def _wrap(self) -> None:
        """Register this executor as the trainer of the user's model."""
        _refuse_wrapped(self.model)
        lent = (self, self.destroy, self.copyWeightsToHostIfNeeded, partial(_plain_state, self.model))
        vars(self.model).update(zip(_LENT, lent, strict=True))

    def _unwrap(self) -> None:
        if self._optimizer is not None:
            for name in _LENT:
                vars(self.model).pop(name, None)

    def _may_be_replaced(self) -> bool:
        """Return whether another training model of the same model may replace this one.

        It may if this one has not been compiled, or if its options have been changed since: changed options are for
        models that are made later (``enableSyntheticData``). Both need PopTorch's own names.
        """
        changed = self._given._Popart.options != self.options._Popart.options
        return (self._compiled is None or changed) and old_names.let_pass(
            "A second training model of one model replaces the first, which is destroyed"
        )

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _first_seed(self) -> int:
        """Return the seed of the options, else torch's. Each process has another one."""
        seed = self.options.random_seed if self.options.exists("random_seed") else torch.initial_seed()
        return (seed + self.options.Distributed.processId) % 2**63

    def _warn_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> None:
        if not all(tensor.is_contiguous() for tensor in tensors):
            self._say_once("an input is not contiguous and is copied: call .contiguous() on it beforehand")
        if any(tensor.requires_grad for tensor in tensors):
            self._say_once("an input has requires_grad=True; it is detached: no gradient reaches it from the device")
        if any(isinstance(each, Mapping) for each in (*args, *kwargs.values())):
            self._say_once("a dictionary is an input: its values have to be tensors")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            logger.warning("%s", text)


def trainingModel(
    model: nn.Module | PoplarExecutor, options: Options | None = None, optimizer: Optimizer | None = None
) -> PoplarExecutor:
    """Return an executor whose calls train the model, with one step of the optimiser for each device iteration.

    The parameters stay the user's, and have their trained values after each call. Without an optimiser, it is SGD with
    a learning rate of 0.01.

    >>> from torch.nn.functional import mse_loss
    >>> class Line(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = nn.Parameter(torch.zeros(()))
    ...     def forward(self, x, y):
    ...         return mse_loss(self.slope * x, y)
    >>> line = Line()
    >>> training = trainingModel(line, Options().deviceIterations(4))
    >>> x = torch.ones(8)
    >>> loss = training(x, 2 * x)  # four updates of two rows each
    >>> loss.shape, line.slope.item()
    (torch.Size([]), 0.155...)
    """
    user_model, chosen = _model(model), _options(options)
    if optimizer is None:
        optimizer = torch.optim.SGD(user_model.parameters(), lr=0.01)
    snapshot = Snapshot.of(optimizer)
    before: PoplarExecutor | None = vars(user_model).get("_poptorch_trainer")
    if before is not None and before._may_be_replaced():
        before.destroy()
        before._unwrap()  # destroy() does nothing to a model that was never compiled
    _refuse_wrapped(user_model)
    return PoplarExecutor(user_model, _own(chosen, OutputMode.Final, snapshot.runs_mean), snapshot, chosen)


def inferenceModel(model: nn.Module | PoplarExecutor, options: Options | None = None) -> PoplarExecutor:
    """Return an executor whose calls run the model. One model may have several of them.

    >>> double = inferenceModel(nn.Upsample(scale_factor=2), Options().deviceIterations(2))
    >>> double(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]], [[3.0, 3.0, 4.0, 4.0]]]
    """
    user_model, chosen = _model(model), _options(options)
    if chosen.Training.gradient_accumulation != 1:
        hint = ""
        if isinstance(chosen._execution_strategy, PipelinedExecution):
            hint = "; to keep a pipeline full in inference, use poptorch.Options().deviceIterations instead"
        raise Error(f"You must set poptorch.Options().Training.gradientAccumulation to 1 for inference{hint}")
    return PoplarExecutor(user_model, _own(chosen, OutputMode.All), None, chosen)


def _own(options: Options, mode: OutputMode, runs_mean: bool = False) -> Options:
    """Return the executor's own options. The user's are frozen with them, so that the two stay equal."""
    own = options.clone()
    if own.defaultOutputMode():
        own.outputMode(mode)
    if runs_mean:
        own.Training.setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy.Running)
    options._freeze()
    own._freeze()
    return own


def _model(model: nn.Module | PoplarExecutor) -> nn.Module:
    user_model = model.model if isinstance(model, PoplarExecutor) else model
    if not isinstance(user_model, nn.Module):
        raise Error(f"Invalid type: 'model' is {type(model).__name__}. Expected torch.nn.Module")
    return user_model


def _options(options: Options | None) -> Options:
    if options is not None and not isinstance(options, Options):
        raise Error(f"Invalid type: 'options' is {type(options).__name__}. Expected poptorch.Options")
    return Options() if options is None else options
