"""Number of this process and of all processes, from the environment. Errors name the variable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from reading_services.ipu.options.values import OptionValues, Value


@contextmanager
def blaming(place: str) -> Iterator[None]:
    """Add a note to an error: the file or variable that the faulty text comes from."""
    try:
        yield
    except Exception as error:
        error.add_note(f"({place})")
        raise


def number(variable: str, otherwise: int) -> int:
    """Return the number in an environment variable, or ``otherwise`` if it is not set.

    >>> number("NOT_SET", 3)
    3
    """
    with blaming(f"from the environment variable {variable}"):
        return int(os.environ.get(variable, otherwise))


class _DistributedOptions(OptionValues):
    """Number of this process and of all processes. A launcher with MPI's variables sets them from the start."""

    num_distributed_processes = Value(1)
    distributed_process_id = Value(0)
    ipuof_configs: Value[dict[str, Any]] = Value({})

    def __init__(self) -> None:
        super().__init__()
        _DistributedOptions.setEnvVarNames(self, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        """Set the number of this process, counted from 0, and the number of processes.

        >>> from reading_services.ipu import Options
        >>> Options().Distributed.configureProcessId(1, 4).processId
        1
        """
        return self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        """Take both numbers from environment variables. They are 1 and 0 if the variables are not set."""
        return self.set(
            num_distributed_processes=number(var_num_processes, 1),
            distributed_process_id=number(var_process_id, 0),
        )

    def disable(self) -> Self:
        """Use one process, whatever the environment contains."""
        return self.set(num_distributed_processes=1, distributed_process_id=0)

    @property
    def processId(self) -> int:
        """The number of this process."""
        return self.distributed_process_id

    @property
    def numProcesses(self) -> int:
        """The number of processes."""
        return self.num_distributed_processes
