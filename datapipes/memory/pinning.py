"""Move an element into pinned memory, from which copies to an accelerator can run in the background.

An object with a ``pin_memory`` method pins itself. Containers and dataclasses are rebuilt around their pinned contents.
Any other object is handed on as it is. The element itself is never changed, and a namedtuple stays one.

Tensors are pinned for the accelerator in use: torch has deprecated the device argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from datapipes.memory.contents import rebuilt


def pin_memory_fn(data: Any, device: Any = None) -> Any:
    """Return the element with everything that can be pinned in pinned memory.

    Args:
        data: The element.
        device: The argument for a ``pin_memory`` method of a user's class, if it takes one. Tensors are pinned for the
            accelerator in use. ``None``: none.

    >>> pin_memory_fn({"ids": (1, 2), "text": "as it is"})
    {'ids': (1, 2), 'text': 'as it is'}
    """
    pin = getattr(data, "pin_memory", None)
    if callable(pin):
        return pin(device) if _takes_device(data, pin, device) else pin()
    return rebuilt(data, lambda each: pin_memory_fn(each, device))


def _takes_device(data: object, pin: Callable[..., Any], device: object) -> bool:
    """Return whether a user's ``pin_memory`` takes the device. torch's own protocol does not pass it."""
    if isinstance(data, torch.Tensor):
        return False
    try:
        inspect.signature(pin).bind(device)
    except (TypeError, ValueError):
        return False
    return True
