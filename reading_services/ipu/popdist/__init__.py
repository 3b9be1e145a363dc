"""Instances that poprun started: number, replicas and device of this one, and the numbers of all.

The environment is read at each call. Without the launcher there is one instance with one replica.

- ``poptorch``: options for an instance, with the launcher's values set
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from reading_services.ipu.options.distributed import number

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "checkNumIpusPerReplica",
    "execute_on_instances",
    "getDeviceId",
    "getInstanceIndex",
    "getLocalInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "isPopdistEnvSet",
]


def isPopdistEnvSet() -> bool:
    """Return whether poprun started this process."""
    return "POPDIST_NUM_TOTAL_REPLICAS" in os.environ


def getNumTotalReplicas() -> int:
    """Return the number of replicas of all instances together."""
    return number("POPDIST_NUM_TOTAL_REPLICAS", 1)


def getNumLocalReplicas() -> int:
    """Return the number of replicas of this instance."""
    return number("POPDIST_NUM_LOCAL_REPLICAS", 1)


def getNumIpusPerReplica() -> int:
    """Return the number of IPUs of each replica."""
    return number("POPDIST_NUM_IPUS_PER_REPLICA", 1)


def getReplicaIndexOffset() -> int:
    """Return the number of this instance's first replica, counted over all instances."""
    return number("POPDIST_REPLICA_INDEX_OFFSET", 0)


def getLocalInstanceIndex() -> int:
    """Return the number of this instance on its host."""
    return number("POPDIST_LOCAL_INSTANCE_INDEX", 0)


def getNumInstances() -> int:
    """Return the number of instances.

    >>> getNumInstances(), getInstanceIndex()
    (1, 0)
    """
    return getNumTotalReplicas() // _replicas_of_each()


def getInstanceIndex() -> int:
    """Return the number of this instance, counted over all hosts."""
    return getReplicaIndexOffset() // _replicas_of_each()


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """Return the number of this instance's device. Devices are simulated, so it is the number of the instance."""
    return getInstanceIndex()


def checkNumIpusPerReplica(ipusPerReplica: int) -> bool:
    """Return whether the launcher gave each replica this many IPUs."""
    return ipusPerReplica == getNumIpusPerReplica()


def init() -> None:
    """Join the instances in a ``torch.distributed`` group of gloo. Without the launcher it does nothing.

    The group is closed when the process ends. A second call changes nothing.
    """
    from torch import distributed

    if not isPopdistEnvSet() or distributed.is_initialized():
        return
    meet = os.environ.get("POPDIST_RENDEZVOUS") or ("env://" if "MASTER_ADDR" in os.environ else None)
    if meet is None:
        raise RuntimeError(
            "popdist.init() has no address for the group: start the program with poprun, or set MASTER_ADDR and "
            "MASTER_PORT"
        )
    distributed.init_process_group("gloo", init_method=meet, rank=getInstanceIndex(), world_size=getNumInstances())
    atexit.register(_leave)


def execute_on_instances(
    instances: Iterable[int], func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """Call a function in some instances only, and return its result there. Return None in all other instances.

    >>> execute_on_instances({0}, max, 3, 4)
    4
    """
    return func(*args, **kwargs) if getInstanceIndex() in instances else None


def _leave() -> None:
    from torch import distributed

    if distributed.is_initialized():
        distributed.destroy_process_group()


def _replicas_of_each() -> int:
    if os.environ.get("POPDIST_UNIFORM_REPLICAS_PER_INSTANCE", "1") != "1":
        raise RuntimeError(
            "instances have different numbers of replicas (POPDIST_UNIFORM_REPLICAS_PER_INSTANCE is not 1), so the "
            "number of instances and the number of this one cannot be computed"
        )
    return max(1, getNumLocalReplicas())
