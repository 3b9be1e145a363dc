"""Exceptions taken apart and put together again, without a call of a user's constructor.

A class of a user's may ask for arguments that it does not keep, and pickle would call it with those that it has. What
an exception is made of is known to the builtin class that it comes from: its arguments and its attributes.
"""

from __future__ import annotations

import traceback
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)


class RemoteTraceback(Exception):
    """The traceback that an exception had where it was raised, as text: the cause of its copy elsewhere."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def trace_of(error: BaseException) -> str:
    """What Python would print of this exception, with its causes."""
    return '"""\n' + "".join(traceback.format_exception(error)) + '"""'


def parts_of(error: E) -> tuple[type[E], Any, tuple[Any, ...], Any]:
    """The class of an exception, the builtin one that it comes from, its arguments and its attributes."""
    kind = type(error)
    builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    _, arguments, *state = builtin.__reduce__(error)
    return kind, builtin, arguments, state[0] if state else None


def put_together(kind: type[E], builtin: Any, arguments: tuple[Any, ...], state: Any) -> E:
    """An exception of these parts.

    >>> class Lost(ValueError):
    ...     def __init__(self, name, place):
    ...         super().__init__(f"{name} is not at {place}")
    >>> put_together(*parts_of(Lost("x", 3)))
    Lost('x is not at 3')
    """
    error: E = builtin.__new__(kind, *arguments)
    builtin.__init__(error, *arguments)
    if state:
        builtin.__setstate__(error, state)
    return error


def twin_of(error: E) -> E:
    """Copy an exception for somebody else, who raises it in another thread.

    It is another object, because on its way to the user an exception collects frames, and whoever has it keeps them
    alive. It has those that were there before.
    """
    twin = put_together(*parts_of(error))
    twin.__cause__, twin.__context__ = error.__cause__, error.__context__
    twin.__suppress_context__ = error.__suppress_context__
    return twin.with_traceback(error.__traceback__)
