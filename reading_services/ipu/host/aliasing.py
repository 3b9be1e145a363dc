"""PopTorch's rule that a step's tensors are only lent, made visible: a guard on what was given back.

The tensors of a step, and what torch makes of them without a copy, refuse every operation once the step was given back;
their shapes and types can still be read. What sees the memory without torch (an array of numpy) is not guarded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_iter

from datapipes.errors import ReleasedTensor


class Loan:
    """Whether a step is still lent to its user."""

    over = False

    def of(self, tensor: torch.Tensor) -> LentTensor:
        """The same tensor, lent until this is over."""
        same = tensor.as_subclass(LentTensor)
        same.loan = self
        return same


_OF_ITS_FORM = {"shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_sparse", "is_quantized"}
_ASKING = {"size", "dim", "numel", "nelement", "ndimension", "element_size", "__len__", "stride", "is_contiguous"}


class LentTensor(torch.Tensor):
    """A tensor of a step that is lent."""

    loan: Loan

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        lent = [arg for arg in tree_iter((args, kwargs)) if isinstance(arg, LentTensor)]
        with torch._C.DisableTorchFunctionSubclass():
            if any(tensor.loan.over for tensor in lent) and not _asks_for_form(func):
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
            return tensor.loan.of(made)
    return made


def _asks_for_form(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    owner = getattr(getattr(func, "__self__", None), "__name__", "")
    return name in _ASKING or (name == "__get__" and owner in _OF_ITS_FORM)
