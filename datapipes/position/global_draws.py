"""The global random number generators, where positions depend on them.

They belong to the program. The library seeds and saves them in worker processes only, and each worker registers them
here (``reading_services.workers.generators``). In other processes their state is unknown.
"""

from __future__ import annotations

from typing import Any, Protocol


class GlobalGenerators(Protocol):
    """The global generators of a worker process."""

    def drawn(self) -> bool:
        """Return whether numbers were drawn since they were seeded."""

    def saved(self) -> dict[int, Any]:
        """Return their state as an entry of a table. The table is empty before the first draw."""


_here: GlobalGenerators | None = None


def watch(generators: GlobalGenerators) -> None:
    """Register the generators that positions in this process depend on."""
    global _here
    _here = generators


def drawn() -> bool:
    """Return whether functions have drawn from global generators, so that their results cannot be made again.

    >>> drawn()
    False
    """
    return _here is not None and _here.drawn()


def saved() -> dict[int, Any]:
    """Return the state of the global generators as an entry of a table. It is empty if a worker has not drawn."""
    return {} if _here is None else _here.saved()
