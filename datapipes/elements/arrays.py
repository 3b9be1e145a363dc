"""Arrays and tensors as a dtype, a shape and bytes, and back.

Invariants: making an array or a tensor runs only the constructors of numpy and torch that are named here, and takes
over the memory of its bytes. The result is always sound: the shape fits the bytes, a bool is 0 or 1, text consists of
characters, and nothing is a pointer. numpy is only needed for elements that contain it.
"""

from __future__ import annotations

import ctypes
import re
import sys
from functools import cache
from math import prod
from pickle import PickleBuffer
from typing import Any, Final, TypeAlias

import torch

MOST_DIMENSIONS: Final = 64
# numpy's own short names, except that of objects. Other dtypes are (size, fields) or (dtype, shape).
PLAIN_DTYPE: Final = re.compile(r"[<>|=][?biufcmMSUV]\d{0,10}(\[\d{0,10}[a-zA-Z]{1,10}\])?", re.ASCII)
OBJECTS: Final = "O"
# Their elements have no bytes in memory. torch crashes when it is asked for them.
NOT_OF_BYTES: Final = ("q", "bits")

ArrayParts: TypeAlias = tuple[Any, ...]


@cache
def torch_dtypes() -> dict[str, torch.dtype]:
    """Return every dtype of torch by its name.

    >>> torch_dtypes()["bfloat16"]
    torch.bfloat16
    """
    return {
        str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)
    }


def torch_size(numbers: ArrayParts) -> torch.Size:
    """Return a torch.Size of these numbers."""
    if not all(type(n) is int for n in numbers):
        raise TypeError("a torch.Size is made of int")
    return torch.Size(numbers)


def tensor_parts(tensor: torch.Tensor) -> ArrayParts:
    """Return the name of a tensor's dtype, its shape and its bytes.

    Raise TypeError if it is not dense or not on the CPU.
    """
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout is not torch.strided or tensor.is_nested or dtype.startswith(NOT_OF_BYTES):
        raise TypeError(f"it is a {tensor.layout} tensor of {dtype}; convert it to a dense one of numbers")
    if tensor.device.type != "cpu":
        raise TypeError(f"it is on the device {tensor.device}; move it, for instance by .cpu()")
    size_of(tuple(tensor.shape))
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.numel() == 0:
        return dtype, tuple(plain.shape), b""
    raw: Any = (ctypes.c_char * (plain.numel() * plain.element_size())).from_address(plain.data_ptr())
    raw.owner = plain  # without numpy, a tensor has no buffer of its own: this one keeps its memory alive
    return dtype, tuple(plain.shape), PickleBuffer(raw)


def make_tensor(name: str, shape: ArrayParts, raw: bytes | bytearray) -> torch.Tensor:
    """Make a tensor from its parts.

    >>> make_tensor("int16", (2,), bytearray(4))
    tensor([0, 0], dtype=torch.int16)
    """
    dtype = torch_dtypes().get(name)
    if dtype is None or name.startswith(NOT_OF_BYTES) or size_of(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes are not a tensor of {name!r:.40} and shape {shape!r:.80}")
    if not raw:
        return torch.empty(shape, dtype=dtype, device="cpu")
    if dtype is torch.bool:
        _check_bools(raw)
    return torch.frombuffer(_writable(raw), dtype=dtype).reshape(shape)


def make_with_gradient(name: str, shape: ArrayParts, raw: bytes | bytearray) -> torch.Tensor:
    """Make a tensor that requires a gradient from its parts. It has no graph of its computation."""
    return make_tensor(name, shape, raw).requires_grad_()


def array_parts(array: Any) -> ArrayParts:
    """Return the dtype of a numpy array, its shape, and its bytes or the objects that it holds."""
    import numpy as np

    if array.dtype == np.dtype(OBJECTS):
        return OBJECTS, array.shape, list(array.flat)
    dtype = _dtype_parts(array.dtype)
    if not array.nbytes:
        return dtype, array.shape, b""
    return dtype, array.shape, PickleBuffer(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def make_array(dtype: str | ArrayParts, shape: ArrayParts, content: bytes | bytearray | list[Any]) -> Any:
    """Make a numpy array from its parts."""
    import numpy as np

    size = size_of(shape)
    if isinstance(content, list):
        if dtype != OBJECTS or size != len(content):
            raise ValueError(f"{len(content)} objects are not an array of {dtype!r:.80} and shape {shape!r:.80}")
        objects = np.empty(size, object)
        for i, value in enumerate(content):  # one by one: numpy would look into lists and arrays
            objects[i] = value
        return objects.reshape(shape)
    of = _make_dtype(dtype)
    if size * of.itemsize != len(content):
        raise ValueError(f"{len(content)} bytes are not an array of {dtype!r:.80} and shape {shape!r:.80}")
    array: Any = np.ndarray(shape, of, _writable(content))
    _check_sound(array)
    return array


def scalar_parts(scalar: Any) -> ArrayParts:
    """Return the dtype and the bytes of a numpy scalar."""
    import numpy as np

    array = np.asarray(scalar)
    return _dtype_parts(array.dtype), array.tobytes()


def make_scalar(dtype: str | ArrayParts, raw: bytes) -> Any:
    """Make a numpy scalar from its parts."""
    return make_array(dtype, (), raw)[()]


def make_str(text: str) -> Any:
    """Make a numpy str directly: a dtype would lose zeros at its end."""
    import numpy as np

    return np.str_(text)


def make_bytes(text: bytes) -> Any:
    """Make numpy bytes directly: a dtype would lose zeros at their end."""
    import numpy as np

    return np.bytes_(text)


def size_of(shape: ArrayParts) -> int:
    """Return the number of elements of an array of this shape. Raise ValueError if no array has it.

    >>> size_of((2, 3))
    6
    """
    if len(shape) > MOST_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{shape!r:.80} is not the shape of an array")
    return prod(shape)


def _dtype_parts(dtype: Any) -> str | ArrayParts:
    parts = _described(dtype)
    try:
        same = bool(_make_dtype(parts) == dtype)
    except (TypeError, ValueError):
        same = False
    if not same:
        raise TypeError(f"its dtype is {dtype!r:.80}; convert it, for instance by .astype(object)")
    return parts


def _described(dtype: Any) -> str | ArrayParts:
    if dtype.names is not None:
        fields = ((name, *dtype.fields[name][:2]) for name in dtype.names)
        return dtype.itemsize, tuple((name, offset, _described(field)) for name, field, offset in fields)
    if dtype.subdtype is not None:
        return _described(dtype.subdtype[0]), dtype.subdtype[1]
    return str(dtype.str)


def _make_dtype(parts: Any) -> Any:
    import numpy as np

    if type(parts) is str and PLAIN_DTYPE.fullmatch(parts):
        return np.dtype(parts)
    if type(parts) is not tuple or len(parts) != 2:
        raise ValueError(f"{parts!r:.80} is not a dtype")
    first, second = parts
    if type(first) is not int:
        size_of(second)
        return np.dtype((_make_dtype(first), second))
    names, offsets, described = map(list, zip(*second, strict=True)) if second else ([], [], [])
    formats = list(map(_make_dtype, described))
    if sum(field.itemsize for field in formats) > first:
        raise ValueError("fields that overlap")  # checking each of them could take a multiple of the array's size
    return np.dtype({"names": names, "offsets": offsets, "formats": formats, "itemsize": first})


def _check_sound(array: Any) -> None:
    """Raise ValueError for bools and text with impossible values, which numpy does not check."""
    for name in array.dtype.names or ():
        _check_sound(array[name])
    if array.dtype.kind == "b":
        _check_bools(array.tobytes())
    elif array.dtype.kind == "U" and array.nbytes:
        import numpy as np

        codes = np.ascontiguousarray(array).reshape(-1).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if codes.max() > sys.maxunicode:
            raise ValueError("text with numbers that are not characters")


def _check_bools(raw: bytes | bytearray) -> None:
    if raw.translate(None, b"\0\1"):
        raise ValueError("bools that are neither 0 nor 1")


def _writable(raw: bytes | bytearray) -> bytearray:
    return raw if isinstance(raw, bytearray) else bytearray(raw)
