"""Find the loss tensor that trains, anywhere in ``forward``.

A loss is the result of one of torch's loss functions, or of ``identity_loss``. Of several losses, the one that is
computed from all others counts. A returned scalar that is computed from the losses replaces it. The place of the loss
is stored when the model is compiled, so that it is found again in every later forward pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from datapipes.errors import BadArgument
from reading_services.ipu.names.errors import Error

_LOSSES = {name for name in vars(functional) if name.endswith("_loss")} | {
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "kl_div", "linear_cross_entropy"),
}
"""The names of torch's loss functions."""


@dataclass
class Pass:
    """One forward pass on a device, with the losses that it computed."""

    marked: list[Tensor] = field(default_factory=list)
    made: list[Tensor] = field(default_factory=list)


class _Running(threading.local):
    forward: Pass | None = None


_running = _Running()


def isRunningOnIpu() -> bool:
    """Return whether the caller is a ``forward`` that runs on a device.

    >>> isRunningOnIpu()
    False
    """
    return _running.forward is not None


def identity_loss(x: Tensor, reduction: str) -> Tensor:
    """Mark a tensor as the loss to train, reduced by "sum", "mean" or "none".

    >>> identity_loss(torch.tensor([1.0, 3.0]), "mean")
    tensor(2.)
    """
    if reduction not in ("sum", "mean", "none"):
        raise BadArgument(
            f"Unsupported reduction type! identity_loss(reduction={reduction!r}): 'sum', 'mean' or 'none'"
        )
    loss = x.clone() if reduction == "none" else getattr(x, reduction)()
    if _running.forward is not None:
        _running.forward.marked.append(loss)
    return loss


@contextmanager
def on_device() -> Iterator[Pass]:
    """Mark the block as run by a device, and collect the losses that are marked in it."""
    before, _running.forward = _running.forward, Pass()
    try:
        yield _running.forward
    finally:
        _running.forward = before


class Watching(TorchFunctionMode):
    """Mode that collects the results of torch's loss functions in a pass."""

    def __init__(self, forward: Pass) -> None:
        super().__init__()
        self.forward = forward

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") in _LOSSES:
            self.forward.made.append(found)
        return found


@dataclass(frozen=True)
class LossPlace:
    """Place of the loss: among the marked tensors, the results of loss functions, or the outputs."""

    among: Literal["marked", "made", "outputs"]
    number: int

    def find(self, forward: Pass, outputs: list[Tensor]) -> Tensor:
        """Return the loss of a pass."""
        there = outputs if self.among == "outputs" else getattr(forward, self.among)
        if self.number >= len(there):
            raise Error("this pass does not make the loss that was found when compiling: a graph is static")
        loss: Tensor = there[self.number]
        return loss


def find_loss(forward: Pass, outputs: list[Tensor]) -> LossPlace:
    """Return the place of a model's loss, found in one forward pass."""
    made = [(LossPlace("marked", n), tensor) for n, tensor in enumerate(forward.marked) if tensor.requires_grad]
    made += [(LossPlace("made", n), tensor) for n, tensor in enumerate(forward.made) if tensor.requires_grad]
    last = [pair for pair in made if not any(_follows(other, pair[1]) for _, other in made)]
    returned = [
        (LossPlace("outputs", number), tensor)
        for number, tensor in enumerate(outputs)
        if tensor.dim() == 0 and tensor.is_floating_point() and tensor.requires_grad
    ]
    if len(last) == 1 and last[0][0].among == "marked":
        return last[0][0]
    for place, tensor in reversed(returned):  # computed from all losses, or the only one
        if all(tensor is loss or _follows(tensor, loss) for _, loss in last):
            return place
    if len(last) > 1:
        raise Error(
            f"Multiple independent losses found in graph: {len(last)} that do not follow from each other; pass their "
            "sum to poptorch.identity_loss"
        )
    if not last:
        raise Error(
            "Couldn't find a loss in graph: use one of torch's loss functions, or mark the loss with "
            "poptorch.identity_loss"
        )
    return last[0][0]


def _follows(tensor: Tensor, loss: Tensor) -> bool:
    """Return whether a tensor was computed from a loss, and is not the loss itself."""
    if tensor is loss or tensor.grad_fn is loss.grad_fn:
        return False
    return any(node is loss.grad_fn for node in _made_by(tensor))


def trained_by(loss: Tensor) -> Iterator[Tensor]:
    """Yield the tensors that get gradients from a loss."""
    yield from (node.variable for node in _made_by(loss) if hasattr(node, "variable"))


def _made_by(tensor: Tensor) -> Iterator[Any]:
    """Yield the operations that a tensor was computed by."""
    seen: set[Any] = set()
    ahead = [tensor.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            ahead += [before for before, _ in node.next_functions]


def backward(loss: Tensor) -> None:
    """Add the gradients of a loss. For a loss that is not reduced, add those of its sum."""
    torch.autograd.backward(loss, torch.ones_like(loss))
