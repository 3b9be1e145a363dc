"""Interface of a cluster's engine for a pool of workers: start a process somewhere, report its end, and end it.

Frames do not pass through the engine: a started process connects to the main process (``workers.transport.meeting``),
and is a worker process like one on the same machine from then on. So an engine has five methods, and another one is
another file like ``ray_engine``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from reading_services.workers.call_record import AtWork


class ProcessEnd(NamedTuple):
    """End of a process, as far as it is known."""

    how: str
    at_work: AtWork | None = None
    """The work at the end; None if the record is lost with the machine."""


class Engine(ABC):
    """Base of engines, which start processes on the machines of a cluster."""

    @abstractmethod
    def here(self) -> tuple[str, str]:
        """Return this machine's address for the cluster's machines, and a name that no other machine has."""

    @abstractmethod
    def start(self, name: str, spec: dict[str, Any], ended: Callable[[ProcessEnd], None]) -> Any:
        """Start a process somewhere, without waiting for it, and return a handle.

        Args:
            name: The name of the process in the engine's own lists.
            spec: The data that the process reads from its standard input (``member``).
            ended: Called in any thread, once, when the process has ended or cannot be started.
        """

    @abstractmethod
    def stacks(self, process: Any) -> str:
        """Return the stack of a process as text."""

    @abstractmethod
    def kill(self, process: Any) -> None:
        """End a process at once, or cancel its start."""

    @abstractmethod
    def lacking(self) -> str:
        """Return why a process may not have started yet: the resources that are needed, and those that are free."""

    @abstractmethod
    def close(self) -> None:
        """Leave the cluster."""
