"""Errors that say which part of which file they are about, in their own message.

An error keeps its type, its traceback and whatever else it holds; the place is written in front of its message, or
behind it where the message is not kept as text. It is for data that is read: what a user's function raises gains a note
instead (``datapipes.position.blame``).
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
        error.add_note(f"in {where}")  # its message is made of its number
    else:
        if isinstance(error, JSONDecodeError):
            error.msg = f"{where}: {error.msg}"  # of which it is made anew when it was pickled
        error.args = (f"{where}: {error}", *error.args[1:])
    return error


def named(path: object) -> str:
    """The name of a file, as it is written into errors."""
    return hide(path) if isinstance(path, str) else shortened(path)
