"""Cut a graph into the part that runs in the workers and the part that stays in the main process.

These are pure functions: no pipe is changed. A stage whose ``is_replicable()`` returns False stays in the main process,
and so do all stages below it, and all stages below ``lanes``. The rest runs in the workers, as one graph with one end.
The dispatcher runs a part of that graph for all workers.
"""

from __future__ import annotations

from collections.abc import Callable

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.errors import GraphError
from datapipes.iter import Lanes, ShardingRoundRobinDispatcher
from datapipes.position.user_classes import is_replicable


def replicable_end(graph: Pipe) -> Pipe | None:
    """Return the end of the part that runs in the workers, or None if there is no such part."""
    in_main: set[int] = set()
    stages = structure.walk(graph)
    for stage in stages:
        above = structure.parents(stage) if in_main else ()
        reads_lanes = any(isinstance(parent, Lanes) for parent in structure.parents(stage))
        if reads_lanes or not is_replicable(stage) or any(id(parent) in in_main for parent in above):
            in_main.add(id(stage))
    if id(graph) not in in_main:
        return graph
    ends = {
        id(parent): parent
        for stage in stages
        if id(stage) in in_main
        for parent in structure.parents(stage)
        if id(parent) not in in_main
    }
    if len(ends) > 1:
        raise GraphError(
            "only a single replicable branch can run in workers, and the stages that have to stay in the main process "
            f"have {len(ends)} above them: {', '.join(f'{end!r:.100}' for end in ends.values())}"
        )
    return next(iter(ends.values()), None)


def dispatched_end(graph: Pipe) -> Pipe | None:
    """Return the end of the part that the dispatcher runs for all workers, or None if nothing is dispatched.

    The end is the first stage that has all ``sharding_round_robin_dispatch`` above it and is the only way to the stages
    above it. A stage that opens its input again and again (``cycle``) belongs to this part, because the workers would
    disagree about its lap.
    """
    stages = structure.walk(graph)
    marks = {id(stage) for stage in stages if isinstance(stage, ShardingRoundRobinDispatcher)}
    if not marks:
        return None
    marks |= {id(stage) for stage in stages if _opens_by_itself(stage) and marks & _at_or_above(stage)}
    for stage in stages:
        above = _at_or_above(stage)
        if marks <= above and all(read is stage for read in structure.read_by_others(stages, above)):
            return stage
    return graph


def _at_or_above(stage: Pipe) -> set[int]:
    return {id(each) for each in structure.walk(stage)}


def _opens_by_itself(stage: Pipe) -> bool:
    return structure.is_native(stage) and bool(structure.parents(stage)) and not stage._reads()


def with_end_replaced(graph: Pipe, end: Pipe, make: Callable[[Pipe], Pipe]) -> Pipe:
    """Return the graph with ``end`` and all stages above it replaced by one stage."""
    return make(end) if graph is end else structure.rewrite(graph, lambda stage: make(stage) if stage is end else stage)
