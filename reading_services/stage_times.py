"""Time of each stage of a graph, measured as the difference between running the graph up to it and up to its input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from time import perf_counter
from typing import Any

from datapipes.description.pipe import IterDataPipe
from datapipes.description.printing import stage
from datapipes.description.structure import is_hub, occurrences, walk
from datapipes.errors import BadArgument, GraphError

ROUNDS = 3  # the fastest one counts; fewer if the time is short


@dataclass(frozen=True)
class StageTime:
    """Measured seconds that one stage adds to an epoch of its graph, in this process and without workers."""

    stage: str
    seconds: float


def stage_times(graph: IterDataPipe[Any], budget: float = 2.0) -> list[StageTime]:
    """Return the seconds of each stage in an epoch, the source first. The graph must be a chain, without a loader.

    The graph is run several times up to each stage. Of a long epoch, measure a part: put ``.header(300)`` below the
    source.

    Args:
        graph: The last stage. A graph that branches is refused, because the times of its branches cannot be separated.
        budget: The largest number of seconds for all runs together. If they need more, ``BadArgument`` is raised.

    >>> from datapipes.iter import IterableWrapper
    >>> [each.stage for each in stage_times(IterableWrapper(range(10)).map(str).batch(2), budget=30)]
    ['IterableWrapper(range(0, 10))', '.map(str)', '.batch(2)']
    """
    every = walk(graph)
    if any(is_hub(each) or len(list(occurrences(each))) > 1 for each in every):
        raise GraphError(f"stage_times() measures a chain of stages, and this graph branches: {graph!r:.300}")
    stages = [each for each in every if isinstance(each, IterDataPipe)]  # map-style stages count for their reader
    until = perf_counter() + budget
    whole = _seconds(graph, until)
    if whole is None or whole * (len(stages) - 1) > until - perf_counter():
        raise _too_little(budget, whole, len(stages))
    best = [math.inf] * len(stages)
    for _ in range(ROUNDS):
        for number, each in enumerate(stages):
            seconds = _seconds(each, until)
            best[number] = min(best[number], math.inf if seconds is None else seconds)
    if math.inf in best:
        raise _too_little(budget, whole, len(stages))
    best = list(accumulate(best, max))  # a stage takes no less time than its input
    return [StageTime(stage(each), upto - above) for each, upto, above in zip(stages, best, [0.0, *best], strict=False)]


def _too_little(budget: float, epoch: float | None, stages: int) -> BadArgument:
    takes = "did not end in that time" if epoch is None else f"takes {epoch:.1f} s"
    return BadArgument(
        f"stage_times(budget={budget:g}): an epoch {takes}, and it is run up to each of {stages} stages; give a larger "
        "budget, or measure a part of it, with .header(n) below the source"
    )


def _seconds(pipe: IterDataPipe[Any], until: float) -> float | None:
    """Return the measured seconds of an epoch. Return None if it is not over by ``until``."""
    begun = perf_counter()
    if begun > until:
        return None
    for _ in pipe:
        if perf_counter() > until:
            return None
    return perf_counter() - begun
