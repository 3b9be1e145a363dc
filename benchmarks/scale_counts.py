"""Counts of what ranks really send, ask and read: each a process of its own, with sockets, store and sources counted.

Nothing of the library is replaced: the counters sit in Python's ``socket``, in front of torch's store, and in the data
set. An epoch is counted from before its ``iter`` to behind its end; the second one, because the first one includes the
meeting of the ranks, which is counted by itself.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from datapipes.iter import IterDataPipe
from datapipes.map import MapDataPipe
from loader2 import DataLoader2
from reading_services import DistributedReadingService
from reading_services.ranks import rendezvous

Counts: TypeAlias = dict[str, int]
Graph: TypeAlias = Callable[[], Any]

counts: Counter[str] = Counter()
"""Of this process."""


class Positioned(MapDataPipe[int]):
    """Numbers that can be read by position; reading one is counted."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __getitem__(self, key: int) -> int:
        counts["reads"] += 1
        return key

    def __len__(self) -> int:
        return self.length


class Streamed(IterDataPipe[int]):
    """Numbers that come one after the other; reading one is counted."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        for number in range(self.length):
            counts["reads"] += 1
            yield number

    def __len__(self) -> int:
        return self.length


def counted(world: int, fan_out: int, graph: Graph) -> list[tuple[Counts, Counts]]:
    """Counts of each rank in its first epoch, meeting the others included, and in its second one."""
    with TemporaryDirectory() as folder:
        run: Any = start_processes  # torch's own function has no types
        run(_rank, (world, fan_out, graph, Path(folder)), nprocs=world, start_method="fork")
        return [json.loads((Path(folder) / f"{rank}").read_text()) for rank in range(world)]


def _rank(rank: int, world: int, fan_out: int, graph: Graph, folder: Path) -> None:
    for function in (rendezvous.parent_of, rendezvous.children_of, rendezvous.meet):
        function.__defaults__ = (fan_out,)  # so that few ranks are a tree of several levels
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    try:
        _count_sent()
        _count_asked()
        seen = []
        with DataLoader2(graph(), reading_service=DistributedReadingService(timeout=60)) as loader:
            for epoch in range(2):
                counts.clear()
                loader.seed(epoch)
                counts["elements"] = sum(1 for _ in loader)
                dist.barrier()  # what is said behind the last element has been sent
                seen.append(dict(counts))
            dist.barrier()
        (folder / f"{rank}").write_text(json.dumps(seen))
    finally:
        dist.destroy_process_group()


def _count_sent() -> None:
    sendall = socket.socket.sendall

    def counting(self: socket.socket, data: Any, *flags: int) -> None:
        message = json.loads(bytes(data)) if bytes(data[:1]) == b"{" else {}
        if message.get("key"):  # the others are about no epoch: goodbyes
            about = "seed" if message["key"][1] < 0 else "step"
            counts[f"{about}: messages"] += 1
            counts[f"{about}: bytes"] += len(data)
        sendall(self, data, *flags)

    setattr(socket.socket, "sendall", counting)  # noqa: B010 - a plain assignment is an error to type checkers


def _count_asked() -> None:
    torchs: Any = dist.distributed_c10d
    prefixed = torchs.PrefixStore
    torchs.PrefixStore = lambda prefix, store: _Counting(prefixed(prefix, store))


class _Counting:
    """A store that counts what it is asked."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in ("add", "set", "get", "wait"):
            counts["store"] += 1
        return method
