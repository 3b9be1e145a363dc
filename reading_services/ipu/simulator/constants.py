"""Constant outputs of ``forward``: those made of nothing that the device computes.

A tensor is known to be one when torch made it of constants only, without drawing a random number, and nobody has
written to it since. Whatever is not known to be constant counts as computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter


class Constants(TorchFunctionMode):
    """Watches a forward pass for the constants that are made in it."""

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
