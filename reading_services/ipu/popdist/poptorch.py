"""Options for instances that poprun started: the launcher sets its values, and the program cannot change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

from reading_services.ipu import options, popdist
from reading_services.ipu.options.distributed import _DistributedOptions

__all__ = ["Options"]


def _refused(method: str, why: str = "the launcher decides it") -> Callable[..., NoReturn]:
    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(f"Cannot call {method} with popdist.poptorch.Options")

    refuse.__doc__ = f"Raise RuntimeError: {why}."
    return refuse


class Options(options.Options):
    """``poptorch.Options`` of one instance: its replicas, its number and the number of instances are set.

    Nothing is seeded: a loader that shuffles needs ``randomSeed`` with the same number in all instances.

    >>> options = Options()
    >>> options.replication_factor, options.Distributed.numProcesses
    (1, 1)
    """

    _ipus_per_replica: int

    def __init__(self, ipus_per_replica: int | None = None) -> None:
        super().__init__()
        launched = popdist.getNumIpusPerReplica()
        if ipus_per_replica is not None and popdist.isPopdistEnvSet() and ipus_per_replica != launched:
            raise RuntimeError(
                f"ipus_per_replica is {ipus_per_replica} here, and {launched} for the launcher: give poprun "
                f"--ipus-per-replica {ipus_per_replica}, or leave it out here"
            )
        self.__dict__["_ipus_per_replica"] = launched if ipus_per_replica is None else ipus_per_replica
        super().set(replication_factor=popdist.getNumLocalReplicas())
        self.Distributed.set(
            num_distributed_processes=popdist.getNumInstances(), distributed_process_id=popdist.getInstanceIndex()
        )
        self.Distributed.__class__ = _Distributed

    @property
    def ipus_per_replica(self) -> int:
        """IPUs that each replica takes."""
        return self._ipus_per_replica

    def set(self, **values: Any) -> Self:
        """Set values by their names, except the number of replicas."""
        if "replication_factor" in values:
            self.replicationFactor()
        return super().set(**values)

    replicationFactor = _refused("replicationFactor", "poprun's --num-replicas and --num-instances decide it")
    useIpuId = _refused("useIpuId", "each instance has its own device")


class _Distributed(_DistributedOptions):
    """Number of this instance, from the launcher."""

    disable = _refused("Distributed.disable")
    setEnvVarNames = _refused("Distributed.setEnvVarNames")
    configureProcessId = _refused("Distributed.configureProcessId")
