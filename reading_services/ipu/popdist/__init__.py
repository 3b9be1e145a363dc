"""Instances that poprun started: number, replicas and device of this one, and of the others.

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
    """Whether this process was started by the launcher."""
    return "POPDIST_NUM_TOTAL_REPLICAS" in os.environ


def getNumTotalReplicas() -> int:
    """Replicas of all instances together."""
    return number("POPDIST_NUM_TOTAL_REPLICAS", 1)


def getNumLocalReplicas() -> int:
    """Replicas of this instance."""
    return number("POPDIST_NUM_LOCAL_REPLICAS", 1)


def getNumIpusPerReplica() -> int:
    """IPUs that each replica takes."""
    return number("POPDIST_NUM_IPUS_PER_REPLICA", 1)


def getReplicaIndexOffset() -> int:
    """The number that the first replica of this instance has among all."""
    return number("POPDIST_REPLICA_INDEX_OFFSET", 0)


def getLocalInstanceIndex() -> int:
    """The number of this instance on its host."""
    return number("POPDIST_LOCAL_INSTANCE_INDEX", 0)


def getNumInstances() -> int:
    """The number of instances.

    >>> getNumInstances(), getInstanceIndex()
    (1, 0)
    """
    return getNumTotalReplicas() // _replicas_of_each()


def getInstanceIndex() -> int:
    """The number of this instance among all."""
    return getReplicaIndexOffset() // _replicas_of_each()


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """The device of this instance: devices are simulated, so each instance has the one of its own number."""
    return getInstanceIndex()


def checkNumIpusPerReplica(ipusPerReplica: int) -> bool:
    """Whether the launcher gave each replica so many IPUs."""
    return ipusPerReplica == getNumIpusPerReplica()


def init() -> None:
    """Join the instances in a ``torch.distributed`` group; without the launcher there is nobody to talk to.

    The process group is gloo's, and is closed when the process ends. Calling it again changes nothing.
    """
    from torch import distributed

    if not isPopdistEnvSet() or distributed.is_initialized():
        return
    meet = os.environ.get("POPDIST_RENDEZVOUS") or ("env://" if "MASTER_ADDR" in os.environ else None)
    if meet is None:
        raise RuntimeError(
            "popdist.init() does not know where the instances meet: start them with poprun, or set MASTER_ADDR and "
            "MASTER_PORT"
        )
    distributed.init_process_group("gloo", init_method=meet, rank=getInstanceIndex(), world_size=getNumInstances())
    atexit.register(_leave)


def execute_on_instances(
    instances: Iterable[int], func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """Call a function in some instances only, and return its result there; None elsewhere.

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
            "instances have different numbers of replicas (POPDIST_UNIFORM_REPLICAS_PER_INSTANCE is not 1), so it "
            "does not follow from those how many instances there are, and which of them this is"
        )
    return max(1, getNumLocalReplicas())
