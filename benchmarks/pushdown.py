"""Cost of one of eight shards, where an element takes 100 us: an eighth of the calls, and about that of the time.

The source is map-style and counts who asks it. Reading a graph as it is written, a shard would make all the elements.
"""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from benchmarks.stopwatch import exhaust, seconds_of
from benchmarks.table import Row, Table

ELEMENTS = 800
SHARDS = 8
MICROSECONDS = 100
LEAST_SPEED_UP = 0.8 * SHARDS

Graph = Callable[[Any], Any]

GRAPHS: dict[str, Graph] = {
    "source -> shard": lambda source: source.to_iter_datapipe().sharding_filter(),
    "source -> map -> shuffle -> shard": lambda source: (
        source.to_iter_datapipe().map(_same).shuffle().sharding_filter()
    ),
    "source -> zip -> enumerate -> shard": lambda source: (
        source.to_iter_datapipe().zip(source.to_iter_datapipe().map(_same)).enumerate().sharding_filter()
    ),
    "shuffled source -> map -> shard": lambda source: source.shuffle().map(_same).sharding_filter(),
}


def tables(rounds: int) -> Iterator[Table]:
    yield Table(
        f"One shard of {SHARDS}: {ELEMENTS} elements that take {MICROSECONDS} us each",
        ("graph", "calls", "of", "ms", "all: ms", "speed-up"),
        [_row(name, graph, rounds) for name, graph in GRAPHS.items()],
        [f"required: 1/{SHARDS} of the calls, in at most 1/{LEAST_SPEED_UP:g} of the time"],
    )


def _row(name: str, graph: Graph, rounds: int) -> Row:
    try:
        passes = [(_pass(graph, SHARDS), _pass(graph, 1)) for _ in range(rounds)]  # in turn, for a fair ratio
    except Exception as error:  # the row says what failed; the others still come
        return Row((name,), "", False, f"not measured: {type(error).__name__}: {error}")
    (calls, seconds), (all_calls, all_seconds) = (min(each) for each in zip(*passes, strict=True))
    speed_up = all_seconds / seconds
    figures = (f"{calls:,}", f"{all_calls:,}", f"{seconds * 1e3:.1f}", f"{all_seconds * 1e3:.1f}", f"{speed_up:.1f}")
    reached = calls * SHARDS == all_calls and speed_up >= LEAST_SPEED_UP
    return Row((name, *figures), f">= {LEAST_SPEED_UP:g}", reached)


def _pass(graph: Graph, shards: int) -> tuple[int, float]:
    """How often the first of so many shards asks for an element, and how many seconds it takes."""
    source = _source()
    pipe = graph(source)
    pipe.apply_sharding(shards, 0)
    seconds = seconds_of(lambda: pipe, exhaust)
    return type(source).calls, seconds


def _source() -> Any:
    from datapipes.map import MapDataPipe

    class Slow(MapDataPipe[int]):
        """Numbers that take their time."""

        calls = 0

        def __getitem__(self, key: int) -> int:
            type(self).calls += 1
            until = perf_counter() + MICROSECONDS / 1e6
            while perf_counter() < until:
                pass
            return key

        def __len__(self) -> int:
            return ELEMENTS

    return Slow()


def _same(element: object) -> object:
    return element
