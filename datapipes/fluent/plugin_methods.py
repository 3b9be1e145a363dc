"""Methods that installed plugins add to pipes, for type checkers. The classes are empty unless there is a stub of them.

``python -m loader2 stubs`` writes the stub. At run time a pipe looks such methods up in
``datapipes.description.plugins``.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class IterPlugins(Generic[T_co]):
    """Methods of an IterDataPipe, added by plugins."""


class MapPlugins(Generic[T_co]):
    """Methods of a MapDataPipe, added by plugins."""
