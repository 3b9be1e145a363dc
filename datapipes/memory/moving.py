"""Move an element to a device, in the background where that can be.

A copy to an NVIDIA or AMD device runs beside the computation if it is made from pinned memory, in a stream of its own.
Who uses the element then has to wait in the stream that it computes in, and not on the processor, until the copy is
there; and its memory, which belongs to the stream of the copy, must not be used again before that computation is over.
Both are said when the element is handed on, by whoever hands it on, whose stream counts.

Whatever has a ``to`` method decides for itself, on a copy, since some change themselves; containers and dataclasses are
rebuilt around their contents; all else is handed on as it is.
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
"""Begins to move an element; what it returns is called when the element is handed on, and gives it."""


def moved(data: Any, device: torch.device, in_background: bool = False) -> Any:
    """The same element with everything that can be moved on a device.

    Args:
        data: The element.
        device: The device.
        in_background: Whether to copy from pinned memory, without waiting for it.

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
    """The way to move elements to a device: in the background if it can be and is wanted."""
    if device.type == "cuda" and non_blocking:
        return SideStream(device, torch.cuda).begin
    return lambda element: partial(_itself, moved(element, device))


def _itself(element: Any) -> Any:
    return element


class SideStream:
    """Copies in a stream of their own, beside the computation.

    Args:
        device: The device.
        streams: The module of its streams, ``torch.cuda``.
    """

    def __init__(self, device: torch.device, streams: Any) -> None:
        self._device = device
        self._streams = streams
        self._stream = streams.Stream(device)

    def begin(self, element: Any) -> Callable[[], Any]:
        """Begin to copy an element."""
        with self._streams.stream(self._stream):  # which makes its device the one in use, in this thread
            there = moved(element, self._device, in_background=True)
            copied = self._stream.record_event()
        return partial(self._arrived, there, copied)

    def _arrived(self, there: Any, copied: Any) -> Any:
        using = self._streams.current_stream(self._device)
        using.wait_event(copied)
        _used_in(using, there)
        return there


def _used_in(stream: Any, data: Any) -> Any:
    """Note that the tensors of an element are used in a stream; the element itself is returned."""
    if callable(record := getattr(data, "record_stream", None)):
        record(stream)
        return data
    rebuilt(data, partial(_used_in, stream))
    return data
