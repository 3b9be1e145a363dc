"""load_from_tfrecord: the records of TFRecord files, without TensorFlow.

A record is a length, a checksum of the length, the payload, and a checksum of the payload. What this file keeps true:
nothing is handed on whose checksums were not found right; a file that is cut short is an error, never a short file; no
memory is asked for on the word of a length alone. A payload that is damaged costs its own record, because the length
before it was right; after a damaged length nobody knows where the next record begins, and the rest is given up.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, ClassVar, TypeAlias

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import CorruptRecord
from datapipes.iter.archives.members import warn_of
from datapipes.iter.files.pairs import stream_of
from datapipes.iter.formats.tf_examples import parse
from datapipes.messages.extras import needed
from datapipes.messages.file_errors import located, named
from datapipes.operators.checks import given_length
from datapipes.operators.flattening import Flattening
from datapipes.operators.flattening_position import Parts
from datapipes.position.on_error import Tolerant

Spec: TypeAlias = dict[str, tuple[tuple[int, ...] | None, torch.dtype | None]]

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_STEP = 1 << 20  # bytes asked for at a time


@operator
class TFRecordLoader(Tolerant, Flattening[dict[str, Any]]):
    """A dict for each record of each TFRecord file, ``(path, stream)``: numbers as tensors, bytes as lists.

    Both checksums of a record are verified (torchdata looked at neither).

    Args:
        spec: The features to keep, by name, each with its ``(shape, dtype)``: a dtype of None is bytes, a shape of None
            is as it comes, one size may be -1. Of a feature list time is the first axis. A record without one of the
            features is an error, and the others are not parsed, which is faster. ``None``: all, as they come.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> file = io.BytesIO(bytes.fromhex("0e00000000000000 c5e5693f 0a0c0a0a0a017812051a030a0107 98993925"))
    >>> list(IterableWrapper([("a.tfrecord", file)], deepcopy=False).load_from_tfrecord({"x": ((), torch.int64)}))
    [{'x': tensor(7)}]
    """

    _fluent: ClassVar[str | None] = "load_from_tfrecord"

    datapipe: IterDataPipe[tuple[str, Any]]
    spec: Spec | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        needed("google_crc32c", "tfrecord", "load_from_tfrecord")

    def _inner(self, element: Any) -> Parts[dict[str, Any]]:
        path, stream = stream_of(element, "load_from_tfrecord")
        return _Records(path, stream, self)

    __len__ = given_length


class _Records(Parts[dict[str, Any]]):
    """The records of one file; it goes on after one that is damaged."""

    def __init__(self, path: object, stream: Any, pipe: TFRecordLoader) -> None:
        self._file = named(path)
        self._read = stream.read
        self._pipe = pipe
        self._crc: Callable[[bytes], int] = needed("google_crc32c", "tfrecord").value
        self._number = -1  # of the record at hand
        self._at = 0  # where it begins
        self._next = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        try:
            payload = self._payload()
        except CorruptRecord as error:
            warn_of("tfrecord", error, self._pipe)
            raise
        try:
            return example(payload, self._pipe.spec)
        except (ValueError, RuntimeError) as error:
            raise self._bad(f"its payload cannot be used: {error}") from error

    def skip(self, given: int) -> int:
        for number in range(given):
            try:
                self._payload()
            except StopIteration:
                return number
            except CorruptRecord:
                continue  # it was raised before
        return given

    def locate(self, error: Exception) -> None:
        if not isinstance(error, CorruptRecord):
            located(error, f"{self._file}, record {self._number}")

    def _payload(self) -> bytes:
        """The bytes of the next record, checked."""
        self._number, self._at = self._number + 1, self._next
        header = self._take(_HEADER.size)
        if not header:
            raise StopIteration
        if len(header) < _HEADER.size:
            raise self._bad(f"it is cut short: {len(header)} of the {_HEADER.size} bytes before a payload", ended=True)
        length, checksum = _HEADER.unpack(header)
        if checksum != self._masked(header[:8]):
            raise self._bad(
                "the checksum of its length is wrong, so that the rest of the file cannot be read", ended=True
            )
        payload = self._take(length + _CHECKSUM.size)
        if len(payload) < length + _CHECKSUM.size:
            raise self._bad(f"it is cut short: {len(payload)} of {length + _CHECKSUM.size} bytes are there", ended=True)
        self._next += _HEADER.size + len(payload)
        after, payload = payload[length:], payload[:length]
        if after != _CHECKSUM.pack(self._masked(payload)):
            raise self._bad("the checksum of its payload is wrong")
        return payload

    def _take(self, size: int) -> bytes:
        """Read so many bytes, or those that are left."""
        data: bytes = self._read(min(size, _STEP))
        if len(data) == size or not data:
            return data
        parts, left = [data], size - len(data)
        while left and data:
            data = self._read(min(left, _STEP))
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def _masked(self, data: bytes) -> int:
        crc = self._crc(data)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    def _bad(self, what: str, ended: bool = False) -> CorruptRecord:
        if ended:
            self._read = _nothing
        return CorruptRecord(f"Invalid tfrecord file {self._file}: record {self._number}, at byte {self._at}: {what}")


def _nothing(size: int) -> bytes:
    return b""


def example(payload: bytes, spec: Spec | None) -> dict[str, Any]:
    """The features of a record, those that a spec names in the shapes and dtypes that it says."""
    context, lists = parse(payload, spec)
    if both := sorted(set(context) & set(lists)):
        raise ValueError(f"the keys {both} are in both the context and the feature lists")
    if spec is None:
        return {**context, **lists}
    if missing := sorted(set(spec) - set(context) - set(lists)):
        raise ValueError(f"missing some required keys: {missing}")
    return {key: _as_told(key, context.get(key, lists.get(key)), *spec[key]) for key in spec}


def _as_told(key: str, value: Any, shape: tuple[int, ...] | None, dtype: torch.dtype | None) -> Any:
    """A feature in its shape and dtype; a list of features is one array, with time as its first axis."""
    try:
        if dtype is None:
            return value if shape is None else _nested(list(_leaves(value)), shape)
        if isinstance(value, list):
            value = torch.stack(value) if value else torch.empty(0)
        return (value if shape is None else value.reshape(shape)).to(dtype)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"{key!r} is no {dtype or 'bytes'} of shape {shape}: {error}") from error


def _leaves(value: Any) -> Iterator[bytes]:
    """Bytes, in a list or in lists of one."""
    if isinstance(value, torch.Tensor):
        raise TypeError("it holds numbers, so the spec has to name their dtype")
    for inner in value:
        if isinstance(inner, bytes):
            yield inner
        else:
            yield from _leaves(inner)


def _nested(flat: list[bytes], shape: Sequence[int]) -> Any:
    """A flat list as lists in lists, one of the sizes being perhaps -1, which is whatever is left."""
    known = prod(n for n in shape if n != -1)
    if list(shape).count(-1) == 1 and known:
        shape = [len(flat) // known if n == -1 else n for n in shape]
    if min(shape, default=0) < 0 or prod(shape) != len(flat):
        raise TypeError(f"it has {len(flat)} values")
    if len(shape) < 2:
        return flat if shape else flat[0]
    step = prod(shape[1:])
    return [_nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
