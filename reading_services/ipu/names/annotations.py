"""Annotations for PopTorch's compiler, which change no number: they return their tensor as it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, nn

from datapipes.errors import BadArgument
from reading_services.ipu.names.errors import Error


def nop(tensor: Tensor) -> Tensor:
    """Return the tensor. On IPUs this is an operation that the compiler does not remove.

    >>> import torch
    >>> nop(torch.ones(2))
    tensor([1., 1.])
    """
    return _tensor("nop", tensor)


def set_available_memory(tensor: Tensor, available_memory_proportion: float) -> Tensor:
    """Return the tensor. On IPUs this limits the memory of the operation that made it."""
    return _tensor("set_available_memory", tensor)


def ipu_print_tensor(tensor: Tensor, title: str = "") -> Tensor:
    """Return the tensor, and print nothing: on a simulated device, use ``print`` in ``forward``."""
    return _tensor("ipu_print_tensor", tensor)


printIpuTensor = ipu_print_tensor


class CPU:
    """Function of the host in the middle of a model: a call of this object calls the function.

    Like PopTorch's, it is for inference: the weights of a module in it are not trained and do not belong to the model.

    >>> CPU(lambda x: x + 1, "add_one")(1)
    2
    """

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        self._layer_to_call = layer_to_call
        self.ID = ID
        if isinstance(layer_to_call, nn.Module):
            layer_to_call.requires_grad_(False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._layer_to_call(*args, **kwargs)


class _Annotation(AbstractContextManager["_Annotation"]):
    """A ``with`` block that is marked for the compiler."""

    def __exit__(self, *error: object) -> None:
        pass


class Attribute(_Annotation):
    """Attributes of all operations in a ``with`` block: ``with Attribute(__outline={"layer": "embedding"}): ...``."""

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes


class NameScope(_Annotation):
    """A prefix of the names of all operations in a ``with`` block: ``with NameScope("encoder"): ...``."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise BadArgument(f"Parameter to NameScope must be a string, and not {name!r}")
        self.name = name


def _tensor(name: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise Error(f"{name} must take a torch.Tensor argument. {type(tensor).__name__} is not supported.")
    return tensor
