"""Validation of a saved state as plain data, before any stage looks at it.

A state comes from a file, so it may hold anything: other types, numbers without end, lists that hold themselves.
"""

from __future__ import annotations

from typing import Any, Final

from datapipes.errors import StateError

_DEEPEST: Final = 100  # levels of lists and dicts in one another
_MOST_VALUES: Final = 2_000_000  # a position is a few of them, and a graph has at most some hundred thousand


def check(holds: bool, field: str, expected: str, found: Any) -> None:
    """Check a field of a state; StateError names what was expected and what was found."""
    if not holds:
        raise StateError(f"{field}: expected {expected}, found {shown(found)}")


def is_uint64(value: Any) -> bool:
    """Whether a value is an unsigned 64-bit number, as seeds and epochs are."""
    return type(value) is int and 0 <= value < 2**64


def check_plain(value: Any, field: str) -> None:
    """Refuse what no stage saves: other types, numbers beyond 64 bits, and lists in lists without end."""
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
    """A value in short; a container or a long number only by its kind, because printing one can fail or take long."""
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return repr(value) if value.bit_length() <= 128 else f"a number of {value.bit_length()} bits"
    if type(value) in (str, bytes):
        return repr(value[:60])
    return (
        f"{type(value).__name__} of length {len(value)}" if type(value) in (list, tuple, dict) else type(value).__name__
    )
