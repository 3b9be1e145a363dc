"""The ranks of a process group, as forks of this process: cheap to start, and ended with the process that started them.

``on_ranks`` runs a function on each and returns what it returned, by rank. What a rank raises is raised here, with the
others ended; so is taking longer than a bound.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from reading_services.workers.process.members import leave_inherited_server

T = TypeVar("T")


class RankRaised(AssertionError):
    """The error that a rank raised, as text."""


def on_ranks(
    world: int, run: Callable[[int], T], seconds: float = 500.0, dying: frozenset[int] = frozenset()
) -> list[T]:
    """Call ``run(rank)`` on each rank of a gloo group; of those that are to die, nothing is expected."""
    context = multiprocessing.get_context("fork")
    given: dict[int, T] = {}
    ranks, links = [], {}
    until = monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(world):
                here, there = context.Pipe(duplex=False)
                process = context.Process(
                    target=_be_a_rank, args=(rank, world, folder, run, there), name=f"rank {rank}"
                )
                process.start()
                there.close()
                ranks.append(process)
                links[here] = rank
            while len(given) < world - len(dying):
                ready = wait(
                    [link for link, rank in links.items() if rank not in {*given, *dying}],
                    max(0.0, until - monotonic()),
                )
                if not ready:
                    missing = sorted(set(range(world)) - {*given, *dying})
                    raise RankRaised(f"the ranks {missing} have not ended within {seconds} seconds")
                for link in ready:
                    assert isinstance(link, Connection)
                    given[links[link]] = _received(link, links[link])
            for process in ranks:
                process.join(max(0.1, until - monotonic()))
        finally:
            for process in ranks:
                if process.is_alive():
                    process.kill()
                process.join(300)
                process.close()
            for link in links:
                link.close()
    return [given[rank] for rank in range(world) if rank not in dying]


def _received(link: Connection, rank: int) -> Any:
    try:
        raised, result = link.recv()
    except EOFError:
        raise RankRaised(f"rank {rank} ended without a word") from None
    if raised:
        raise RankRaised(f"rank {rank} raised\n{result}")
    return result


def _be_a_rank(rank: int, world: int, folder: str, run: Callable[[int], Any], home: Connection) -> None:
    torch.set_num_threads(1)
    leave_inherited_server()  # of the tests that ran before this one
    try:
        meeting = Path(folder) / "meeting"
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
        try:
            dist.barrier()  # gloo takes a rank that has ended before the others were connected for one that crashed
            home.send((False, run(rank)))
        finally:
            dist.destroy_process_group()
    except BaseException:  # passed to the process that has started this rank
        home.send((True, traceback.format_exc()))
        raise
