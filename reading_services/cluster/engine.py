"""What a cluster's engine has to do for a pool of workers: start a process somewhere, tell of its end, and end it.

Messages are none of its business: who was started calls home (``workers.transport.meeting``), and is a worker process
like those of one machine from there on. So an engine is five verbs, and another one is another file like
``ray_engine``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from reading_services.workers.at_work import AtWork


class Gone(NamedTuple):
    """The end of a process, as far as it is known."""

    how: str
    at_work: AtWork | None = None
    """What it was at work on; None where that went with its machine."""
    could_not_start: bool = False
    """Whether it has told somebody why it could not begin."""


class Engine(ABC):
    """Starts processes on the machines of a cluster."""

    @abstractmethod
    def here(self) -> tuple[str, str]:
        """The address at which the machines of the cluster reach this one, and what tells this one from others."""

    @abstractmethod
    def start(self, name: str, spec: dict[str, Any], ended: Callable[[Gone], None]) -> Any:
        """Have a process started somewhere, without waiting for it; returns what stands for it.

        Args:
            name: Whose it is, for the engine's own lists.
            spec: What the process is told on its standard input (``member``).
            ended: Called in any thread, once, when it has ended or cannot be started.
        """

    @abstractmethod
    def stacks(self, process: Any) -> str:
        """Where a process stands."""

    @abstractmethod
    def kill(self, process: Any) -> None:
        """End a process at once, or take back the wish that it be started."""

    @abstractmethod
    def lacking(self) -> str:
        """Why a process may not have been started yet: what is wanted, and what there is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the cluster."""
