"""Environment variables of an instance, and the table of the replicas of each."""

from __future__ import annotations

import os
import socket

from reading_services.ipu.poprun.arguments import LaunchPlan


def variables(plan: LaunchPlan, instance: int, rendezvous: str) -> dict[str, str]:
    """The environment of one instance: the launcher's own, and the variables that tell the instance its place.

    The names that MPI gives are set too: plain ``poptorch.Options`` learns from them which process it is in.
    """
    each, index, instances = str(plan.replicas_of_each), str(instance), str(plan.instances)
    told = {
        "POPDIST_NUM_TOTAL_REPLICAS": str(plan.replicas),
        "POPDIST_NUM_LOCAL_REPLICAS": each,
        "POPDIST_NUM_IPUS_PER_REPLICA": str(plan.ipus_per_replica),
        "POPDIST_REPLICA_INDEX_OFFSET": str(instance * plan.replicas_of_each),
        "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "1",
        "POPDIST_LOCAL_INSTANCE_INDEX": index,
        "POPDIST_RENDEZVOUS": rendezvous,
        "OMPI_COMM_WORLD_SIZE": instances,
        "OMPI_COMM_WORLD_RANK": index,
        "OMPI_COMM_WORLD_LOCAL_SIZE": instances,
        "OMPI_COMM_WORLD_LOCAL_RANK": index,
        "PYTHONUNBUFFERED": "1",
    }
    if plan.cache is not None:
        told["POPTORCH_CACHE_DIR"] = plan.cache
    # All instances are on this host; its name need not be one that they can reach each other by.
    return {"GLOO_SOCKET_IFNAME": "lo", **os.environ, **told, **plan.variables}


def topology(plan: LaunchPlan) -> str:
    """The replicas of each instance, as a table."""
    each = plan.replicas_of_each
    rows = [("host", "ILD", "instance", "replicas", "IPUs")]
    for instance in range(plan.instances):
        first, end = instance * each, (instance + 1) * each
        ipus = _span(first * plan.ipus_per_replica, end * plan.ipus_per_replica)
        rows.append((socket.gethostname(), "0", str(instance), _span(first, end), ipus))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _span(first: int, end: int) -> str:
    return str(first) if end - first == 1 else f"{first}-{end - 1}"
