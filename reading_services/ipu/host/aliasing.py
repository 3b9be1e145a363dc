"""Guard against use of a step's tensors after they were given back: PopTorch only lends them, from a ring of memory.

A ring has as many slots as its accessor's buffer; each step is laid in the next one, over what was there. Its tensors,
and what torch makes of them without a copy, refuse every operation once the step was given back; their shapes and types
can still be read. What sees the memory without torch (an array of numpy, a pointer) is not guarded: it sees the later
step, as it would with PopTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from datapipes.errors import ReleasedTensor


class Lent:
    """Whether a step is still lent to its user."""

    over = False


_OF_ITS_FORM = {"shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_sparse", "is_quantized"}
_ASKING = {"size", "dim", "numel", "nelement", "ndimension", "element_size", "__len__", "stride", "is_contiguous"}


class LentTensor(torch.Tensor):
    """A tensor that lies in a ring."""

    lent: Lent

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        lent = [arg for arg in _flat((args, kwargs or {})) if isinstance(arg, LentTensor)]
        with torch._C.DisableTorchFunctionSubclass():
            if any(tensor.lent.over for tensor in lent) and not _asks_for_form(func):
                raise ReleasedTensor(
                    "this tensor belongs to a step that was given back: the accessor lends a step until the next one "
                    "is asked for (strict_aliasing=True); clone() what you keep longer"
                )
            return _guarded(func(*args, **(kwargs or {})), lent)


def _guarded(made: Any, lent: list[LentTensor]) -> Any:
    """Mark tensors made of lent ones as lent, where they lie in the same memory."""
    if type(made) in (tuple, list):
        return type(made)(_guarded(part, lent) for part in made)
    if not isinstance(made, torch.Tensor) or isinstance(made, LentTensor) or made.layout is not torch.strided:
        return made
    memory = made.untyped_storage().data_ptr()
    for tensor in lent:
        if tensor.untyped_storage().data_ptr() == memory:
            return _lent(made, tensor.lent)
    return made


def _lent(tensor: torch.Tensor, loan: Lent) -> LentTensor:
    same = tensor.as_subclass(LentTensor)
    same.lent = loan
    return same


def _asks_for_form(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    owner = getattr(getattr(func, "__self__", None), "__name__", "")
    return name in _ASKING or (name == "__get__" and owner in _OF_ITS_FORM)


def _flat(args: Any) -> list[Any]:
    if isinstance(args, dict):
        args = list(args.values())
    return [leaf for arg in args for leaf in _flat(arg)] if isinstance(args, tuple | list) else [args]


class Ring:
    """A ring buffer of the memory of so many steps, used in turn."""

    def __init__(self, slots: int) -> None:
        self._slots: list[list[torch.Tensor]] = [[] for _ in range(slots)]
        self._next = 0
        self._loan = Lent()

    def lend(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Lay the tensors of a step in the next slot, and lend them."""
        slot = self._slots[self._next]
        self._next = (self._next + 1) % len(self._slots)
        self._loan = Lent()
        if any(memory.numel() < tensor.numel() for memory, tensor in zip(slot, tensors, strict=False)):
            slot.clear()
        if not slot:
            slot += [torch.empty(tensor.numel(), dtype=tensor.dtype) for tensor in tensors]
        return [
            _lent(memory[: tensor.numel()].view(tensor.shape).copy_(tensor), self._loan)
            for memory, tensor in zip(slot, tensors, strict=True)
        ]

    def take_back(self) -> None:
        """End the loan of the latest step."""
        self._loan.over = True
