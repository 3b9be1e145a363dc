"""Number of this process among several, and how many there are, as the environment says: errors name its variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from reading_services.ipu.options.values import OptionValues, Value


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


class _DistributedOptions(OptionValues):
    """The number of this process, and of all; known from the start under a launcher that speaks MPI's way."""

    num_distributed_processes = Value(1)
    distributed_process_id = Value(0)
    ipuof_configs: Value[dict[str, Any]] = Value({})

    def __init__(self) -> None:
        super().__init__()
        _DistributedOptions.setEnvVarNames(self, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        """Set the number of this process, counted from 0, and how many there are.

        >>> from reading_services.ipu import Options
        >>> Options().Distributed.configureProcessId(1, 4).processId
        1
        """
        return self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        """Take both numbers from environment variables; 1 and 0 where those are not set."""
        return self.set(
            num_distributed_processes=number(var_num_processes, 1),
            distributed_process_id=number(var_process_id, 0),
        )

    def disable(self) -> Self:
        """Use one process, whatever the environment says."""
        return self.set(num_distributed_processes=1, distributed_process_id=0)

    @property
    def processId(self) -> int:
        """The number of this process."""
        return self.distributed_process_id

    @property
    def numProcesses(self) -> int:
        """The number of processes."""
        return self.num_distributed_processes
