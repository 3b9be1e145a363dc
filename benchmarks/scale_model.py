"""Model of the ranks' cost for each other, by arithmetic, and of blocks of uneven ranks together, by simulation.

The arithmetic: ranks are a tree. A conversation is one message up and one down each of its edges. An epoch has one to
agree on the seed, and one for each block of elements; two altogether where lengths are known beforehand. Blocks double
from one element to 2,048, unless reading one takes longer than 25 ms.

The simulation: ranks that do nothing but read, each block a little faster or slower than it should be, with the rules
of ``datapipes.ranks``: a block ends at a multiple of its size, and a rank reads one while less than a few of
them are not yet known to be on all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from datapipes.ranks.blocks import AHEAD, BLOCK, MOST
from reading_services.ranks.rendezvous import FAN_OUT, children_of, parent_of

HOP = 0.0002
"""Seconds for a message from a rank to its parent or child, and what the latter does with it."""


@dataclass(frozen=True)
class Costs:
    """Counts of what a rank sends and asks."""

    store: int
    """Requests to the store of the process group; once, when the ranks meet."""
    agreeing: int
    """Messages for the seed; once an epoch."""
    in_step: int
    """Messages to stay in step, an epoch."""


def costs(rank: int, world: int, conversations: int, fan_out: int = FAN_OUT) -> Costs:
    """Counts of what a rank sends and asks in an epoch with so many conversations, besides that about the seed."""
    children, parents = len(children_of(rank, world, fan_out)), int(rank > 0)
    edges = children + parents
    return Costs(1 + int(children > 0) + 2 * parents, edges, edges * conversations)


def busiest(world: int, fan_out: int = FAN_OUT) -> int:
    """The rank with the most edges: rank 1, if it has as many children as rank 0."""
    return max((0, 1), key=lambda rank: costs(rank, world, 1, fan_out).in_step)


def levels(world: int, fan_out: int = FAN_OUT) -> int:
    """How many hops there are from the last rank to rank 0."""
    hops, rank = 0, world - 1
    while (parent := parent_of(rank, fan_out)) is not None:
        hops, rank = hops + 1, parent
    return hops


def blocks(elements: int) -> int:
    """How many blocks so many elements are, the one that finds the end included."""
    read, size, number = 0, 1, 0
    while True:
        number += 1
        end = read + size - read % size
        if end > elements:
            return number
        read, size = end, min(MOST, 2 * size)


@dataclass(frozen=True)
class Simulated:
    """How it went."""

    seconds: float
    slowest: float
    """Seconds that the slowest rank would have taken alone."""
    verdicts: int
    blocks: float
    """Of a rank."""


@dataclass(frozen=True)
class Reading:
    """Work of the ranks: so many elements, each of which takes so long, but for a random share of each block's time.

    A share ``stalls`` of the blocks takes four times as long.
    """

    elements: int
    seconds: float
    spread: float
    stalls: float


def simulated(world: int, reading: Reading, ahead: int = AHEAD) -> Simulated:
    """Ranks that may have read ``ahead`` blocks which are not known to be on all of them."""
    draw = Random(world)
    read, sizes, alone = [0] * world, [1] * world, [0.0] * world
    delay = 2 * HOP * levels(world)
    under_way: list[tuple[float, int, int, float]] = []  # three heaps; in this one, the block that ends first
    positions = [(0, rank) for rank in range(world)]  # what is not a rank's last position any more is void
    waiting: list[tuple[int, int]] = []  # ranks by the position that all must have passed
    upto = verdicts = blocks_read = 0
    now = 0.0

    def begin(rank: int, at: float) -> None:
        size = min(sizes[rank] - read[rank] % sizes[rank], reading.elements - read[rank])
        takes = size * reading.seconds * draw.uniform(1 - reading.spread, 1 + reading.spread)
        takes *= 4 if draw.random() < reading.stalls else 1
        alone[rank] += takes
        heappush(under_way, (at + takes, rank, size, takes))

    for rank in range(world):
        begin(rank, 0.0)
    while under_way:
        now, rank, size, took = heappop(under_way)
        read[rank] += size
        blocks_read += 1
        if took > 2 * BLOCK:
            sizes[rank] = max(1, sizes[rank] // 2)
        elif took < BLOCK / 2:
            sizes[rank] = min(MOST, 2 * sizes[rank])
        heappush(positions, (read[rank], rank))
        while positions[0][0] < read[positions[0][1]]:
            heappop(positions)
        if positions[0][0] > upto:
            upto, verdicts = positions[0][0], verdicts + 1
        if read[rank] < reading.elements:
            heappush(waiting, (read[rank] - ahead * sizes[rank], rank))
        while waiting and waiting[0][0] < upto:
            begin(heappop(waiting)[1], now + delay)
    return Simulated(now + delay, max(alone), verdicts, blocks_read / world)
