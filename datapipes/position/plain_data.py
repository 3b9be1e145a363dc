"""Validation of a saved state as plain data, before any stage reads it.

A state comes from a file, so it may hold anything: other types, numbers of any length, lists that contain themselves. A
checksum shows whether it is the result of ``state_dict()``. It finds damage and edits; it is no signature.
"""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

from datapipes.errors import StateError

_DEEPEST: Final = 100  # nested levels of lists and dicts
_MOST_VALUES: Final = 2_000_000  # a position is a few values, and a graph has at most some hundred thousand stages

VERSION: Final = 2
"""Version of the states of loaders and iterators. Those of version 1, which 0.1.0 saved, have no checksum."""
CHECKSUM: Final = "checksum"
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def check(holds: bool, field: str, expected: str, found: Any) -> None:
    """Check a field of a state. Raise StateError with the expected and the found value if it does not hold."""
    if not holds:
        raise StateError(f"{field}: expected {expected}, found {shown(found)}")


def is_uint64(value: Any) -> bool:
    """Return whether a value is an unsigned 64-bit number, as seeds and epochs are."""
    return type(value) is int and 0 <= value < 2**64


def check_plain(value: Any, field: str) -> None:
    """Raise StateError for data that no stage saves: other types, numbers beyond 64 bits, lists without end."""
    pending = [(value, field, 0)]
    left = _MOST_VALUES
    while pending:
        value, path, depth = pending.pop()
        left -= 1
        check(left >= 0, field, f"at most {_MOST_VALUES} values, a shared one counted each time", value)
        if type(value) is dict:
            inner = [(key, f"{path}.keys()") for key in value]
            inner += [(item, f"{path}[{shown(key)}]") for key, item in value.items()]
        elif type(value) in (list, tuple):
            inner = [(item, f"{path}[{i}]") for i, item in enumerate(value)]
        else:
            short = type(value) is int and -(2**63) <= value < 2**63
            check(short or value is None or type(value) in (bool, float, str, bytes), path, "plain data", value)
            continue
        check(depth < _DEEPEST, path, f"at most {_DEEPEST} levels", value)
        pending += ((item, where, depth + 1) for item, where in inner)


def shown(value: Any) -> str:
    """Return a value in short. Containers and long numbers are shown by kind only: printing one may fail or be slow."""
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return repr(value) if value.bit_length() <= 128 else f"a number of {value.bit_length()} bits"
    if type(value) in (str, bytes):
        return repr(value[:60])
    return (
        f"{type(value).__name__} of length {len(value)}" if type(value) in (list, tuple, dict) else type(value).__name__
    )


def checksum(value: Any) -> int:
    """Return the CRC-32 of plain data in its printed form.

    The order of a dict's keys does not matter, and a tuple counts as a list, because some file formats change these.
    Bytes may be many MiB: they are not copied, and CRC-32 is the fastest digest of the standard library.

    >>> checksum({"a": [1, b"x"], "b": None}) == checksum({"b": None, "a": (1, b"x")})
    True
    """
    return crc32(ascii(_without_bytes(value)).encode())


def _without_bytes(value: Any) -> Any:
    """Return plain data with a tuple (length, CRC-32) in place of all bytes. The result has no other tuple."""
    kind = type(value)
    if kind is dict:
        try:
            keys = sorted(value)
        except TypeError:  # they have several types
            keys = sorted(value, key=ascii)
        return {key: item if type(item := value[key]) in _SCALARS else _without_bytes(item) for key in keys}
    if kind is list or kind is tuple:
        return [item if type(item) in _SCALARS else _without_bytes(item) for item in value]
    return (len(value), crc32(value)) if kind is bytes else value


def sealed(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with the checksum of its fields. A state of version 1 has none."""
    return {**state, CHECKSUM: _checksum_of(state)} if state.get("version") == VERSION else state


def check_sealed(state: dict[str, Any]) -> None:
    """Raise StateError for a state that has changed since it was sealed. Its other fields have to be plain data."""
    saved, found = state.get(CHECKSUM), _checksum_of(state)
    if type(saved) is not type(found) or saved != found:
        raise StateError(
            f"{CHECKSUM}: the state is not the one that state_dict() returned: it was edited or damaged; load it "
            "unchanged, or begin the epoch again without it"
        )


def _checksum_of(state: dict[str, Any]) -> int | None:
    if state.get("version") != VERSION:
        return None
    if CHECKSUM in state:
        state = {name: value for name, value in state.items() if name != CHECKSUM}
    return checksum(state)


def check_by_place(value: Any, field: str) -> None:
    """Raise StateError for a value that is no dict by place. The error says if the places went through JSON."""
    if type(value) is dict and any(type(key) is str for key in value):
        raise StateError(
            f"{field}: the places are texts and not numbers: the state went through JSON, which turns the keys of a "
            "dict into texts; save it with torch.save() or pickle"
        )
    check(type(value) is dict and all(type(place) is int for place in value), field, "a dict by place", value)
