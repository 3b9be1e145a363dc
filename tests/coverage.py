"""Every element once: ``python -m tests.coverage`` tries world sizes, workers and lengths, and prints one table.

A cell is a real process group whose ranks have real workers. Beside what the policy for uneven shards leaves out, adds
or refuses, each element must be given once in every epoch; the same seed must give the same order, and the next epoch
another one. Ranks are seeded differently, and must agree. The table shows, by policy, how many elements were left out
(-), were filled in or repeated (+), or that the ranks were refused (x): because they are uneven, or because one of them
has nothing that it could repeat.
"""

from __future__ import annotations

import faulthandler
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any, TypeAlias, cast, get_args

from datapipes.errors import GraphError
from datapipes.iter import IterableWrapper
from datapipes.ranks.topics import Uneven
from datapipes.sharding.sharding import shard_length
from loader2 import DataLoader2
from reading_services import (
    PADDING,
    DistributedReadingService,
    InProcessReadingService,
    MultiProcessingReadingService,
    RanksError,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)
from tests.many_ranks import on_ranks

WORLDS = range(1, 6)
WORKERS = range(4)
POLICIES: tuple[Uneven, ...] = get_args(Uneven)
LONGEST = 1003
SHUFFLED = 100  # elements from which on two epochs are not in the same order by chance
HANGS = 300.0  # seconds after which a rank or a worker that says nothing is an error
PATIENCE = 3600  # seconds for the whole table; then the stacks are printed, and it ends


def lengths_for(world: int) -> list[int]:
    """The lengths at which ranks and workers go wrong, if they do."""
    return sorted({0, 1, world - 1, world, 1000, LONGEST})


@dataclass
class Given:
    """Elements of a rank: of an epoch, the next one, and the first one again; and how many it says it left out."""

    epochs: list[list[Any]] = field(default_factory=list)
    dropped: int = 0
    raised: list[str] = field(default_factory=list)


def workers_of(policy: Uneven, workers: int, length: int) -> ReadingServiceInterface:
    """Processes where elements are dropped from the longest stream, and threads otherwise: they start faster."""
    if not workers:
        return InProcessReadingService()
    if policy == "drop" and length == LONGEST:
        return MultiProcessingReadingService(workers, "fork", timeout=HANGS)
    return ThreadingReadingService(workers, timeout=HANGS)


def given_by(rank: int, policy: Uneven, workers: int, length: int) -> Given:
    """On a rank: what it gives."""
    ranks = DistributedReadingService(HANGS, uneven=policy)
    services = SequentialReadingService(ranks, workers_of(policy, workers, length))
    graph = IterableWrapper(range(length)).shuffle().sharding_filter().map(abs)
    given = Given()
    with DataLoader2(graph, reading_service=services) as loader:
        own = cast(SequentialReadingService, loader.reading_service).reading_services[0]
        for seeds in (7, None, 7):
            if seeds is not None:
                loader.seed(seeds + rank)
            try:
                given.epochs.append(list(loader))
            except (RanksError, GraphError) as error:
                given.raised.append(f"{type(error).__name__}: {error}")
            given.dropped = cast(DistributedReadingService, own).dropped
    return given


def expected_lengths(world: int, workers: int, length: int) -> list[int]:
    """How many elements each rank has."""
    n = max(workers, 1)
    return [sum(shard_length(length, n * world, w + n * rank) for w in range(n)) for rank in range(world)]


def refusals(policy: Uneven, own: Sequence[int]) -> set[str]:
    """The errors of ranks that cannot go on together; ``own`` is how many elements each has."""
    if policy == "error" and len(set(own)) > 1:
        return {"UnevenRanks"}
    if policy == "repeat" and min(own) == 0 < max(own):  # there is nothing that it could repeat
        return {"GraphError", "RankFailed"}
    return set()


def wrong_with(policy: Uneven, length: int, own: Sequence[int], ranks: Sequence[Given]) -> list[str]:
    """Sentences about rules that do not hold; ``own`` is how many elements each rank has."""
    if expected := refusals(policy, own):
        raised = [{error.partition(":")[0] for error in rank.raised} for rank in ranks]
        whole = all(len(rank.raised) == 3 for rank in ranks) and all(kinds <= expected for kinds in raised)
        return [] if whole else [f"the ranks were to raise {expected} in each epoch, and have raised {raised}"]
    if wrong := [f"rank {i} raised {rank.raised[0]}" for i, rank in enumerate(ranks) if rank.raised]:
        return wrong
    size = min(own) if policy == "drop" else max(own)
    for number, epoch in enumerate(zip(*(rank.epochs for rank in ranks), strict=True)):
        if {len(elements) for elements in epoch} != {size}:
            wrong.append(f"epoch {number}: the ranks gave {[len(elements) for elements in epoch]}, not {size} each")
        counts = Counter(chain(*epoch))
        filled = counts.pop(PADDING, 0)
        doubled = sum(count - 1 for count in counts.values())
        if not set(counts) <= set(range(length)):
            wrong.append(f"epoch {number}: elements that the source does not have")
        added = {"pad": filled, "repeat": doubled}.get(policy, 0)
        if (filled, doubled) != {"pad": (added, 0), "repeat": (0, added)}.get(policy, (0, 0)):
            wrong.append(f"epoch {number}: {doubled} came again, and {filled} were filled in")
        lost = length - len(counts)
        if lost != (sum(own) - size * len(own) if policy == "drop" else 0):
            wrong.append(f"epoch {number}: {lost} were lost")
    if policy == "drop" and (said := sum(rank.dropped for rank in ranks)) != sum(own) - size * len(own):
        wrong.append(f"{sum(own) - size * len(own)} were left out, and the ranks say {said}")
    for rank, (first, second, again) in enumerate(rank.epochs for rank in ranks):
        if first != again:
            wrong.append(f"rank {rank}: the same seed gave another order")
        if len(first) >= SHUFFLED and first == second:
            wrong.append(f"rank {rank}: two epochs in the same order")
    return wrong


Case: TypeAlias = tuple[Uneven, int, int]
"""A policy, how many workers each rank has, and how many elements there are."""
Found: TypeAlias = dict[Case, tuple[str, list[str]]]
"""For each case a cell of the table, and what is wrong."""


def on_rank(cases: Sequence[Case], rank: int) -> list[Given]:
    """On a rank: all cases, one after the other."""
    return [given_by(rank, *case) for case in cases]


def tried(world: int, cases: Sequence[Case]) -> Found:
    """Try cases on one process group."""
    by_rank = on_ranks(world, partial(on_rank, cases), seconds=PATIENCE)
    found: Found = {}
    for case, ranks in zip(cases, zip(*by_rank, strict=True), strict=True):
        policy, workers, length = case
        own = expected_lengths(world, workers, length)
        size = len(own) * (min(own) if policy == "drop" else max(own)) - sum(own)
        cell = "x" if refusals(policy, own) else f"{size:+}" if size else "0"
        wrong = wrong_with(policy, length, own, ranks)
        found[case] = ("FAILED" if wrong else cell, wrong)
    return found


def complaints_of(world: int, found: Found) -> list[str]:
    """Complaints, each with the case that it is about."""
    return [f"{world} ranks, {case}: {complaint}" for case, (_, wrong) in found.items() for complaint in wrong]


def cases(world: int) -> list[Case]:
    """All of them."""
    return [(policy, n, length) for policy in POLICIES for n in WORKERS for length in lengths_for(world)]


def main() -> int:
    """Print the table, and below it what is wrong; 1 if anything is."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    print("ranks workers", *(f"{policy}: elements".ljust(31) for policy in POLICIES), sep="  ")
    started, cells = perf_counter(), 0
    wrong: list[str] = []
    for world in WORLDS:
        found = tried(world, cases(world))
        for n in WORKERS:
            row = [
                " ".join(f"{length}:{found[policy, n, length][0]}" for length in lengths_for(world)).ljust(31)
                for policy in POLICIES
            ]
            print(f"{world:5} {n:7}", *row, sep="  ", flush=True)
        wrong += complaints_of(world, found)
        cells += len(found)
    print(f"\n{cells} cells in {perf_counter() - started:.0f} seconds")
    print(f"{len(wrong)} broken" if wrong else "Every element once, but for what the policies say.", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
