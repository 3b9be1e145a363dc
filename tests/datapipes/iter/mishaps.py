"""Functions that fail at chosen elements, and a consumer that carries on after an error.

A function that raises has consumed its element, and the next ``next()`` goes on with the one after: ``outcomes`` shows
that as one list, with the text of an error in the place where it was raised.
"""

from collections.abc import Callable, Iterable
from typing import Any


def failing_at(*bad: object) -> Callable[[Any], Any]:
    """The identity, but for the elements that it raises ``ValueError`` for."""

    def checked(element: Any) -> Any:
        if element in bad:
            raise ValueError(f"{element} is bad")
        return element

    return checked


def stopping_at(*bad: object) -> Callable[[Any], Any]:
    """The identity, but for the elements that a ``StopIteration`` escapes for."""

    def checked(element: Any) -> Any:
        if element in bad:
            raise StopIteration(element)
        return element

    return checked


def outcomes(stream: Iterable[Any], most: int = 100) -> list[Any]:
    """The elements up to the end, and the errors among them as text."""
    found: list[Any] = []
    iterator = iter(stream)
    while len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except (ArithmeticError, BufferError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


STRAY_STOP = "RuntimeError: generator raised StopIteration"
"""What Python makes of a ``StopIteration`` that would have ended a stream without a word."""
