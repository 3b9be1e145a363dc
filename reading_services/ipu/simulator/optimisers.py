"""The optimiser on the device: torch's mathematics, with the hyper-parameters of the time of its snapshot."""

from __future__ import annotations

import inspect
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.messages import logger
from reading_services.ipu.simulator import optim

_KINDS: dict[type[Optimizer], type[Optimizer]] = {
    torch.optim.SGD: torch.optim.SGD,
    torch.optim.AdamW: optim.AdamW,  # before Adam, which it inherits from
    torch.optim.Adam: torch.optim.Adam,
    torch.optim.RMSprop: optim.RMSprop,
    optim.LAMB: optim.LAMB,
}
"""Optimisers that a user may pass, with their counterparts on the device."""


@dataclass(frozen=True)
class Snapshot:
    """Optimiser at one time: its kind, and the hyper-parameters and parameters of its groups."""

    kind: type[Optimizer]
    groups: list[dict[str, Any]]
    host: Optimizer
    accum_type: torch.dtype | None
    max_grad_norm: float | None
    runs_mean: bool
    """Whether a mean is kept while gradients are summed up: the accumulator has half precision."""

    @classmethod
    def of(cls, optimizer: Optimizer) -> Snapshot:
        """Take a snapshot. Later changes of ``param_groups``, also by schedulers, have no effect on it."""
        given = next((kind for kind in _KINDS if isinstance(optimizer, kind)), None)
        if given is None:
            names = ", ".join(each.__name__ for each in _KINDS)
            raise Error(f"Unsupported optimizer type {type(optimizer).__name__}: a device has {names}")
        known = [inspect.unwrap(kind.step) for kind in (given, _KINDS[given], optim.Optimizer)]
        if inspect.unwrap(type(optimizer).step) not in known:
            name = type(optimizer).__name__
            logger.warning("%s overrides step(), which is never called: the device computes %s", name, given.__name__)
        groups = [
            {name: value if name == "params" else deepcopy(value) for name, value in group.items()}
            for group in optimizer.param_groups
        ]
        accum_type = getattr(optimizer, "accum_type", None)
        runs_mean = accum_type == torch.half and not getattr(optimizer, "use_combined_accum", False)
        return cls(_KINDS[given], groups, optimizer, accum_type, getattr(optimizer, "max_grad_norm", None), runs_mean)

    def on_device(self, parameters: dict[int, nn.Parameter], before: Optimizer | None) -> Optimizer:
        """Return an optimiser over the device's parameters, which are passed by the ids of the host's.

        It gets the state of ``before``, else that of the host's optimiser. Parameters that are not the model's are
        left out.
        """
        kind: Any = self.kind  # parameters are the only argument that each kind requires
        made: Optimizer = kind([{"params": [nn.Parameter(torch.empty(0))]}])
        made.param_groups.clear()
        for group in self.groups:
            made.add_param_group(
                {**group, "params": [parameters[id(p)] for p in group["params"] if id(p) in parameters]}
            )
        if before is not None and type(before) is type(made):
            made.state.update(before.state)
            return made
        for parameter, state in self.host.state.items():
            if id(parameter) in parameters:
                made.state[parameters[id(parameter)]] = {
                    name: value.detach().clone() if isinstance(value, Tensor) else deepcopy(value)
                    for name, value in state.items()
                }
        return made
