"""Numbers and lengths of shards, over groups of ranks and workers.

Shards are set for a group: ranks (DISTRIBUTED), workers (MULTIPROCESSING), or one group for everything (DEFAULT).
Groups combine into one number of shards and one index. The workers' index varies fastest, in whatever order they were
set.
"""

from __future__ import annotations

from collections.abc import Mapping

# torch's own enum, because users import it from torch.
from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES as SHARDING_PRIORITIES

from datapipes.errors import BadArgument, GraphError

ShardGroups = Mapping[SHARDING_PRIORITIES, tuple[int, int]]


def with_group(groups: ShardGroups, of: int, index: int, group: SHARDING_PRIORITIES) -> ShardGroups:
    """Return the groups after ``group`` is set to shard ``index`` of ``of``."""
    if not 0 <= index < of:
        raise BadArgument(f"instance_id {index} should be smaller than num_of_instances {of}, and not negative")
    others = {g for g in groups if g is not group}
    if others and (group is SHARDING_PRIORITIES.DEFAULT or SHARDING_PRIORITIES.DEFAULT in others):
        raise GraphError(
            "ShardingFilter cannot mix DEFAULT and non DEFAULT groups: "
            f"{group.name} is being set, {', '.join(sorted(g.name for g in others))} is"
        )
    return {**groups, group: (of, index)}


def combined(groups: ShardGroups, only: SHARDING_PRIORITIES | None = None) -> tuple[int, int]:
    """Return (number of shards, index) over all groups, or over one.

    >>> P = SHARDING_PRIORITIES
    >>> combined({P.MULTIPROCESSING: (3, 2), P.DISTRIBUTED: (2, 1)})
    (6, 5)
    """
    total, index = 1, 0
    for group in sorted(groups):
        if only is None or group is only:
            of, own = groups[group]
            total, index = total * of, index * of + own
    return total, index


def shard_length(length: int, of: int, index: int) -> int:
    """Return the number of elements in a shard of a stream of ``length`` elements."""
    return length // of + (index < length % of)
