"""Move an element into pinned memory, from which copies to an accelerator can run in the background.

Whatever has a ``pin_memory`` method decides for itself; containers and dataclasses are rebuilt around their pinned
contents; all else is handed on as it is. The element itself is never changed. A namedtuple stays one, which torchdata
0.9 turned into a list.

A tensor is never told the device: torch has deprecated that argument, and pins for the accelerator in use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from datapipes.memory.contents import rebuilt


def pin_memory_fn(data: Any, device: Any = None) -> Any:
    """The same element with everything that can be pinned in pinned memory.

    Args:
        data: The element.
        device: What a ``pin_memory`` method of a user's class is given, if it takes one. Tensors are pinned for the
            accelerator in use, whatever it is.

    >>> pin_memory_fn({"ids": (1, 2), "text": "as it is"})
    {'ids': (1, 2), 'text': 'as it is'}
    """
    pin = getattr(data, "pin_memory", None)
    if callable(pin):
        return pin(device) if _takes_device(data, pin, device) else pin()
    return rebuilt(data, lambda each: pin_memory_fn(each, device))


def _takes_device(data: object, pin: Callable[..., Any], device: object) -> bool:
    """Whether a user's ``pin_memory`` has room for the device: torch's own protocol has none, torchdata's has."""
    if isinstance(data, torch.Tensor):
        return False
    try:
        inspect.signature(pin).bind(device)
    except (TypeError, ValueError):
        return False
    return True
