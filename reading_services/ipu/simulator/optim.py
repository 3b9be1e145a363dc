"""Optimisers that take PopTorch's extra arguments; their mathematics is that of torch.

Scaling of the loss and the types of accumulators are about half precision on the chip: they are kept, and change no
number here. ``max_grad_norm`` clips the gradients of all parameters together, as ``clip_grad_norm_`` does. What torch
has not is computed here: LAMB, AdamW without bias correction, and RMSprop as TensorFlow has it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, overload

import torch

from datapipes.errors import BadArgument

P = ParamSpec("P")
Params = Iterable[torch.Tensor] | Iterable[dict[str, Any]]
Dtype = torch.dtype | None


class VariableAttributes:
    """Constant and variable hyper-parameters after compiling: on a chip a constant takes less memory.

    Those that an optimiser was given are variable, and its defaults are constant. Nothing is computed otherwise here.

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
        """Whether it stays as it is when the model is compiled."""
        return attr not in self._variable

    def markAsConstant(self, attr: str) -> None:
        """Mark a hyper-parameter as one that will not change."""
        self._variable.discard(self._known(attr))

    def markAsVariable(self, attr: str) -> None:
        """Mark a hyper-parameter as one that may change."""
        self._variable.add(self._known(attr))

    def _known(self, attr: str) -> str:
        if attr not in self._allowed:
            raise BadArgument(f"Unknown attribute {attr}, allowed values: {self._allowed}")
        return attr


class Optimizer:
    """Base of the optimisers: arguments and methods that PopTorch's have and torch's do not."""

    variable_attrs: VariableAttributes
    accum_type: Dtype = None
    max_grad_norm: float | None = None
    use_combined_accum: bool = False
    _kept: tuple[str, ...] = ()

    def _keep(self, **extras: Any) -> None:
        self._kept = tuple(extras)
        for name, value in extras.items():
            setattr(self, name, value)

    def _in_groups(self: Any, **more: Any) -> None:
        """Set in groups what torch's do not hold, each its own value or this one."""
        self.defaults.update(more)
        for group in self.param_groups:
            group.update({name: group.get(name, value) for name, value in more.items()})

    def __getstate__(self) -> dict[str, Any]:
        own = {name: vars(self)[name] for name in ("variable_attrs", "_kept", *self._kept)}
        state: Any = super().__getstate__()
        return {**state, **own}

    @torch.no_grad()
    def _step(self: Any, closure: Callable[[], float] | None = None) -> float | None:
        """One update of all parameters that have a gradient, by ``_update``."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    grad = -parameter.grad if group.get("maximize") else parameter.grad
                    self._update(parameter, grad, self.state[parameter], group)
        return loss


def _given(init: Callable[P, None]) -> Callable[P, None]:
    """Tell an optimiser which hyper-parameters it was given."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def knowing(*args: P.args, **kwargs: P.kwargs) -> None:
        init(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        optimizer, extras = given.pop("self"), given.pop("extras", {})
        variable = [name for name, value in {**given, **extras}.items() if value is not None]
        own = [name for name in ("loss_scaling", "velocity_scaling") if name in vars(optimizer)]
        optimizer.variable_attrs = VariableAttributes(variable, [*optimizer.defaults, *own])

    return knowing


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent.

    >>> SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, loss_scaling=128.0).loss_scaling
    128.0
    """

    @_given
    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool = False,
        accum_type: Dtype = None,
        velocity_accum_type: Dtype = None,
        max_grad_norm: float | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            momentum,
            dampening,
            weight_decay,
            nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
        )
        self._keep(
            loss_scaling=1.0 if loss_scaling is None else loss_scaling,
            velocity_scaling=velocity_scaling,
            use_combined_accum=use_combined_accum,
            accum_type=accum_type,
            velocity_accum_type=velocity_accum_type,
            max_grad_norm=max_grad_norm,
        )


class Adam(Optimizer, torch.optim.Adam):
    """Adam."""

    @_given
    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        **extras: Any,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
        self._keep(**_moments("Adam", extras))


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay; with ``bias_correction=False``, its means are taken as they are.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> weight.grad = torch.tensor([2.0])
    >>> AdamW([weight], lr=0.1, weight_decay=0.0, bias_correction=False).step()  # by 0.1 * 0.2 / sqrt(0.004)
    >>> weight.item()
    0.683...
    """

    @_given
    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        **extras: Any,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
        self._keep(**(kept := _moments("AdamW", extras, bias_correction=True)))
        if not kept["bias_correction"]:
            if amsgrad:
                raise BadArgument("AdamW(amsgrad=True, bias_correction=False): one of them can be had, and not both")
            self._in_groups(bias_correction=False)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of all parameters that have a gradient."""
        plain = all(group.get("bias_correction", True) for group in self.param_groups)
        return super().step(closure) if plain else self._step(closure)

    @staticmethod
    def _update(parameter: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        mean, square = _means(grad, state, group)
        parameter *= 1 - group["lr"] * group["weight_decay"]
        parameter -= group["lr"] * mean / (square.sqrt() + group["eps"])


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop; with ``use_tf_variant=True``, as TensorFlow has it.

    There the mean of squares begins at 1, ``eps`` is added below the root, and momentum has the learning rate in it.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> weight.grad = torch.tensor([3.0])
    >>> RMSprop([weight], lr=0.1, alpha=0.5, use_tf_variant=True).step()  # by 0.1 * 3 / sqrt(5)
    >>> weight.item()
    0.865...
    """

    @_given
    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        **extras: Any,
    ) -> None:
        super().__init__(
            params,
            lr,
            alpha,
            eps,
            weight_decay,
            momentum,
            centered,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
        self._keep(**(kept := _moments("RMSprop", extras, use_tf_variant=False)))
        if kept["use_tf_variant"]:
            self._in_groups(use_tf_variant=True)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of all parameters that have a gradient."""
        plain = not any(group.get("use_tf_variant") for group in self.param_groups)
        return super().step(closure) if plain else self._step(closure)

    @staticmethod
    def _update(parameter: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(square_avg=torch.ones_like(parameter), momentum_buffer=torch.zeros_like(parameter))
            if group["centered"]:
                state["grad_avg"] = torch.zeros_like(parameter)
        grad = grad + group["weight_decay"] * parameter
        square = state["square_avg"].lerp_(grad * grad, 1 - group["alpha"]) + group["eps"]
        if group["centered"]:
            square -= state["grad_avg"].lerp_(grad, 1 - group["alpha"]) ** 2
        parameter -= state["momentum_buffer"].mul_(group["momentum"]).add_(group["lr"] * grad / square.sqrt())


class LAMB(Optimizer, torch.optim.Optimizer):
    """Adam whose step on each parameter is as long as the parameter itself, times the learning rate.

    >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> weight.grad = torch.tensor([1.0, 0.0])
    >>> LAMB([weight], lr=0.1).step()
    >>> weight.data
    tensor([2.5000, 4.0000])
    """

    @_given
    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        max_weight_norm: float | None = None,
        **extras: Any,
    ) -> None:
        own = {"bias_correction": bias_correction, "max_weight_norm": max_weight_norm}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **own})
        self._keep(**_moments("LAMB", extras))

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of all parameters that have a gradient."""
        return self._step(closure)

    @staticmethod
    def _update(parameter: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
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


def _means(grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The running means of gradients and of their squares, after one more."""
    if not state:
        state.update(exp_avg=torch.zeros_like(grad), exp_avg_sq=torch.zeros_like(grad))
    first, second = group["betas"]
    mean: torch.Tensor = state["exp_avg"].lerp_(grad, 1 - first)
    square: torch.Tensor = state["exp_avg_sq"].mul_(second).addcmul_(grad, grad, value=1 - second)
    return mean, square


def _moments(name: str, extras: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The extra arguments of optimisers that keep means; others are refused."""
    known: dict[str, Any] = {
        "loss_scaling": 1.0,
        "accum_type": None,
        "first_order_momentum_accum_type": None,
        "second_order_momentum_accum_type": None,
        "max_grad_norm": None,
        "use_combined_accum": False,
        **more,
    }
    if unknown := extras.keys() - known.keys():
        raise TypeError(f"{name}() got unexpected keyword arguments: {', '.join(sorted(unknown))}")
    return known | {name: value for name, value in extras.items() if value is not None}
