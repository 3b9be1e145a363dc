"""A compiled model's program: one step of the device.

Row blocks go to replicas in the order device iteration (slowest), accumulation step, input group (fastest). Each
micro-batch is one forward pass, and in training one backward pass. A device iteration ends with one weight update. All
replicas have the same weights, so there is one copy here, which collects the gradients of all replicas. Buffers that
``forward`` changes are kept separately for each replica.

An output is a constant if torch made it of constants only, without drawing a random number, and it was not written to
since. All other outputs count as computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.names.custom_types import rebuilt, tensors_of
from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.strategies import Block, entering
from reading_services.ipu.simulator import processes
from reading_services.ipu.simulator.arguments import Arguments
from reading_services.ipu.simulator.cost import flops_of
from reading_services.ipu.simulator.losses import LossPlace, Watching, backward, find_loss, on_device, trained_by
from reading_services.ipu.simulator.on_device import DeviceModule, narrowed
from reading_services.ipu.simulator.rows import KeptOutputs, Outputs, no_backward, rows_of


class Constants(TorchFunctionMode):
    """Mode that collects the constants that a forward pass makes."""

    def __init__(self, known: Iterable[Tensor]) -> None:
        super().__init__()
        self._known: dict[int, tuple[Tensor, int]] = {}
        for tensor in known:
            self._add(tensor)

    def __contains__(self, tensor: Tensor) -> bool:
        found, version = self._known.get(id(tensor), (None, 0))
        return found is tensor and tensor._version == version

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = [each for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)]
        constant = all(each in self for each in given)
        random = torch.get_rng_state() if constant else None
        made = function(*args, **(kwargs or {}))
        if random is not None and torch.equal(random, torch.get_rng_state()):
            for each in tree_iter(made):
                if isinstance(each, Tensor):
                    self._add(each)
        return made

    def _add(self, tensor: Tensor) -> None:
        self._known[id(tensor)] = (tensor, tensor._version)


@dataclass
class Training:
    """Settings of training: the optimiser, and the reduction of gradients of micro-batches and replicas."""

    optimizer: Optimizer
    averages: bool
    processes: int
    max_grad_norm: float | None = None

    def update(self, micro_batches: int) -> None:
        """Run one step of the optimiser with the gradients of this many micro-batches."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        if self.processes > 1:
            processes.sum_gradients(p for p in parameters if p.requires_grad)
        count = micro_batches * self.processes
        for parameter in parameters if self.averages and count > 1 else ():
            if parameter.grad is not None:
                parameter.grad /= count
        if self.max_grad_norm is not None:
            nn.utils.clip_grad_norm_(parameters, self.max_grad_norm)
        self.optimizer.step()


class Program:
    """Module on the device, with facts learned from one pass over the first micro-batch.

    The constructor runs only that pass, with a backward pass in training. It changes no weight and no buffer.
    """

    blocks: list[Block]
    flops: int
    changes_buffers: bool
    like: list[Tensor]
    """The computed outputs of one micro-batch, without their data."""
    _outputs: Any
    _constants: dict[int, Tensor]
    _loss: LossPlace | None = None

    def __init__(
        self, device: DeviceModule, arguments: Arguments, batching: Batching, tensors: list[Tensor], trains: bool
    ) -> None:
        self.device = device
        self.module = device.module
        self.arguments = arguments
        self.batching = batching
        self.training: Training | None = None
        modules = self.module.modules()
        self._places = [
            (each, name) for each in modules for name, buffer in each._buffers.items() if buffer is not None
        ]
        self._replicas: list[list[Tensor]] = []
        self._trace(self._rows(tensors, 0), trains)

    def continue_from(self, before: Program) -> None:
        """Take over the optimiser and the replicas' buffers of a program of the same device with other inputs."""
        self.training, self._replicas = before.training, before._replicas

    def reset_replicas(self) -> None:
        """Reset all replicas to the module's buffers."""
        apart = self.changes_buffers and self.batching.replicas > 1
        self._replicas = [_cloned(self._buffers()) for _ in range(self.batching.replicas if apart else 0)]

    def run(self, tensors: list[Tensor], kept: KeptOutputs) -> Any:
        """Run one step: all device iterations on these rows. Return the kept outputs."""
        b, outputs = self.batching, Outputs(kept, self.like)
        with torch.set_grad_enabled(self.training is not None):
            for d in range(b.iterations):
                for a in range(b.accumulation):
                    for r in range(b.replicas):
                        with self._replica(r):
                            rows = self._rows(tensors, b.block(d, a, b.group_of(r)))
                            outputs.add(d, a, r, self._micro_batch(rows))
                if self.training is not None:
                    self.training.update(b.accumulation * b.replicas)
                    self.module.zero_grad()
        if self._replicas:
            self._load(self._replicas[0])
        return self._structured(outputs.finished())

    def silent(self, kept: KeptOutputs) -> Any:
        """Return the outputs of a step that is not computed: zeros of the same shapes and types."""
        outputs = Outputs(kept, self.like)
        for tensor in outputs.tensors:
            tensor.zero_()
        return self._structured(outputs.finished())

    def _trace(self, first: list[Tensor], trains: bool) -> None:
        held = [(buffer, buffer._version, buffer.clone()) for buffer in self._buffers()]
        try:
            with entering() as self.blocks, torch.set_grad_enabled(trains):
                self.flops = flops_of(lambda: self._learn(first, trains))
        finally:
            self.module.zero_grad()
            now = self._buffers()
            self.changes_buffers = any(b is not a or a._version != v for (a, v, _), b in zip(held, now, strict=True))
            with torch.no_grad():
                self._load([buffer.detach_().copy_(before) for buffer, _, before in held])

    def _learn(self, first: list[Tensor], trains: bool) -> None:
        with on_device() as this, Watching(this), Constants(self.device.plain()) as constants:
            outputs = self.device.forward(*self.arguments.filled(first))
        found = list(tensors_of(outputs))
        self._constants = {n: each.detach().clone() for n, each in enumerate(found) if each in constants}
        self._outputs = rebuilt(outputs, [each.detach().to("meta") for each in found])
        made = [each for n, each in enumerate(found) if n not in self._constants]
        self.like = [each.detach().to("meta") for each in made]
        if trains:
            self._loss = find_loss(this, made)
            loss = self._loss.find(this, made)
            if any(self.device.in_place_of(each) is not each for each in trained_by(loss)):
                raise Error(
                    "forward used a weight of the user's model, not of the device's, where torch cannot replace it "
                    "(in an autograd.Function or a scripted module): reach it by self, in forward and methods"
                )
            backward(loss)

    def _micro_batch(self, rows: list[Tensor]) -> list[Tensor]:
        """Run ``forward``, and in training ``backward``. Return the computed outputs."""
        args, kwargs = self.arguments.filled(rows)
        with on_device() as this, Watching(this) if self._loss and self._loss.among == "made" else nullcontext():
            found = list(tensors_of(self.device.forward(args, kwargs)))
        made = [each for n, each in enumerate(found) if n not in self._constants]
        if len(made) != len(self.like):
            raise Error("forward returned another number of tensors than when it was compiled: a graph is static")
        if self._loss is not None:
            backward(self._loss.find(this, made))
        return made

    def _rows(self, tensors: list[Tensor], block: int) -> list[Tensor]:
        return [rows_of(tensor, block, self.batching.micro_batches) for tensor in tensors]

    def _structured(self, tensors: list[Tensor]) -> Any:
        """Return the value of ``forward`` made of these tensors and the constants."""
        left, total = iter(tensors), len(self.like) + len(self._constants)
        constants = {n: each.to(narrowed(each.dtype), copy=True) for n, each in self._constants.items()}
        for each in constants.values():
            each.backward = no_backward  # type: ignore[method-assign]  # for this tensor and copies of it
        return rebuilt(self._outputs, [constants[n] if n in constants else next(left) for n in range(total)])

    def _buffers(self) -> list[Tensor]:
        found = (module._buffers[name] for module, name in self._places)
        return [each for each in found if each is not None]

    def _load(self, buffers: list[Tensor]) -> None:
        for (module, name), buffer in zip(self._places, buffers, strict=True):
            module._buffers[name] = buffer

    @contextmanager
    def _replica(self, r: int) -> Iterator[None]:
        """Run the block with the buffers of one replica, and keep their new values."""
        if self._replicas:
            self._load(self._replicas[r])
        yield
        if self.changes_buffers:
            self._load([each.detach() if each.requires_grad else each for each in self._buffers()])
            if self._replicas:
                self._replicas[r] = self._buffers()


def _cloned(tensors: list[Tensor]) -> list[Tensor]:
    """Return copies of tensors. A tensor that occurs twice is copied once."""
    copies = {id(each): each.clone() for each in tensors}
    return [copies[id(each)] for each in tensors]
