"""Move an element to a device, in the background if possible.

A copy to an NVIDIA or AMD device runs beside the computation if it is made from pinned memory, in a stream of its own.
The stream that computes has to wait for the copy (the processor does not). The memory belongs to the stream of the copy
and must not be used again before the computation has finished. Both are recorded in the consumer's stream, when the
element is handed on.

An object with a ``to`` method is copied first, because some such methods change the object. Containers and dataclasses
are rebuilt around their contents. Any other object is handed on as it is.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch

from datapipes.memory.contents import rebuilt
from datapipes.memory.pinning import pin_memory_fn

Move: TypeAlias = Callable[[Any], Callable[[], Any]]
"""Begins to move an element. Returns a function that is called when the element is handed on and returns it."""


def moved(data: Any, device: torch.device, in_background: bool = False) -> Any:
    """Return the element with everything that can be moved on a device.

    Args:
        data: The element.
        device: The device.
        in_background: Whether to copy from pinned memory, without waiting for it. ``False``: the copy is complete.

    >>> moved({"x": [torch.ones(2)], "y": "text"}, torch.device("meta"))
    {'x': [tensor(..., device='meta', size=(2,))], 'y': 'text'}
    """
    if isinstance(data, torch.Tensor):
        can_be_pinned = in_background and data.device.type == "cpu" and data.layout is torch.strided
        return (data.pin_memory() if can_be_pinned else data).to(device, non_blocking=in_background)
    to = getattr(data, "to", None)
    if not callable(to):
        return rebuilt(data, lambda each: moved(each, device, in_background))
    own = copy.copy(pin_memory_fn(data) if in_background else data)
    return own.to(device, non_blocking=True) if in_background and _takes_non_blocking(to) else own.to(device)


def _takes_non_blocking(to: Callable[..., Any]) -> bool:
    try:
        inspect.signature(to).bind(None, non_blocking=True)
    except (TypeError, ValueError):
        return False
    return True


def mover(device: torch.device, non_blocking: bool) -> Move:
    """Return the function that moves elements to a device: in the background if wanted and possible."""
    if device.type == "cuda" and non_blocking:
        return SideStream(device, torch.cuda).begin
    return lambda element: partial(_itself, moved(element, device))


def _itself(element: Any) -> Any:
    return element


class SideStream:
    """Copying in a stream of its own, beside the computation.

    Args:
        device: The device.
        streams: The module of its streams, ``torch.cuda``.
    """

    def __init__(self, device: torch.device, streams: Any) -> None:
        self._device = device
        self._streams = streams
        self._stream = streams.Stream(device)

    def begin(self, element: Any) -> Callable[[], Any]:
        """Begin to copy an element. Return the function that hands it on."""
        with self._streams.stream(self._stream):  # it also makes the device the current one of this thread
            there = moved(element, self._device, in_background=True)
            copied = self._stream.record_event()
        return partial(self._arrived, there, copied)

    def _arrived(self, there: Any, copied: Any) -> Any:
        using = self._streams.current_stream(self._device)
        using.wait_event(copied)
        _used_in(using, there)
        return there


def _used_in(stream: Any, data: Any) -> Any:
    """Record that a stream uses the tensors of an element. Return the element."""
    if callable(record := getattr(data, "record_stream", None)):
        record(stream)
        return data
    rebuilt(data, partial(_used_in, stream))
    return data
