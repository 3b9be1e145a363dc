"""Cut a graph into the part that runs in the workers and the part at home. Pure functions: no pipe is changed.

A stage that says ``is_replicable() is False`` runs at home, and so does everything below it; what is left above runs in
the workers, as one graph with one end. Of that, what is dispatched runs in one process for all workers.
"""

from __future__ import annotations

from collections.abc import Callable

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.errors import GraphError
from datapipes.iter import ShardingRoundRobinDispatcher


def replicable_end(graph: Pipe) -> Pipe | None:
    """The end of the part that runs in the workers; None if there is no such part."""
    at_home: set[int] = set()
    stages = structure.walk(graph)
    for stage in stages:
        above = structure.parents(stage) if at_home else ()
        if not is_replicable(stage) or any(id(parent) in at_home for parent in above):
            at_home.add(id(stage))
    if id(graph) not in at_home:
        return graph
    ends = {
        id(parent): parent
        for stage in stages
        if id(stage) in at_home
        for parent in structure.parents(stage)
        if id(parent) not in at_home
    }
    if len(ends) > 1:
        raise GraphError(
            "only a single replicable branch can run in workers, and the stages that have to stay at home have "
            f"{len(ends)} above them: {', '.join(f'{end!r:.100}' for end in ends.values())}"
        )
    return next(iter(ends.values()), None)


def dispatched_end(graph: Pipe) -> Pipe | None:
    """The end of the part that one process runs for all workers; None if nothing is dispatched.

    It is the first stage that all ``sharding_round_robin_dispatch`` marks are above, or at, and through which alone
    what is above it is read. A stage that reads what is above it time and again (``cycle``) belongs to it: the workers
    would not be at one about which time it is.
    """
    stages = structure.walk(graph)
    marks = {id(stage) for stage in stages if isinstance(stage, ShardingRoundRobinDispatcher)}
    if not marks:
        return None
    marks |= {id(stage) for stage in stages if _opens_by_itself(stage) and marks & _at_or_above(stage)}
    for stage in stages:
        above = _at_or_above(stage)
        if marks <= above and not any(
            id(parent) in above and parent is not stage
            for reader in stages
            if id(reader) not in above
            for parent in structure.parents(reader)
        ):
            return stage
    return graph


def _at_or_above(stage: Pipe) -> set[int]:
    return {id(each) for each in structure.walk(stage)}


def _opens_by_itself(stage: Pipe) -> bool:
    return structure.is_native(stage) and bool(structure.parents(stage)) and not stage._reads()


def with_end_replaced(graph: Pipe, end: Pipe, make: Callable[[Pipe], Pipe]) -> Pipe:
    """The graph with what is above and at ``end`` replaced by one stage."""
    return make(end) if graph is end else structure.rewrite(graph, lambda stage: make(stage) if stage is end else stage)


def is_replicable(stage: Pipe) -> bool:
    """Whether a stage may run in workers."""
    asked = getattr(type(stage), "is_replicable", None)
    return asked is None or bool(asked(stage))
