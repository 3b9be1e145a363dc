"""Weights of host and device, by name: the host's are the user's own tensors, the device has copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn


class Weights:
    """Copies parameters and buffers between a module of the host and its copy on the device."""

    def __init__(self, host: nn.Module, device: nn.Module) -> None:
        self._host, self._device = host, device

    def to_device(self) -> None:
        """Overwrite the device's weights."""
        self._copy(self._pairs())

    def to_host(self) -> None:
        """Overwrite the host's weights, in place: they stay the same objects."""
        self._copy((device, host) for host, device in self._pairs())

    def parameters(self) -> dict[int, nn.Parameter]:
        """The device's parameters by the ids of the host's."""
        return {id(host): device for host, device in self._pairs() if isinstance(device, nn.Parameter)}

    def on_device(self) -> list[Tensor]:
        """All of the device's weights."""
        return [device for _, device in self._pairs()]

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        device = dict(_named(self._device))
        for name, tensor in _named(self._host):
            if name in device:  # a buffer that was None at the time is in neither
                yield tensor, device[name]

    @staticmethod
    def _copy(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        # The host's tensors may have been made such that touching them copies; this is that copy.
        with torch.inference_mode(False), torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            for source, target in pairs:
                target.copy_(source)


def _named(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
