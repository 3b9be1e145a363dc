"""``len`` of torch's DataLoader, and of what derives from it, over a graph that its workers share.

Such a loader takes ``len(dataset)`` for its own length. Its workers each take a part of a graph, though, and what comes
behind the ``sharding_filter`` rounds in each of them: 18 rows in batches of 4 are 5 batches, and 3 + 3 of two workers.
So where it is that loader who asks, the parts are counted. Nothing else about a stage's ``__len__`` is changed.

A length that somebody has declared, by ``set_length`` or by a class of one's own behind the ``sharding_filter``, is
taken as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any, TypeVar, cast

from torch.utils.data import DataLoader

F = TypeVar("F", bound=Callable[[Any], int])

_ASKING = DataLoader.__len__.__code__


def counts_parts(function: F) -> F:
    """A ``__len__`` that counts the workers' parts where torch's loader asks.

    >>> from datapipes.iter import IterableWrapper
    >>> graph = IterableWrapper(range(18)).sharding_filter().batch(4)
    >>> len(graph), len(DataLoader(graph, batch_size=None, num_workers=2))
    (5, 6)
    """

    @wraps(function)
    def length(pipe: Any) -> int:
        return asked(pipe, function)

    length._counts_parts = True  # type: ignore[attr-defined]  # a mark of our own
    return cast("F", length)


def wrap_length(cls: type) -> None:
    """Have the ``__len__`` that a class defines count parts."""
    own = vars(cls).get("__len__")
    if callable(own) and not hasattr(own, "_counts_parts"):
        cls.__len__ = counts_parts(own)  # type: ignore[attr-defined]  # it has one


def asked(pipe: Any, own: Callable[[Any], int]) -> int:
    """The length of a pipe; that of all parts together, if torch's loader asks for it."""
    caller = sys._getframe(2)
    if caller.f_code is not _ASKING:
        return own(pipe)
    loader = caller.f_locals["self"]
    parts = None if loader.dataset is not pipe else parts_of(pipe, max(1, loader.num_workers))
    if parts is None:
        return own(pipe)
    size: int | None = loader.batch_size
    if size is None:
        return sum(parts)
    batches = [part // size if loader.drop_last else -(-part // size) for part in parts]
    return sum(batches) * size  # which the loader divides by it again


def parts_of(graph: Any, workers: int) -> list[int] | None:
    """The lengths of the parts that workers of this rank take; None where the graph's own length is the one to take."""
    from datapipes.description import structure
    from datapipes.graph.settings import apply_sharding
    from datapipes.iter.elements.numbering import LengthSetter
    from datapipes.operators.checks import length_of
    from datapipes.parts.group import ranks
    from datapipes.parts.sharding import SHARDING_PRIORITIES
    from datapipes.position.user_classes import is_sharding

    stages, here = structure.walk(graph), ranks()
    sharded = set(chain(*(vars(stage).get("groups") or () for stage in stages)))  # by its user, whoever loads it
    if sharded not in (set(), {SHARDING_PRIORITIES.DISTRIBUTED}) or not any(map(is_sharding, stages)):
        return None
    for stage in stages:
        is_declared = isinstance(stage, LengthSetter) or not type(stage).__module__.startswith("datapipes.")
        if is_declared and any(above is not stage and is_sharding(above) for above in structure.walk(stage)):
            return None
    if sharded:
        shards, of, group = range(workers), workers, SHARDING_PRIORITIES.MULTIPROCESSING
    else:
        of, group = workers * here.world, SHARDING_PRIORITIES.DEFAULT
        shards = range(here.rank, of, here.world)
    return [length_of(apply_sharding(structure.unfold(graph), of, shard, group)) for shard in shards]
