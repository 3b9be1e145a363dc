"""Rank of this process, and world size. A process without a process group is the only rank.

A worker of torch's DataLoader belongs to the rank that started it. A forked worker finds the group that it inherited. A
spawned worker receives the rank with its graph (``telling``), because pickling the graph is the only step that runs in
the rank's process. A worker cannot use the group itself, because it does not have the group's threads. It exchanges
values through the store of the process group, over a connection of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from multiprocessing.context import get_spawning_popen
from typing import Any, TypeAlias

import torch.distributed as dist

from datapipes.errors import GraphError, RankDied, RanksDiffer

_dist: Any = dist  # its type stub does not export the stores

_REACHED = 60.0
"""Seconds within which the store of a process group must accept a new client."""

Address: TypeAlias = tuple[str, int] | str
"""Address of a store: host and port, or the path of a file."""


@dataclass(frozen=True, slots=True)
class RankInfo:
    """A rank as its workers know it."""

    rank: int = 0
    world: int = 1
    store: Address | None = None
    timeout: float = 0.0
    """Seconds that the group waits for its ranks."""

    def shared(self, subject: str, asker: str, value: int) -> int:
        """Return rank 0's value for a subject, on all ranks.

        The n-th call by an asker returns the value of the n-th call by the same asker on rank 0. Rank 0 does not wait.
        """
        if self.world == 1:
            return value
        key = f"{blake2b(subject.encode(), digest_size=8).hexdigest()}/{asker}"
        try:
            store = self._connected()
            number = store.add(f"{key}/asked by rank {self.rank}", 1)
            entry = f"{key}/{number}"
            if self.rank == 0:
                store.set(entry, str(value))
                return value
            return int(store.get(entry))
        except GraphError:
            raise
        except dist.DistNetworkError as error:
            raise RankDied(
                f"rank {self.rank} cannot reach the store of its process group at {self.store}: the process that keeps "
                f"it, rank 0 or the launcher, has ended ({error})"
            ) from error
        except RuntimeError as error:  # its exact type depends on the store
            raise RanksDiffer(
                f"rank {self.rank} has waited {self.timeout:.0f} s for the seed of rank 0, which has not begun its "
                f"epoch number {number} of {subject:.200}: all ranks have to iterate over the same graphs equally often"
            ) from error

    def _connected(self) -> Any:
        timeout = timedelta(seconds=self.timeout)
        if isinstance(self.store, str):
            store = _dist.FileStore(self.store)
        elif self.store is not None:
            reached = min(timeout, timedelta(seconds=_REACHED))
            store = _dist.TCPStore(*self.store, timeout=reached, wait_for_workers=False)
        else:
            raise GraphError(
                "the ranks of this process group have met in a store that other processes cannot reach, so they cannot "
                "agree on a seed; make the group with init_method='env://', 'tcp://...' or 'file://...'"
            )
        store.set_timeout(timeout)
        return _apart(store)


_received = RankInfo()
"""The rank that started this process, if this process received it with a graph."""


def ranks() -> RankInfo:
    """Return the rank of this process, or of the process that started this worker.

    >>> ranks().world
    1
    """
    if not dist.is_available() or _dist.group.WORLD is None:  # not is_initialized(): tests replace it
        return _received
    store = _dist.distributed_c10d._get_default_store()
    while isinstance(store, _dist.PrefixStore):
        store = store.underlying_store
    address: Address | None = None
    if isinstance(store, _dist.TCPStore):
        address = store.host, store.port
    elif isinstance(store, _dist.FileStore):
        address = store.path
    timeout = 0.0 if address is None else store.timeout.total_seconds()
    return RankInfo(dist.get_rank(), dist.get_world_size(), address, timeout)


def telling(reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Wrap the pickle reduction of a graph, so that a process that is started with it knows its rank."""
    if get_spawning_popen() is None or (here := ranks()).world == 1:
        return reduced
    make, arguments, *rest = reduced
    return _make_in_rank, (here, make, arguments), *rest


def _make_in_rank(ranks: RankInfo, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    global _received
    _received = ranks
    return make(*arguments)


def here() -> tuple[int, int]:
    """Return (rank, world size). Raise GraphError if WORLD_SIZE is above 1 and there is no process group.

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
    """Return the store of the process group, as a separate client: a client that waits blocks no other."""
    return _apart(_dist.distributed_c10d._get_default_store().clone())


def _apart(store: Any) -> Any:
    """Return a view of the store with separate keys.

    Each attempt has its own: torchrun may keep a store over restarts.
    """
    attempt = "/".join(os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT"))
    return _dist.PrefixStore(f"loader2/{attempt}", store)
