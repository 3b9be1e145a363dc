"""The device's copy of a module, with weights of its own and everything else as it was.

``forward`` may reach a weight of the user's model past the copy: by a function that refers to the model, or by another
module that shares the weight. Every operation of torch then uses the device's weight instead.

A compiled program has attributes baked in. So training flags and attributes are those of the time of the copy, and are
restored before each forward pass. Only parameters and registered buffers persist. Objects without modules and tensors
are shared, as in a shallow copy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

NARROWED = {torch.int64: torch.int32, torch.float64: torch.float32}
_REGISTERED = ("_parameters", "_buffers", "_modules")


def narrowed(dtype: torch.dtype) -> torch.dtype:
    """Return the device's type for a host's type: it has no 64-bit numbers."""
    return NARROWED.get(dtype, dtype)


def computed(tensor: Tensor) -> Tensor:
    """Return a tensor in the device's form, detached and in memory of its own.

    64-bit floats and bfloat16 become 32-bit floats. Integers keep 64 bits inside, because torch indexes with 64-bit
    integers only. They are narrowed when they are returned.
    """
    wide = tensor.dtype in (torch.float64, torch.bfloat16)
    return tensor.detach().to(torch.float32 if wide else tensor.dtype, copy=True, memory_format=torch.contiguous_format)


class DeviceModule:
    """Device's copy of a module, kept as it was compiled."""

    def __init__(self, module: nn.Module) -> None:
        self._copies: dict[int, Any] = {}
        self._kept: list[object] = []  # keeps the originals alive, so that no id in _copies is used again
        self._plain: list[tuple[Tensor, Tensor, int]] = []
        self._buffers: dict[int, tuple[nn.Module, str]] = {}
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            self.module: nn.Module = self._copied(module)
        modules = [each for each in self._copies.values() if isinstance(each, nn.Module)]
        self._attributes = [(each, {k: v for k, v in vars(each).items() if k not in _REGISTERED}) for each in modules]

    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one forward pass, with the attributes that the copy was made with."""
        for module, attributes in self._attributes:
            registered = {name: vars(module)[name] for name in _REGISTERED}
            vars(module).clear()
            vars(module).update(attributes, **registered)
        for number, (tensor, pristine, version) in enumerate(self._plain):
            if tensor._version != version:
                with torch.no_grad():
                    tensor.detach_().copy_(pristine)
                self._plain[number] = (tensor, pristine, tensor._version)
        with _Replaced(self.in_place_of):
            return self.module(*args, **kwargs)

    def in_place_of(self, tensor: Tensor) -> Tensor:
        """Return the device's tensor for one of the user's module. Return any other one itself."""
        if id(tensor) in self._buffers:  # forward may replace it, and each replica has its own
            module, name = self._buffers[id(tensor)]
            return module._buffers[name]  # type: ignore[return-value]  # buffers that were None are not in _buffers
        found: Tensor = self._copies.get(id(tensor), tensor)
        return found

    def plain(self) -> list[Tensor]:
        """Return the tensors that are plain attributes of modules: they are baked in."""
        return [tensor for tensor, _, _ in self._plain]

    def _copied(self, value: Any) -> Any:
        if id(value) in self._copies:
            return self._copies[id(value)]
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, nn.Parameter):
            return self._keep(value, nn.Parameter(computed(value), value.requires_grad))
        if isinstance(value, Tensor):
            made = self._keep(value, computed(value))
            self._plain.append((made, made.clone(), made._version))
            return made
        if isinstance(value, MethodType) and isinstance(value.__self__, nn.Module):
            return MethodType(value.__func__, self._copied(value.__self__))
        if type(value) in (list, tuple):
            parts = [self._copied(each) for each in value]
            return value if _all_same(parts, value) else self._keep(value, type(value)(parts))
        if type(value) in (dict, OrderedDict):
            items = {key: self._copied(each) for key, each in value.items()}
            return value if _all_same(items.values(), value.values()) else self._keep(value, type(value)(items))
        return value

    def _module(self, module: nn.Module) -> nn.Module:
        made: nn.Module = self._keep(module, type(module).__new__(type(module)))
        for name, value in vars(module).items():
            if name == "_buffers":
                buffers = {key: None if each is None else self._buffer(each) for key, each in value.items()}
                vars(made)[name] = type(value)(buffers)
                self._buffers |= {id(each): (made, key) for key, each in value.items() if each is not None}
            elif name in _REGISTERED:
                vars(made)[name] = type(value)((key, self._copied(each)) for key, each in value.items())
            elif "_hooks" in name and isinstance(value, dict):
                vars(made)[name] = value.copy()
            else:
                vars(made)[name] = self._copied(value)
        return made

    def _buffer(self, buffer: Tensor) -> Tensor:
        if id(buffer) not in self._copies:
            self._keep(buffer, computed(buffer))
        found: Tensor = self._copies[id(buffer)]
        return found

    def _keep(self, value: Any, made: Any) -> Any:
        self._kept.append(value)
        self._copies[id(value)] = made
        return made


class _Replaced(TorchFunctionMode):
    """Mode in which torch computes with replacements of some tensors."""

    def __init__(self, in_place_of: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._in_place_of = in_place_of

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = {name: self._replaced(each) for name, each in kwargs.items()} if kwargs else {}
        return function(*map(self._replaced, args), **named)

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._in_place_of(value)
        return type(value)(map(self._replaced, value)) if type(value) in (list, tuple) else value


def _all_same(left: Any, right: Any) -> bool:
    return all(one is other for one, other in zip(left, right, strict=True))
