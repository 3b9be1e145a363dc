"""Pickle elements to bytes and out-of-band buffers, and back, between processes that trust each other.

Pickle does the work. Its protocol 5 keeps the memory of arrays out of the pickle, in separate buffers. They are copied
once, into shared memory, and are read there in place. Tensors are reduced here, because torch's own way of pickling
opens a file for each tensor. Objects that pickle rejects (lambdas, classes of a script) are left to cloudpickle.

This module never reads files: a saved state is read by ``datapipes.elements``, which runs no code.
"""

from __future__ import annotations

import ctypes
import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import cloudpickle
import torch

_IN_BAND = 1024
"""Smaller buffers stay in the pickle."""


def pickled(obj: object, pickler: Callable[..., Any] | None = None) -> tuple[bytes, list[memoryview]]:
    """Return a pickle of an object and the out-of-band buffers that the pickle refers to.

    >>> data, buffers = pickled({"rows": torch.zeros(1000), "name": "a"})
    >>> len(buffers), unpickled(data, buffers)["rows"].shape
    (1, torch.Size([1000]))
    """
    buffers: list[memoryview] = []

    def stays_in(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _IN_BAND:
            return True
        buffers.append(raw)
        return False

    file = io.BytesIO()
    try:
        (pickler or _Pickler)(file, 5, buffer_callback=stays_in).dump(obj)
    except (pickle.PicklingError, AttributeError, TypeError):
        if pickler is not None:
            raise
        return pickled(obj, _CloudPickler)
    return file.getvalue(), buffers


class LazyPickle:
    """A pickle that is loaded on demand: most tables that workers send are never read.

    >>> LazyPickle.of({1: "there"}).open()
    {1: 'there'}
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data

    @classmethod
    def of(cls, obj: object) -> LazyPickle:
        """Pack an object."""
        return cls(pickle.dumps(obj, 5))

    def open(self) -> Any:
        """Load the object. Each call returns another copy."""
        return pickle.loads(self.data)

    def __reduce__(self) -> Any:
        return LazyPickle, (bytes(self.data),)


def unpacked(sent: Any) -> Any:
    """Return an object that may have been sent packed."""
    return sent.open() if isinstance(sent, LazyPickle) else sent


def unpickled(data: bytes | memoryview, buffers: Sequence[Any]) -> Any:
    """Load a pickle. Its arrays use the memory of the buffers."""
    return pickle.loads(data, buffers=buffers)


def _apart(tensor: torch.Tensor) -> Any:
    """Reduce a tensor to its memory, type and shape; use torch's own reduction if it is not dense, plain and on CPU."""
    ordinary = (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_quantized or tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
        and not vars(tensor)
    )
    if not ordinary:
        return tensor.__reduce_ex__(5)  # type: ignore[no-untyped-call]  # torch has not typed it
    if tensor.numel() == 0:
        return _empty, (tuple(tensor.shape), tensor.dtype)
    flat = tensor.contiguous().view(-1).view(torch.uint8)
    return _whole, (pickle.PickleBuffer(_memory(flat)), tensor.dtype, tuple(tensor.shape))


def _whole(buffer: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(buffer, dtype=dtype).view(shape)


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def _memory(flat: torch.Tensor) -> memoryview:
    size = flat.numel()
    array = (ctypes.c_ubyte * size).from_address(flat.data_ptr())
    array.owner = flat  # type: ignore[attr-defined]  # keeps the memory alive
    return memoryview(array).cast("B")


class _Pickler(pickle.Pickler):
    dispatch_table: ClassVar[dict[Any, Any]] = {torch.Tensor: _apart}  # type: ignore[misc]  # looked up in the class


class _CloudPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    def reducer_override(self, obj: Any) -> Any:
        return _apart(obj) if type(obj) is torch.Tensor else super().reducer_override(obj)
