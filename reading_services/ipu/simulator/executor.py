"""Executors: a user's model that is trained, or asked, on the simulated device, one step a call.

There are two copies of the weights. The host's are the user's parameters, the same objects as ever; the device's are
the program's. Host to device they are copied whenever the device is attached, else only on demand. What the device has
trained makes the host's stale, and is copied home when somebody looks at them (see ``wrapped``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from datapipes.errors import BadArgument
from reading_services.ipu.names.enums import ConnectionType, ReductionType
from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.messages import logger
from reading_services.ipu.options import Options
from reading_services.ipu.simulator import processes
from reading_services.ipu.simulator.compiling import Compiled, compile_model
from reading_services.ipu.simulator.cost import CostModel
from reading_services.ipu.simulator.ipus import acquire
from reading_services.ipu.simulator.observing import Observed
from reading_services.ipu.simulator.optimisers import Snapshot
from reading_services.ipu.simulator.program import Training
from reading_services.ipu.simulator.randomness import Randomness
from reading_services.ipu.simulator.report import CallMeter
from reading_services.ipu.simulator.weights import Weights
from reading_services.ipu.simulator.wrapped import shallow_copy, trainer_of, trainers_of, unwrap, wrap


class PoplarExecutor(Observed):
    """A model on the device; made by ``trainingModel`` and ``inferenceModel``, never directly.

    Names that it does not have itself are those of the user's model.
    """

    def __init__(self, model: nn.Module, options: Options, optimizer: Snapshot | None) -> None:
        self.model = model
        """The user's own model."""
        self.options = options
        """The options that it was made with, frozen."""
        self.cost_model = CostModel()
        self.computes = True
        """Whether steps are computed; one that is not takes its modelled time, trains nothing and gives zeros."""
        self._module = shallow_copy(model)  # its training flag and other attributes are those of now
        self._optimizer = optimizer
        self._compiled: Compiled | None = None
        self._weights: Weights | None = None
        self._held: ExitStack | None = None
        self._stale = False
        self._trained = 0
        self._seen: WeakKeyDictionary[PoplarExecutor, int] = WeakKeyDictionary()
        self._has_run = False
        self._said: set[str] = set()
        self._meter = CallMeter()
        self._randomness = Randomness(self._first_seed())
        if optimizer is not None:
            wrap(model, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One step: all device iterations on these inputs, each of which trains if this is a training model."""
        if self.options.connection_type == ConnectionType.Never:
            raise BadArgument("Trying to run a model on an offline device: the connection type is Never")
        with torch.inference_mode(False):  # the device's weights are not made for the caller's mode
            if self._compiled is None:
                tensors = self._compile(args, kwargs)
            else:
                tensors = self._compiled.arguments.tensors(args, kwargs)
            self._warn_of(args, kwargs, tensors)
            if self._held is None:
                self.attachToDevice()
            if self._optimizer is None and any(self._seen.get(each) != each._trained for each in self._trainers()):
                self.copyWeightsToDevice()
            return self._step(tensors)

    def _step(self, tensors: list[Tensor]) -> Any:
        compiled = self._known()
        began = perf_counter()
        computes = self.computes and not compiled.work.synthetic  # nobody may look at what synthetic data give
        trains = self._optimizer is not None and computes
        stale, self._stale = self._stale, False  # the host's weights are not looked at meanwhile, but by forward itself
        try:
            with self._randomness.drawn():
                outputs = compiled.step(tensors, computes)
        finally:
            self._stale = stale or trains
            self._trained += trains
        self._has_run = True
        self._meter.add(compiled.work, began, perf_counter())
        return outputs

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile for inputs like these, and run nothing; weights stay as they are."""
        if self._compiled is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        with torch.inference_mode(False):
            self._compile(args, kwargs)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        trains = self._optimizer is not None
        if trains and trainer_of(self.model) is not self:
            wrap(self.model, self)  # it was destroyed, and is used again
        self._randomness = Randomness(self._first_seed())
        compiled, tensors = compile_model(self._module, self.options, self._randomness, args, kwargs, trains)
        self._weights = Weights(self._module, compiled.program.module)
        self._compiled = compiled
        try:
            self._set_training()
            if self.options.connection_type != ConnectionType.Never:
                self.attachToDevice()
        except BaseException:
            self._compiled = self._weights = None
            raise
        return tensors

    def _set_training(self) -> None:
        """Give the program an optimiser by the last snapshot; what the one before had gathered is kept."""
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
        """Take over the hyper-parameters that an optimiser has now; momentum and the like go on."""
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
        """Whether inputs are fixed and steps can be run."""
        return self._compiled is not None

    def isAttachedToDevice(self) -> bool:
        """Whether a device is held."""
        return self._held is not None

    def attachToDevice(self) -> None:
        """Take a device, and copy the weights to it."""
        self._known()
        if self.options.connection_type == ConnectionType.Never:
            raise BadArgument("Trying to attach to an offline device: the connection type is Never")
        if self._held is not None:
            raise Error("Device is already attached")
        self._held = acquire(self.options)
        try:
            self.copyWeightsToDevice()
        except BaseException:
            self._let_go()
            raise

    def detachFromDevice(self) -> None:
        """Bring the weights home and let the device go; the next call takes it again."""
        self._known()
        if self._held is None:
            raise Error("Device is not attached")
        self.copyWeightsToHostIfNeeded()
        self._let_go()

    def destroy(self) -> None:
        """Bring the weights home, let the device go, and make the user's model a plain one again.

        A model that was never compiled stays as it is.
        """
        if self._compiled is None:
            return
        self.copyWeightsToHostIfNeeded()
        self._let_go()
        self._compiled = self._weights = None
        self._has_run = False
        if self._optimizer is not None:
            unwrap(self.model)

    def copyWeightsToHost(self) -> None:
        """Overwrite the user's parameters and buffers by those of the device."""
        compiled = self._known()
        self._stale = False
        if self._weights is not None and self._held is not None and not compiled.work.synthetic:
            self._weights.to_host()

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Do that if the device has trained since; whether it was needed."""
        if self._stale:
            self.copyWeightsToHost()
            return True
        return False

    def copyWeightsToDevice(self) -> None:
        """Overwrite the device's weights by the user's, whatever it has trained."""
        compiled = self._known()
        self._stale = False
        for trainer in self._trainers():
            trainer.copyWeightsToHostIfNeeded()
            self._seen[trainer] = trainer._trained
        if self._weights is None or self._held is None or compiled.work.synthetic:
            return
        self._weights.to_device()
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
        if "model" not in vars(self):  # while it is being made or copied
            raise AttributeError(name)
        return getattr(self.model, name)

    def _known(self) -> Compiled:
        if self._compiled is None:
            raise Error("Model has not been compiled or has been destroyed.")
        return self._compiled

    def _trainers(self) -> list[PoplarExecutor]:
        """Other executors that train any of these weights."""
        return [each for each in trainers_of(self.model) if each is not self and isinstance(each, PoplarExecutor)]

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _first_seed(self) -> int:
        """The seed of the options, else torch's; each process has another one."""
        seed = self.options.random_seed if self.options.exists("random_seed") else torch.initial_seed()
        return (seed + self.options.Distributed.processId) % 2**63

    def _warn_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> None:
        if not all(tensor.is_contiguous() for tensor in tensors):
            self._say_once("an input is not contiguous, and is copied for that: .contiguous() does it beforehand")
        if any(tensor.requires_grad for tensor in tensors):
            self._say_once("an input has requires_grad=True; it is detached, no gradient reaches it from the device")
        if any(isinstance(each, Mapping) for each in (*args, *kwargs.values())):
            self._say_once("a dictionary is an input: these are supported in part; their values have to be tensors")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            logger.warning("%s", text)
