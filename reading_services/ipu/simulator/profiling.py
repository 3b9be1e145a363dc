"""Marks for a tracer of the whole system; there is none here, so they do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Channel:
    """A named line in a trace.

    >>> channel = Channel("loading")
    >>> with channel.tracepoint("first batch"):
    ...     pass
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def tracepoint(self, label: str) -> Iterator[None]:
        """A span of the trace: the block."""
        yield

    def instrument(self, obj: T, *methods: str) -> T:
        """Mark each call of these methods of an object; returns the object."""
        return obj
