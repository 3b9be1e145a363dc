"""Table of the built-in kinds of element: how each is taken apart into plain parts and made from them again.

A row of ``KINDS`` has the types of one kind's parts, the function that takes an element apart, and the one that makes
it. Invariants: parts are checked before they are used, and each has exactly one of the types in its row. Only the
constructors named here run. A result is no larger than its parts. Containers are made empty; the caller fills them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from io import BytesIO, StringIO
from operator import attrgetter
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from re import ASCII, compile
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import torch

import datapipes.elements.arrays as element_arrays
import datapipes.elements.frames as element_frames
import datapipes.elements.saved_streams as element_streams
import datapipes.elements.tables as element_tables
from datapipes.elements.arrays import ArrayParts
from datapipes.elements.chunk import DataChunk

MOST_BITS: Final = 100_000  # of the parts of a Fraction: the time to cancel grows with their square
ZONE: Final = compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,3}", ASCII)  # a name, which cannot lead to another file
FACTORIES: Final[dict[str, type]] = {
    cls.__name__: cls for cls in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}


class Kind(NamedTuple):
    """Functions that take elements of one kind apart and make them. A part without types may be of any type."""

    types: tuple[tuple[type, ...], ...]
    parts: Callable[[Any], ArrayParts]
    make: Callable[..., Any]


def kind_of(cls: type) -> str | None:
    """Return the kind of elements of exactly this type, or None if there is none.

    >>> kind_of(Decimal), kind_of(type)
    ('Decimal', None)
    """
    if cls.__module__ == "numpy":
        import numpy as np

        if cls is np.ndarray or cls is np.str_ or cls is np.bytes_:
            return cls.__name__
        return "numpy scalar" if issubclass(cls, np.generic) else None
    if cls.__module__.partition(".")[0] == "pandas":
        return element_frames.kind_of(cls)
    if cls.__module__ == "pyarrow.lib":
        return cls.__name__ if cls.__name__ in ("RecordBatch", "Table") else None
    return _BY_TYPE.get(cls)


def kind_of_element(element: Any) -> str | None:
    """Return the kind of this element. For a tensor, it depends on more than the type.

    >>> kind_of_element(torch.ones(1, requires_grad=True))
    'Tensor with gradient'
    """
    kind = kind_of(type(element))
    return "Tensor with gradient" if kind == "Tensor" and element.requires_grad else kind


def make(kind: str, parts: ArrayParts) -> Any:
    """Make an element of this kind from its parts. Raise LookupError or TypeError if they do not fit.

    >>> make("range", (0, 10, 3))
    range(0, 10, 3)
    """
    row = KINDS.get(kind)
    if row is None:
        raise LookupError(f"there is no kind of element called {kind!r:.80}")
    if len(parts) != len(row.types) or not all(
        not types or type(part) in types for types, part in zip(row.types, parts, strict=True)
    ):
        raise TypeError(f"a {kind} is not made of {', '.join(type(part).__name__ for part in parts[:10])}")
    return row.make(*parts)


def _fraction_parts(fraction: Fraction) -> ArrayParts:
    parts = fraction.numerator, fraction.denominator
    _make_fraction(*parts)
    return parts


def _make_fraction(numerator: int, denominator: int) -> Fraction:
    if max(numerator.bit_length(), denominator.bit_length()) > MOST_BITS:
        raise ValueError(f"its parts have more than {MOST_BITS} bits")
    return Fraction(numerator, denominator)


def _factory_parts(items: defaultdict[Any, Any]) -> ArrayParts:
    factory: Any = items.default_factory
    name = None if factory is None else getattr(factory, "__name__", "")
    if name is not None and FACTORIES.get(name) is not factory:
        raise TypeError(f"its factory is {factory!r:.80}; use a built-in type")
    return (name,)


def _make_defaultdict(name: str | None) -> defaultdict[Any, Any]:
    return defaultdict(None if name is None else FACTORIES[name])


def _zone_parts(zone: ZoneInfo) -> ArrayParts:
    _make_zone(zone.key or "")
    return (zone.key,)


def _make_zone(key: str) -> ZoneInfo:
    if not ZONE.fullmatch(key):
        raise ValueError(f"no time zone is called {key!r:.80}")
    return ZoneInfo(key)


def _make_time(hour: int, minute: int, second: int, micro: int, fold: int, zone: Any) -> time:
    return time(hour, minute, second, micro, zone, fold=fold)


def _make_datetime(year: int, month: int, day: int, *clock: Any) -> datetime:
    return datetime.combine(date(year, month, day), _make_time(*clock))


_NONE, _INT, _FLOAT, _STR, _BYTES, _TUPLE, _LIST = ((cls,) for cls in (type(None), int, float, str, bytes, tuple, list))
_ANY: tuple[type, ...] = ()
_RAW = (bytes, bytearray)
_ZONES = (type(None), timezone, ZoneInfo)
_CLOCK = ("hour", "minute", "second", "microsecond", "fold", "tzinfo")

KINDS: Final[dict[str, Kind]] = {
    "complex": Kind((_FLOAT, _FLOAT), attrgetter("real", "imag"), complex),
    "range": Kind((_INT,) * 3, attrgetter("start", "stop", "step"), range),
    "slice": Kind((_ANY,) * 3, attrgetter("start", "stop", "step"), slice),
    "date": Kind((_INT,) * 3, attrgetter("year", "month", "day"), date),
    "time": Kind((_INT,) * 5 + (_ZONES,), attrgetter(*_CLOCK), _make_time),
    "datetime": Kind((_INT,) * 8 + (_ZONES,), attrgetter("year", "month", "day", *_CLOCK), _make_datetime),
    "timedelta": Kind((_INT,) * 3, attrgetter("days", "seconds", "microseconds"), timedelta),
    "timezone": Kind(((timedelta,), _STR), lambda zone: (zone.utcoffset(None), zone.tzname(None)), timezone),
    "ZoneInfo": Kind((_STR,), _zone_parts, _make_zone),
    "Decimal": Kind((_STR,), lambda number: (str(number),), Decimal),
    "Fraction": Kind((_INT, _INT), _fraction_parts, _make_fraction),
    "UUID": Kind((_BYTES,), lambda uuid: (uuid.bytes,), lambda raw: UUID(bytes=raw)),
    "PosixPath": Kind((_STR,), lambda path: (str(path),), PosixPath),
    "WindowsPath": Kind((_STR,), lambda path: (str(path),), WindowsPath),
    "PurePosixPath": Kind((_STR,), lambda path: (str(path),), PurePosixPath),
    "PureWindowsPath": Kind((_STR,), lambda path: (str(path),), PureWindowsPath),
    "deque": Kind((_NONE + _INT,), lambda items: (items.maxlen,), lambda maxlen: deque(maxlen=maxlen)),
    "OrderedDict": Kind((), lambda items: (), OrderedDict),
    "Counter": Kind((), lambda items: (), Counter),
    "defaultdict": Kind((_NONE + _STR,), _factory_parts, _make_defaultdict),
    "DataChunk": Kind((), lambda items: (), DataChunk),
    "Size": Kind((_TUPLE,), lambda size: (tuple(size),), element_arrays.torch_size),
    "dtype": Kind(
        (_STR,), lambda dtype: (str(dtype).removeprefix("torch."),), lambda name: element_arrays.torch_dtypes()[name]
    ),
    "Tensor": Kind((_STR, _TUPLE, _RAW), element_arrays.tensor_parts, element_arrays.make_tensor),
    "Tensor with gradient": Kind((_STR, _TUPLE, _RAW), element_arrays.tensor_parts, element_arrays.make_with_gradient),
    "ndarray": Kind((_STR + _TUPLE, _TUPLE, (*_RAW, list)), element_arrays.array_parts, element_arrays.make_array),
    "numpy scalar": Kind((_STR + _TUPLE, _BYTES), element_arrays.scalar_parts, element_arrays.make_scalar),
    "str_": Kind((_STR,), lambda text: (str.__str__(text),), element_arrays.make_str),
    "DataFrame": Kind((_TUPLE, _TUPLE, _LIST), element_frames.frame_parts, element_frames.make_frame),
    "Series": Kind((_ANY, _TUPLE, _TUPLE), element_frames.series_parts, element_frames.make_series),
    "RecordBatch": Kind((_BYTES,), element_tables.table_parts, element_tables.make_batch),
    "Table": Kind((_BYTES,), element_tables.table_parts, element_tables.make_table),
    "bytes_": Kind((_BYTES,), lambda text: (bytes(text),), element_arrays.make_bytes),
    "BytesIO": Kind((_BYTES, _INT), element_streams.file_parts, element_streams.make_bytes_file),
    "StringIO": Kind((_STR, _INT), element_streams.file_parts, element_streams.make_text_file),
    # The parts of a stream depend on its graph: see element_streams.stream_parts.
    "StreamWrapper": Kind((_NONE + _STR, (type(None), BytesIO, StringIO)), lambda _: (), element_streams.make_wrapper),
}
_TYPES: tuple[type, ...] = (
    *(complex, range, slice, date, time, datetime, timedelta, timezone, ZoneInfo, Decimal, Fraction, UUID),
    *(PosixPath, WindowsPath, PurePosixPath, PureWindowsPath),
    *(deque, OrderedDict, Counter, defaultdict, DataChunk, torch.Size, torch.dtype, torch.Tensor, BytesIO, StringIO),
)
_BY_TYPE: Final = {cls: cls.__name__ for cls in _TYPES}
