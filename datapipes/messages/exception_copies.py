"""Exceptions taken apart and rebuilt without calling a user's constructor.

A user's exception class may require arguments that it does not store. pickle would then call it with the wrong ones.
The builtin base class knows the parts of an exception: its arguments and its attributes.
"""

from __future__ import annotations

import traceback
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)


class RemoteTraceback(Exception):
    """Traceback of an exception in another process or thread, as text. It is the cause of the exception's copy."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def trace_of(error: BaseException) -> str:
    """Return the text that Python would print for this exception, with its causes."""
    return '"""\n' + "".join(traceback.format_exception(error)) + '"""'


def fields_of(error: E) -> tuple[type[E], Any, tuple[Any, ...], Any]:
    """Return the class of an exception, its builtin base class, its arguments and its attributes."""
    kind = type(error)
    builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    _, arguments, *state = builtin.__reduce__(error)
    return kind, builtin, arguments, state[0] if state else None


def put_together(kind: type[E], builtin: Any, arguments: tuple[Any, ...], state: Any) -> E:
    """Make an exception from these parts.

    >>> class Lost(ValueError):
    ...     def __init__(self, name, place):
    ...         super().__init__(f"{name} is not at {place}")
    >>> put_together(*fields_of(Lost("x", 3)))
    Lost('x is not at 3')
    """
    error: E = builtin.__new__(kind, *arguments)
    builtin.__init__(error, *arguments)
    if state:
        builtin.__setstate__(error, state)
    return error


def twin_of(error: E) -> E:
    """Copy an exception that another thread will raise.

    A raised exception collects frames and keeps them alive. So the thread gets an object of its own, with the
    traceback, cause and context so far.
    """
    twin = put_together(*fields_of(error))
    twin.__cause__, twin.__context__ = error.__cause__, error.__context__
    twin.__suppress_context__ = error.__suppress_context__
    return twin.with_traceback(error.__traceback__)
