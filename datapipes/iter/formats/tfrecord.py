"""load_from_tfrecord: the records of TFRecord files, parsed without TensorFlow and protobuf.

A record is a length, a checksum of it, the payload, and a checksum of that. Only verified data is handed on. A file
that is cut short is an error. No memory is allocated for a length alone. A damaged payload costs its own record; after
a damaged length the rest of the file cannot be read. A payload is an Example or a SequenceExample (fields: 1 context, 2
feature lists; both are maps by name). A feature is one list, of bytes (1), floats (2) or integers (3). Valid bytes give
the same values as protobuf. Others give values or ``ValueError``, because each length is checked.

Written by hand because protobuf copies large values twice: images of 1 MiB take 4 times as long, records of 40 numbers
1.4 times, images of 100 KiB and lists of floats as long. Lists of integers take a quarter. It would save a hundred
lines.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterator, Sequence
from math import prod
from typing import Any, ClassVar, TypeAlias

import torch

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import CorruptRecord
from datapipes.iter.archives.members import warn_of
from datapipes.iter.files.contents import stream_of
from datapipes.messages.extras import needed
from datapipes.messages.file_errors import located, named
from datapipes.operator_support.checks import given_length
from datapipes.operator_support.flattening import Flattening, Pieces
from datapipes.position.on_error import Tolerant

Values: TypeAlias = list[bytes] | torch.Tensor
Field: TypeAlias = tuple[int, int, int, int]
"""Number of the field, its wire type, and begin and end of its content; a number's content is its bytes."""

_VARINT, _FIXED64, _BYTES, _BEGIN_GROUP, _END_GROUP, _FIXED32 = range(6)
_TEXTS, _FLOATS, _INTEGERS = 0x0A, 0x12, 0x1A  # tags of a feature's three lists
_VALUES = 0x0A  # the tag of what is in a list
_MANY = 32  # from this number of integers on, torch decodes them faster than a loop
_DEEPEST = 100  # most levels of nested groups, as in protobuf

Spec: TypeAlias = dict[str, tuple[tuple[int, ...] | None, torch.dtype | None]]

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_STEP = 1 << 20  # bytes to read at a time


def parse(data: bytes, wanted: Container[str] | None = None) -> tuple[dict[str, Values], dict[str, list[Values]]]:
    """Return the features of the context, and the feature lists, by name. ``wanted``: the names to parse, or all.

    >>> feature = b"\\x0a\\x04\\x0a\\x02hi"  # bytes_list { value: "hi" }
    >>> parse(b"\\x0a\\x0d\\x0a\\x0b\\x0a\\x01x\\x12\\x06" + feature)
    ({'x': [b'hi']}, {})
    """
    context: dict[str, Values] = {}
    lists: dict[str, list[Values]] = {}
    for number, kind, start, end in _fields(data, 0, len(data)):
        if kind == _BYTES and number in (1, 2):
            for name, parts in _entries(data, start, end, wanted):
                if number == 1:
                    context[name] = _feature(data, *parts[0]) if len(parts) == 1 else _merged(data, parts)
                else:
                    lists[name] = [
                        _feature(data, first, last)
                        for begin, stop in parts
                        for field, wire, first, last in _fields(data, begin, stop)
                        if field == 1 and wire == _BYTES
                    ]
    return context, lists


def _entries(
    data: bytes, start: int, end: int, wanted: Container[str] | None
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield the entries of a map from names to messages, with the parts of each message, which may be none."""
    for number, kind, begin, stop in _fields(data, start, end):
        if number != 1 or kind != _BYTES:
            continue
        name = ""
        parts: list[tuple[int, int]] = []
        for field, wire, first, last in _fields(data, begin, stop):
            if field == 1 and wire == _BYTES:
                name = data[first:last].decode()
            elif field == 2 and wire == _BYTES:
                parts.append((first, last))
        if wanted is None or name in wanted:
            yield name, parts


def _feature(data: bytes, start: int, end: int) -> Values:
    """Return the values of a feature. The usual layout, one list with packed numbers, is read directly."""
    which = data[start] if start < end else 0
    inner = _only(data, which, start, end) if which in (_TEXTS, _FLOATS, _INTEGERS) else 0
    content = _only(data, _VALUES, inner, end) if inner else 0
    if content and which == _TEXTS:
        return [data[content:end]]
    if content:
        raw = bytearray(data[content:end])
        return _floats(raw) if which == _FLOATS else _integers(raw)
    return _merged(data, [(start, end)])


def _only(data: bytes, tag: int, start: int, end: int) -> int:
    """Return the start of the content of a message's only field, if it has this tag; otherwise 0."""
    if end - start < 2 or data[start] != tag:
        return 0
    length, at = data[start + 1], start + 2
    if length > 0x7F:
        length, at = _varint(data, start + 1, end)
    return at if at + length == end else 0


def _merged(data: bytes, parts: list[tuple[int, int]]) -> Values:
    """Return the values of a feature of any layout. If it has several of the three lists, the last one counts."""
    which = 0
    values: list[Field] = []
    for start, end in parts:
        for number, kind, begin, stop in _fields(data, start, end):
            if number in (1, 2, 3) and kind == _BYTES:
                if number != which:
                    which, values = number, []
                values += [field for field in _fields(data, begin, stop) if field[0] == 1]
    if which in (2, 3):
        single = _FIXED32 if which == 2 else _VARINT  # the wire type of a number that is not packed
        raw = bytearray().join(data[begin:stop] for _, kind, begin, stop in values if kind in (_BYTES, single))
        return _floats(raw) if which == 2 else _integers(raw)
    return [data[begin:stop] for _, kind, begin, stop in values if kind == _BYTES]


def _floats(raw: bytearray) -> torch.Tensor:
    if len(raw) % 4:
        raise ValueError("a list of floats whose length is not a multiple of four")
    return torch.frombuffer(raw, dtype=torch.float32) if raw else torch.empty(0)


def _integers(raw: bytearray) -> torch.Tensor:
    """Return integers of up to ten bytes each; negative ones have ten."""
    if not raw:
        return torch.empty(0, dtype=torch.int64)
    if raw[-1] & 0x80:
        raise ValueError("an integer is cut short")
    if len(raw) < _MANY:
        numbers, at = [], 0
        while at < len(raw):
            number, at = _varint(raw, at, len(raw))
            numbers.append(number - (1 << 64) if number >> 63 else number)
        return torch.tensor(numbers, dtype=torch.int64)
    digits = torch.frombuffer(raw, dtype=torch.uint8)
    ends = digits < 0x80
    if bool(ends.all()):
        return digits.long()
    which = torch.cumsum(ends, 0) - ends.long()  # the integer of each byte
    first = torch.cat([torch.zeros(1, dtype=torch.int64), torch.nonzero(ends).flatten() + 1])
    place = torch.arange(len(digits)) - first[which]  # the index of each byte within its integer
    if int(place.max()) > 9:
        raise ValueError("an integer of more than ten bytes")
    parts = torch.bitwise_left_shift((digits & 0x7F).long(), 7 * place)
    return torch.zeros(len(first) - 1, dtype=torch.int64).index_add_(0, which, parts)


def _fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message between two positions."""
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        start = at
        if kind == _BYTES:
            length, start = _varint(data, at, end)
            at = start + length
        elif kind == _VARINT:
            _, at = _varint(data, at, end)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        elif kind == _BEGIN_GROUP:
            at = _after_group(data, at, end, number)
        else:
            raise ValueError(f"at byte {start}: wire type {kind} is not possible here")
        if at > end or not 0 < number < 1 << 29:
            raise ValueError(f"at byte {start}: a field is cut short, or has no number")
        yield number, kind, start, at


def _after_group(data: bytes, at: int, end: int, number: int) -> int:
    """Return the end of a group, which is skipped: groups belong to an old version of protobuf."""
    open_groups = [number]
    while open_groups:
        tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            length, at = _varint(data, at, end)
            at += length
        elif kind == _VARINT:
            _, at = _varint(data, at, end)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        elif kind == _BEGIN_GROUP:
            open_groups.append(number)
        elif kind != _END_GROUP or open_groups.pop() != number:
            raise ValueError(f"at byte {at}: a group ends that did not begin")
        if at > end or len(open_groups) > _DEEPEST or not 0 < number < 1 << 29:
            raise ValueError(f"at byte {at}: a group is cut short, or nested too deep")
    return at


def _varint(data: bytes | bytearray, at: int, end: int) -> tuple[int, int]:
    """Return the number that begins here, and its end."""
    number = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise ValueError(f"at byte {at}: an integer of more than ten bytes")
    raise ValueError(f"at byte {at}: an integer is cut short")


@operator
class TFRecordLoader(Tolerant, Flattening[dict[str, Any]]):
    """A dict for each record of each TFRecord file, ``(path, stream)``: numbers as tensors, bytes as lists.

    Both checksums of a record are verified.

    Args:
        spec: The features to keep, by name, each with its ``(shape, dtype)``. A dtype of None means bytes, a shape of
            None keeps the shape, and one size may be -1. Time is the first axis of a feature list. A record without
            one of the features is an error. Other features are not parsed, which is faster. ``None``: all features.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> record = "0e00000000000000 c5e5693f 0a0c0a0a0a017812051a030a0107"
    >>> file = io.BytesIO(bytes.fromhex(f"{record} 98993925"))
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

    def _inner(self, element: Any) -> Pieces[dict[str, Any]]:
        path, stream = stream_of(element, "load_from_tfrecord")
        return _TFRecords(path, stream, self)

    __len__ = given_length


class _TFRecords(Pieces[dict[str, Any]]):
    """Records of one file; it continues after a damaged payload."""

    def __init__(self, path: object, stream: Any, pipe: TFRecordLoader) -> None:
        self._file = named(path)
        self._read = stream.read
        self._pipe = pipe
        self._crc: Callable[[bytes], int] = needed("google_crc32c", "tfrecord").value
        self._number = -1  # of the current record
        self._at = 0  # where the current record begins
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
                continue  # it was raised before the state was saved
        return given

    def locate(self, error: Exception) -> None:
        if not isinstance(error, CorruptRecord):
            located(error, f"{self._file}, record {self._number}")

    def _payload(self) -> bytes:
        """Return the verified bytes of the next record."""
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
        """Read this number of bytes, or all that are left."""
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
    """Return the features of a record. A spec selects them and sets their shapes and dtypes."""
    context, lists = parse(payload, spec)
    if both := sorted(set(context) & set(lists)):
        raise ValueError(f"the keys {both} are in both the context and the feature lists")
    if spec is None:
        return {**context, **lists}
    if missing := sorted(set(spec) - set(context) - set(lists)):
        raise ValueError(f"missing some required keys: {missing}")
    return {key: _by_spec(key, context.get(key, lists.get(key)), *spec[key]) for key in spec}


def _by_spec(key: str, value: Any, shape: tuple[int, ...] | None, dtype: torch.dtype | None) -> Any:
    """Return a feature in its shape and dtype; a list of features is one array, with time as its first axis."""
    try:
        if dtype is None:
            return value if shape is None else _nested(list(_leaves(value)), shape)
        if isinstance(value, list):
            value = torch.stack(value) if value else torch.empty(0)
        return (value if shape is None else value.reshape(shape)).to(dtype)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"{key!r} is not {dtype or 'bytes'} of shape {shape}: {error}") from error


def _leaves(value: Any) -> Iterator[bytes]:
    """Yield the bytes in a list or in nested lists."""
    if isinstance(value, torch.Tensor):
        raise TypeError("it holds numbers, so the spec must have a dtype for it")
    for inner in value:
        if isinstance(inner, bytes):
            yield inner
        else:
            yield from _leaves(inner)


def _nested(flat: list[bytes], shape: Sequence[int]) -> Any:
    """Return a flat list as nested lists of a shape; one size may be -1, for the remaining ones."""
    known = prod(n for n in shape if n != -1)
    if list(shape).count(-1) == 1 and known:
        shape = [len(flat) // known if n == -1 else n for n in shape]
    if min(shape, default=0) < 0 or prod(shape) != len(flat):
        raise TypeError(f"it has {len(flat)} values")
    if len(shape) < 2:
        return flat if shape else flat[0]
    step = prod(shape[1:])
    return [_nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
