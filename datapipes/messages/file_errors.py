"""Errors that name the file and the position in it, in their own message.

The type, the traceback and the other attributes of the error are kept. The place comes before its message, or after it
if the message is not stored as text. This is for errors in data. An exception of a user's function gains a note instead
(``datapipes.position.error_notes``).
"""

from __future__ import annotations

from json import JSONDecodeError
from typing import TypeVar

from datapipes.messages.short import hide, shortened

E = TypeVar("E", bound=Exception)


def located(error: E, where: str) -> E:
    """Add the place in a file to the message of an error.

    >>> located(ValueError("not a number"), "a.csv, line 3")
    ValueError('a.csv, line 3: not a number')
    """
    if isinstance(error, UnicodeDecodeError):
        error.reason = f"{error.reason}, in {where}"
    elif isinstance(error, OSError):
        error.add_note(f"in {where}")  # its message follows from its number
    else:
        if isinstance(error, JSONDecodeError):
            error.msg = f"{where}: {error.msg}"  # unpickling makes the message from it
        error.args = (f"{where}: {error}", *error.args[1:])
    return error


def named(path: object) -> str:
    """Return the name of a file for errors, without secrets."""
    return hide(path) if isinstance(path, str) else shortened(path)
