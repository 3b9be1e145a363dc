"""Marks for a tracer of the whole system. There is none here, so they have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Channel:
    """Named line in a trace.

    >>> channel = Channel("loading")
    >>> with channel.tracepoint("first batch"):
    ...     pass
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def tracepoint(self, label: str) -> Iterator[None]:
        """Mark the block as a span of the trace."""
        yield

    def instrument(self, obj: T, *methods: str) -> T:
        """Mark each call of these methods of an object, and return the object."""
        return obj
