"""Numbers from environment variables, which errors that come of them name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def blaming(place: str) -> Iterator[None]:
    """Add a note to an error that tells where the text that led to it comes from."""
    try:
        yield
    except Exception as error:
        error.add_note(f"({place})")
        raise


def number(variable: str, otherwise: int) -> int:
    """The number that a variable holds, or another one where it is not set.

    >>> number("NOT_SET", 3)
    3
    """
    with blaming(f"from the environment variable {variable}"):
        return int(os.environ.get(variable, otherwise))
