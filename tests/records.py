"""TFRecord files for tests, written by hand from their definition."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import google_crc32c


def tfrecord(*payloads: bytes) -> bytes:
    """The file of some records."""
    return b"".join(
        length + struct.pack("<I", masked(length)) + payload + struct.pack("<I", masked(payload))
        for payload in payloads
        for length in [struct.pack("<Q", len(payload))]
    )


def masked(data: bytes) -> int:
    """The checksum that TFRecord files have of some bytes."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def example(**features: Sequence[bytes | float | int]) -> bytes:
    """A tf.train.Example."""
    entries = [_field(1, name.encode()) + _field(2, _feature(values)) for name, values in features.items()]
    return _field(1, b"".join(_field(1, entry) for entry in entries))


def sequence_example(
    context: dict[str, Sequence[bytes | float | int]], lists: dict[str, Sequence[Sequence[bytes | float | int]]]
) -> bytes:
    """A tf.train.SequenceExample."""
    entries = [
        _field(1, name.encode()) + _field(2, b"".join(_field(1, _feature(values)) for values in steps))
        for name, steps in lists.items()
    ]
    return example(**context) + _field(2, b"".join(_field(1, entry) for entry in entries))


def _feature(values: Sequence[bytes | float | int]) -> bytes:
    match values:
        case [int(), *_]:
            return _field(3, _field(1, b"".join(_varint(int(n) % (1 << 64)) for n in values)))
        case [float(), *_]:
            return _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)))
        case [bytes(), *_]:
            return _field(1, b"".join(_field(1, bytes(value)) for value in values))  # type: ignore[arg-type]  # all alike
    return b""


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return (bytes([number & 0x7F | 0x80]) + _varint(number >> 7)) if number > 0x7F else bytes([number])
