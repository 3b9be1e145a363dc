"""Methods that installed plugins add to pipes, for type checkers: none, unless a stub of this file is in their way.

``python -m loader2 stubs`` writes the stub. When a program runs, a pipe looks such methods up by itself
(``datapipes.description.plugins``), and these classes are empty.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class IterPlugins(Generic[T_co]):
    """Methods of an IterDataPipe."""


class MapPlugins(Generic[T_co]):
    """Methods of a MapDataPipe."""
