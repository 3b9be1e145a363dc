"""Rank of this process, and world size. A process without a process group is the only rank there is.

A worker of torch's DataLoader belongs to the rank that has started it. One that was forked finds the group that it has
inherited; to one that was started anew its graph tells it (``telling``), because pickling the graph is all that happens
in the process of the rank. A worker does not use the group itself, whose threads it has not: it leaves and finds word
in the store that the ranks have met in, over a connection of its own.
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

_dist: Any = dist  # which does not say that it exports its stores

_REACHED = 60.0
"""Seconds within which a store that ranks have met in must answer a new client."""

Address: TypeAlias = tuple[str, int] | str
"""Of a store: host and port, or the path of a file."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """A rank as its workers know it."""

    rank: int = 0
    world: int = 1
    store: Address | None = None
    timeout: float = 0.0
    """Seconds that the group waits for its ranks."""

    def shared(self, subject: str, asker: str, value: int) -> int:
        """Rank 0's value for a subject, on all ranks.

        The n-th time that an asker asks on a rank, it gets the value that the same asker on rank 0 has left there the
        n-th time. Rank 0 waits for nobody.
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
                f"rank {self.rank} cannot reach the store of its process group at {self.store}: rank 0 or whoever "
                f"started the ranks, which keeps it, has ended ({error})"
            ) from error
        except RuntimeError as error:  # of several kinds: which one depends on the store
            raise RanksDiffer(
                f"rank {self.rank} has waited {self.timeout:.0f} s for the seed of rank 0, which has not begun its "
                f"epoch number {number} of {subject:.200}: all ranks have to iterate the same graphs equally often"
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
                "the ranks of this process group have met in a store that no other process reaches, and have no way to "
                "agree on a seed; make the group with init_method='env://', 'tcp://...' or 'file://...'"
            )
        store.set_timeout(timeout)
        return _apart(store)


_told = Ranks()
"""The rank that has started this process, if it was told."""


def ranks() -> Ranks:
    """The rank that this process is, or is a worker of.

    >>> ranks().world
    1
    """
    if not dist.is_available() or _dist.group.WORLD is None:  # is_initialized() may say otherwise: tests replace it
        return _told
    store = _dist.distributed_c10d._get_default_store()
    while isinstance(store, _dist.PrefixStore):
        store = store.underlying_store
    address: Address | None = None
    if isinstance(store, _dist.TCPStore):
        address = store.host, store.port
    elif isinstance(store, _dist.FileStore):
        address = store.path
    timeout = 0.0 if address is None else store.timeout.total_seconds()
    return Ranks(dist.get_rank(), dist.get_world_size(), address, timeout)


def telling(reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Reduction of a graph for pickle, so that a process that is being started with it knows its rank."""
    if get_spawning_popen() is None or (here := ranks()).world == 1:
        return reduced
    make, arguments, *rest = reduced
    return _make_told, (here, make, arguments), *rest


def _make_told(ranks: Ranks, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    global _told
    _told = ranks
    return make(*arguments)


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
    """The store of the process group, as a client of our own: one that waits holds up nobody else's."""
    return _apart(_dist.distributed_c10d._get_default_store().clone())


def _apart(store: Any) -> Any:
    """A store with keys of our own; torchrun may keep one over restarts, so each attempt has others."""
    attempt = "/".join(os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT"))
    return _dist.PrefixStore(f"loader2/{attempt}", store)
