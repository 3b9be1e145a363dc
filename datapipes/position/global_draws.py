"""The global generators of random numbers, as far as positions depend on them.

They belong to the program. Only in a worker process the library seeds and saves them, and the worker says so here
(``reading_services.workers.generators``). Elsewhere nothing is known of them.
"""

from __future__ import annotations

from typing import Any, Protocol


class GlobalGenerators(Protocol):
    """The global generators of a worker process."""

    def drawn(self) -> bool:
        """Return whether anything was drawn since they were seeded."""

    def saved(self) -> dict[int, Any]:
        """Return their state as an entry of a table of positions; no entry as long as nothing was drawn."""


_here: GlobalGenerators | None = None


def watch(generators: GlobalGenerators) -> None:
    """Let positions in this process depend on these generators."""
    global _here
    _here = generators


def drawn() -> bool:
    """Return whether functions have drawn from global generators, so that what they made cannot be made again alike.

    >>> drawn()
    False
    """
    return _here is not None and _here.drawn()


def saved() -> dict[int, Any]:
    """Return the state of the global generators as an entry of a table, if a worker has drawn from them."""
    return {} if _here is None else _here.saved()
