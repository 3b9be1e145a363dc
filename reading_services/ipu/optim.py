"""Optimisers that take PopTorch's extra arguments; their mathematics is that of torch.

Scaling of the loss and the types of accumulators are about half precision on the chip: they are kept, and change no
number here. ``max_grad_norm`` clips the gradients of all parameters together, as ``clip_grad_norm_`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch

from reading_services.ipu.messages import logger

Params = Iterable[torch.Tensor] | Iterable[dict[str, Any]]
Dtype = torch.dtype | None


class _Extras:
    """What PopTorch's optimisers have and torch's do not."""

    accum_type: Dtype = None
    max_grad_norm: float | None = None
    use_combined_accum: bool = False

    def _keep(self, **extras: Any) -> None:
        for name, value in extras.items():
            setattr(self, name, value)
        if extras.get("bias_correction") is False or extras.get("use_tf_variant"):
            name = "use_tf_variant=True" if extras.get("use_tf_variant") else "bias_correction=False"
            logger.warning("%s(%s) is not simulated: it computes as torch's does", type(self).__name__, name)


class SGD(_Extras, torch.optim.SGD):
    """Stochastic gradient descent.

    >>> SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, loss_scaling=128.0).loss_scaling
    128.0
    """

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


class Adam(_Extras, torch.optim.Adam):
    """Adam."""

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


class AdamW(_Extras, torch.optim.AdamW):
    """Adam with decoupled weight decay."""

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
        self._keep(**_moments("AdamW", extras, bias_correction=True))


class RMSprop(_Extras, torch.optim.RMSprop):
    """RMSprop."""

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
        self._keep(**_moments("RMSprop", extras, use_tf_variant=False))


class LAMB(_Extras, torch.optim.Optimizer):
    """Adam whose step on each parameter is as long as the parameter itself, times the learning rate.

    >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> weight.grad = torch.tensor([1.0, 0.0])
    >>> LAMB([weight], lr=0.1).step()
    >>> weight.data
    tensor([2.5000, 4.0000])
    """

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
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state, (first, second) = self.state[parameter], group["betas"]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        mean = state["exp_avg"].lerp_(parameter.grad, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
        if group["bias_correction"]:
            mean, square = mean / (1 - first ** state["step"]), square / (1 - second ** state["step"])
        move = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * parameter
        weight_norm, move_norm = parameter.norm(), move.norm()
        if group["max_weight_norm"] is not None:
            weight_norm = weight_norm.clamp(max=group["max_weight_norm"])
        trust = weight_norm / move_norm if weight_norm > 0 and move_norm > 0 else 1.0
        parameter -= group["lr"] * trust * move


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
    return known | extras
