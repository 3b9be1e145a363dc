"""Optimisers that take PopTorch's extra arguments; their mathematics is that of torch.

Loss scaling and accumulator types matter for half precision on the chip. Here they are stored and change no number.
``max_grad_norm`` clips the gradients of all parameters together, as ``clip_grad_norm_`` does. Steps that torch does not
have are computed here: LAMB, AdamW without bias correction, and RMSprop as in TensorFlow.

A class is torch's with a table of the extra arguments. If torch does not have its step, it also has an update of one
weight.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, cast, overload

import torch

from datapipes.errors import BadArgument

Params = Iterable[torch.Tensor] | Iterable[dict[str, Any]]
Table = dict[str, Any]

_EXTRAS: Table = {
    "loss_scaling": 1.0,
    "accum_type": None,
    "max_grad_norm": None,
    "use_combined_accum": False,
}
_MOMENTS: Table = _EXTRAS | {"first_order_momentum_accum_type": None, "second_order_momentum_accum_type": None}


class VariableAttributes:
    """Constant and variable hyper-parameters after compiling: on a chip a constant takes less memory.

    Arguments passed to an optimiser are variable, and its defaults are constant. Here this has no effect on numbers.

    >>> attributes = SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1).variable_attrs
    >>> attributes.isConstant("lr"), attributes.isConstant("momentum")
    (False, True)
    >>> attributes.markAsVariable("momentum")
    >>> attributes.isConstant("momentum")
    False
    """

    def __init__(self, variable_attributes: Iterable[str], allowed_attributes: Iterable[str]) -> None:
        self._allowed = sorted(allowed_attributes)
        self._variable = set(variable_attributes).intersection(self._allowed)

    def isConstant(self, attr: str) -> bool:
        """Return whether the hyper-parameter keeps the value that it is compiled with."""
        return attr not in self._variable

    def markAsConstant(self, attr: str) -> None:
        """Mark a hyper-parameter as constant."""
        self._variable.discard(self._known(attr))

    def markAsVariable(self, attr: str) -> None:
        """Mark a hyper-parameter as variable."""
        self._variable.add(self._known(attr))

    def _known(self, attr: str) -> str:
        if attr not in self._allowed:
            raise BadArgument(f"Unknown attribute {attr}, allowed values: {self._allowed}")
        return attr


class Optimizer:
    """Base of the optimisers: arguments and methods of PopTorch's that torch's do not have.

    >>> SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, loss_scaling=128.0).loss_scaling
    128.0
    """

    variable_attrs: VariableAttributes
    accum_type: torch.dtype | None
    max_grad_norm: float | None
    use_combined_accum: bool
    _extras: ClassVar[Table] = _MOMENTS
    """The arguments that torch's class does not take, with their defaults, for which None stands as well."""
    _variant: ClassVar[tuple[str, object]] = ("", True)
    """The setting of a group, with its value, for which ``_update`` replaces torch's step."""

    def __init_subclass__(cls) -> None:
        if Optimizer not in cls.__bases__:  # a user's subclass of a class below
            return
        torchs, by_name = inspect.signature(cls.__bases__[1]), inspect.Parameter.KEYWORD_ONLY
        extras = [inspect.Parameter(name, by_name, default=value) for name, value in cls._extras.items()]
        cast("Any", cls).__signature__ = torchs.replace(parameters=[*torchs.parameters.values(), *extras])

    def __init__(self: Any, params: Params, *args: Any, **kwargs: Any) -> None:
        extras = {name: kwargs.pop(name, None) for name in self._extras}
        torchs: Any = super()
        torchs.__init__(params, *args, **kwargs)
        self.__dict__.update(self._extras | {name: value for name, value in extras.items() if value is not None})
        name, value = self._variant
        if name and vars(self)[name] is value:
            self.defaults[name] = value
            for group in self.param_groups:
                group.setdefault(name, value)
        given = inspect.signature(type(self)).bind(params, *args, **kwargs, **extras).arguments
        variable = [name for name, value in given.items() if value is not None]
        scaling = [name for name in self._extras if name.endswith("_scaling")]
        self.variable_attrs = VariableAttributes(variable, [*self.defaults, *scaling])

    def __getstate__(self) -> Table:
        own = {name: vars(self)[name] for name in ("variable_attrs", *self._extras)}
        state: Any = super().__getstate__()
        return {**state, **own}

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self: Any, closure: Callable[[], float] | None = None) -> float | None:
        """Update all parameters that have a gradient."""
        name, value = self._variant
        if not any(group.get(name) is value for group in self.param_groups):
            torchs: Any = super()
            return cast("float | None", torchs.step(closure))
        loss = None if closure is None else torch.enable_grad()(closure)()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        grad = -parameter.grad if group.get("maximize") else parameter.grad
                        self._update(parameter, grad, self.state[parameter], group)
        return loss


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent."""

    _extras = _EXTRAS | {"velocity_scaling": None, "velocity_accum_type": None}


class Adam(Optimizer, torch.optim.Adam):
    """Adam."""


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay. ``bias_correction=False`` uses its means uncorrected.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> weight.grad = torch.tensor([2.0])
    >>> AdamW([weight], lr=0.1, weight_decay=0.0, bias_correction=False).step()  # by 0.1 * 0.2 / sqrt(0.004)
    >>> weight.item()
    0.683...
    """

    _extras = _MOMENTS | {"bias_correction": True}
    _variant = ("bias_correction", False)

    def __init__(self, params: Params, *args: Any, **kwargs: Any) -> None:
        super().__init__(params, *args, **kwargs)
        if self.defaults["amsgrad"] and not self.defaults.get("bias_correction", True):
            raise BadArgument("AdamW(amsgrad=True, bias_correction=False): these exclude each other")

    @staticmethod
    def _update(parameter: torch.Tensor, grad: torch.Tensor, state: Table, group: Table) -> None:
        mean, square = _means(grad, state, group)
        parameter *= 1 - group["lr"] * group["weight_decay"]
        parameter -= group["lr"] * mean / (square.sqrt() + group["eps"])


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop, with ``use_tf_variant=True`` as in TensorFlow.

    In that variant the mean of squares begins at 1, ``eps`` is added under the root, and momentum includes the learning
    rate.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> weight.grad = torch.tensor([3.0])
    >>> RMSprop([weight], lr=0.1, alpha=0.5, use_tf_variant=True).step()  # by 0.1 * 3 / sqrt(5)
    >>> weight.item()
    0.865...
    """

    _extras = _MOMENTS | {"use_tf_variant": False}
    _variant = ("use_tf_variant", True)

    @staticmethod
    def _update(parameter: torch.Tensor, grad: torch.Tensor, state: Table, group: Table) -> None:
        if not state:
            state.update(square_avg=torch.ones_like(parameter), momentum_buffer=torch.zeros_like(parameter))
            if group["centered"]:
                state["grad_avg"] = torch.zeros_like(parameter)
        grad = grad + group["weight_decay"] * parameter
        square = state["square_avg"].lerp_(grad * grad, 1 - group["alpha"]) + group["eps"]
        if group["centered"]:
            square -= state["grad_avg"].lerp_(grad, 1 - group["alpha"]) ** 2
        parameter -= state["momentum_buffer"].mul_(group["momentum"]).add_(group["lr"] * grad / square.sqrt())


class _LambBase(torch.optim.Optimizer):
    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        max_weight_norm: float | None = None,
    ) -> None:
        own = {"bias_correction": bias_correction, "max_weight_norm": max_weight_norm}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **own})


class LAMB(Optimizer, _LambBase):
    """Adam whose step on each parameter is scaled to the parameter's norm, times the learning rate.

    >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> weight.grad = torch.tensor([1.0, 0.0])
    >>> LAMB([weight], lr=0.1).step()
    >>> weight.data
    tensor([2.5000, 4.0000])
    """

    _variant = ("", None)  # all groups: torch does not have this step

    @staticmethod
    def _update(parameter: torch.Tensor, grad: torch.Tensor, state: Table, group: Table) -> None:
        mean, square = _means(grad, state, group)
        if group["bias_correction"]:
            state["step"] = state.get("step", 0) + 1
            first, second = group["betas"]
            mean, square = mean / (1 - first ** state["step"]), square / (1 - second ** state["step"])
        move = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * parameter
        weight_norm, move_norm = parameter.norm(), move.norm()
        if group["max_weight_norm"] is not None:
            weight_norm = weight_norm.clamp(max=group["max_weight_norm"])
        trust = weight_norm / move_norm if weight_norm > 0 and move_norm > 0 else 1.0
        parameter -= group["lr"] * trust * move


def _means(grad: torch.Tensor, state: Table, group: Table) -> tuple[torch.Tensor, torch.Tensor]:
    """Update the running means of gradients and of their squares, and return them."""
    if not state:
        state.update(exp_avg=torch.zeros_like(grad), exp_avg_sq=torch.zeros_like(grad))
    first, second = group["betas"]
    mean: torch.Tensor = state["exp_avg"].lerp_(grad, 1 - first)
    square: torch.Tensor = state["exp_avg_sq"].mul_(second).addcmul_(grad, grad, value=1 - second)
    return mean, square
