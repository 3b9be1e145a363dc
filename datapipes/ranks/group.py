"""Which rank this is, of how many. A process without a process group is the only rank there is."""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist

from datapipes.errors import GraphError


def here() -> tuple[int, int]:
    """(rank, world size), as far as they are known by now.

    >>> here()
    (0, 1)
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    world = os.environ.get("WORLD_SIZE", "1")
    if world not in ("", "1"):
        raise GraphError(
            f"the process group is required to be initialized: WORLD_SIZE says that there are {world} ranks, and "
            "without a group each of them would load everything; call torch.distributed.init_process_group() before "
            "the first iter()"
        )
    return 0, 1


def store() -> Any:
    """The store of the process group, as a client of our own: one that waits holds up nobody else's.

    torchrun may keep one store over restarts, so an attempt has keys of its own.
    """
    group: Any = dist.distributed_c10d._get_default_store()
    attempt = "/".join(os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT"))
    return dist.distributed_c10d.PrefixStore(f"loader2/{attempt}", group.clone())
