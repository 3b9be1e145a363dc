"""Cost of an epoch at scale, for each rank of 8 to 65,536.

No machine here has so many. The first table counts what 2, 4 and 8 ranks really send, ask and read, and holds the
arithmetic of ``benchmarks.scale_model`` against it, in a star and in a tree of several levels; the others go on from
there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from timeit import repeat
from typing import Any

from benchmarks import scale_model
from benchmarks.table import Row, Table
from datapipes.ranks.blocks import AHEAD, BLOCK

LENGTH = 40_000
"""Elements of all ranks together, where they are counted;"""
EACH = 100_000
"""and of one rank, where they are not."""
COUNTED = ((2, 64), (4, 64), (8, 64), (8, 2))
"""Ranks, and how many children one has at most."""
WORLDS = (8, 64, 512, 4_096, 65_536)
READING = scale_model.Reading(elements=250, seconds=0.001, spread=0.3, stalls=0.01)
"""What is simulated."""
LOOSE = 2.0
"""A rank that is held up makes smaller blocks, and has more to say."""


def tables(rounds: int) -> Iterator[Table]:
    yield counted()
    yield arithmetic()
    yield simulation()


# -- counted -----------------------------------------------------------------------------------------------------------


def known() -> Any:
    from datapipes.iter import IterableWrapper

    return IterableWrapper(range(LENGTH)).shuffle().sharding_filter()


def positioned() -> Any:
    from benchmarks.scale_counts import Positioned

    return Positioned(LENGTH).to_iter_datapipe().shuffle().sharding_filter()


def streamed() -> Any:
    from benchmarks.scale_counts import Streamed

    return Streamed(LENGTH).shuffle().sharding_filter()


def counted() -> Table:
    from benchmarks.scale_counts import counted as run

    rows = []
    for world, fan_out in COUNTED:
        first, second = _sums(run(world, fan_out, positioned))
        _, promised = _sums(run(world, fan_out, known))
        _, whole = _sums(run(world, fan_out, streamed))
        at_once, each = (
            [scale_model.costs(rank, world, conversations, fan_out) for rank in range(world)]
            for conversations in (2, scale_model.blocks(LENGTH // world))
        )
        shape = f"{world} ranks" + (f", fan-out {fan_out}" if world > fan_out else "")
        rows += [
            _checked(f"{shape}: store requests", first["store"], sum(cost.store for cost in each)),
            _checked(" messages for the seed", second["seed: messages"], sum(cost.agreeing for cost in each)),
            _checked(" to stay in step, length known", promised["step: messages"], sum(c.in_step for c in at_once)),
            _checked(" to stay in step, unknown", second["step: messages"], sum(c.in_step for c in each), LOOSE),
            _checked(" elements read, by position", second["reads"], LENGTH),
            _checked(" elements read, from a stream", whole["reads"], LENGTH * world),
        ]
    return Table(
        f"Counted in all ranks together, in an epoch of {LENGTH:,} elements",
        ("", "counted", "arithmetic"),
        rows,
        [f"required: as many; at most {LOOSE:g} times as many where ranks that are held up have more to say"],
    )


def _sums(of_ranks: list[tuple[dict[str, int], dict[str, int]]]) -> tuple[dict[str, int], dict[str, int]]:
    first, second = (
        {name: sum(c.get(name, 0) for c in of_each) for name in of_each[0]} for of_each in zip(*of_ranks, strict=True)
    )
    return first, second


def _checked(name: str, seen: int, expected: int, factor: float = 1.0) -> Row:
    required, reached = ("=", seen == expected) if factor == 1 else (f"<= {factor:g} x", seen <= factor * expected)
    return Row((name, f"{seen:,}", f"{expected:,}"), required, reached)


# -- by arithmetic -----------------------------------------------------------------------------------------------------


def arithmetic() -> Table:
    """The busiest rank's, because the others wait for it."""
    per_block = scale_model.blocks(EACH)
    rows = []
    for world in WORLDS:
        rank = scale_model.busiest(world)
        cost = scale_model.costs(rank, world, per_block)
        milliseconds = _block_seconds(cost.agreeing) * 1e3
        rows.append(
            Row(
                (
                    f"{world:,}",
                    str(scale_model.levels(world)),
                    f"{sum(scale_model.costs(r, world, 0).store for r in range(world)):,}",
                    f"{cost.agreeing}",
                    f"{2 * cost.agreeing}",
                    f"{cost.in_step:,}",
                    f"{cost.in_step * _message_bytes() / EACH:.2f}",
                    f"{milliseconds:.2f}",
                    "1",
                    f"{world:,}",
                )
            )
        )
    columns = "ranks", "levels", "store", "seed", "known", "unknown", "bytes/element", "ms/block", "reads", "streamed"
    return Table(
        f"The busiest rank, in an epoch of {EACH:,} elements of each rank",
        columns,
        rows,
        [
            "store: requests of all ranks to the process group's store, once in the life of a loader",
            "seed, known, unknown: messages that it sends, and is sent, to agree on the seed and to stay in step where",
            "  lengths are known beforehand or not",
            f"ms/block: what it takes to read and answer them, of the {BLOCK * 1e3:.0f} ms of a block",
            "reads: elements read for one that is used, by position; streamed: from a source that can only be streamed",
        ],
    )


def _reports(number: int) -> list[dict[str, Any]]:
    from datapipes.ranks.topics import RankProgress

    return [RankProgress("drop").report(rank, 4_096 + rank, False, 0) for rank in range(number)]


def _message_bytes() -> int:
    return len(json.dumps({"report": _reports(1)[0], "key": [1, 0]})) + 1


def _block_seconds(edges: int) -> float:
    """Seconds of a rank for a block: each child's report is read and put together with the others', once."""
    from datapipes.ranks.topics import RankProgress

    progress, reports = RankProgress("drop"), _reports(edges)
    line = json.dumps({"report": reports[0], "key": [1, 0]})

    def block() -> None:
        for _ in range(edges):
            json.loads(line)
            progress.merged(reports)
        for _ in range(edges):
            json.dumps({"verdict": progress.verdict(reports[0]), "key": (1, 0)})

    return min(repeat(block, number=1, repeat=50))


# -- simulated ---------------------------------------------------------------------------------------------------------


def simulation() -> Table:
    rows = []
    for world in WORLDS:
        seen, nearer = (scale_model.simulated(world, READING, ahead) for ahead in (AHEAD, 1))
        edges = scale_model.costs(scale_model.busiest(world), world, 1).in_step
        cells = (
            f"{world:,}",
            f"{seen.seconds:.2f}",
            f"{seen.seconds / seen.slowest:.2f}",
            f"{seen.blocks:.0f}",
            f"{seen.verdicts}",
            f"{seen.verdicts * edges / seen.seconds:,.0f}",
            f"{nearer.seconds / nearer.slowest:.2f}",
        )
        rows.append(Row(cells))
    each = f"{READING.seconds * 1e3:g} ms +-{READING.spread:.0%}, {READING.stalls:.0%} of the blocks four times as long"
    return Table(
        f"Simulated: {READING.elements} elements of {each}",
        ("ranks", "s", "to slowest", "blocks", "verdicts", "messages/s", "with 1 block"),
        rows,
        [
            "Ranks that do nothing but read, so each waits for the slowest one of each block: the worst that can be.",
            "to slowest: times what the slowest rank would take alone; with 1 block: if ranks were no further ahead",
            "messages/s: that the busiest rank sends",
        ],
    )
