"""torchdata's functions that shard, shuffle and seed a whole graph. They change the pipes that they are given.

A loader needs none of these: it seeds and shards the copies that it works on.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

import torch

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.errors import GraphError
from datapipes.graph.editing import DataPipeGraph, breadth_first, depth_first, traverse_dps
from datapipes.parts.sharding import SHARDING_PRIORITIES
from datapipes.position import user_classes


class Seeds(Protocol):
    """Protocol of generators of seeds: ``loader2.random.SeedGenerator``."""

    def generate_seed(self) -> int:
        """A seed that differs from worker to worker."""

    def generate_shared_seed(self) -> int:
        """A seed that is the same in all workers."""


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Pipe]:
    """Every stage of a graph once, depth first from its end."""
    return [pipe for pipe, _ in depth_first(graph)]


def apply_sharding(
    datapipe: Pipe,
    num_of_instances: int,
    instance_id: int,
    sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
) -> Pipe:
    """Shard a graph at each of its sharding stages, of which a path may have one.

    Args:
        datapipe: The end of the graph, which is changed and returned.
        num_of_instances: The number of shards.
        instance_id: The number of the shard to take, from 0.
        sharding_group: What the shards are for: ranks, workers, or both as one (``DEFAULT``). Those of ranks and of
            workers combine, and neither goes together with ``DEFAULT``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(apply_sharding(IterableWrapper(range(10)).sharding_filter(), 3, 2))
    [2, 5, 8]
    """
    above: dict[int, bool] = {}
    stages = structure.walk(datapipe)
    for pipe in stages:
        has_sharding_above = any(above.get(id(parent)) for parent in structure.parents(pipe))
        if user_classes.is_sharding(pipe) and has_sharding_above:
            raise GraphError(
                f"Sharding twice on a single pipeline is likely unintended and will cause data loss: {pipe!r}; "
                "keep one sharding_filter() on each path"
            )
        above[id(pipe)] = user_classes.is_sharding(pipe) or has_sharding_above
    for pipe in stages:
        if user_classes.is_sharding(pipe):
            user_classes.shard(pipe, num_of_instances, instance_id, sharding_group)
    return datapipe


def is_shuffler(pipe: Pipe) -> bool:
    """Return whether a stage can be switched on and off as a shuffle, as torchdata asks: by its methods."""
    return user_classes.has_method(pipe, "set_shuffle") and user_classes.has_method(pipe, "set_seed")


def apply_shuffle_settings(datapipe: Pipe, shuffle: bool | None = None) -> Pipe:
    """Switch every shuffle of a graph on or off; None leaves them. True adds one, with a warning, where there is none.

    >>> from datapipes.iter import IterableWrapper
    >>> list(apply_shuffle_settings(IterableWrapper(range(5)).shuffle(), shuffle=False))
    [0, 1, 2, 3, 4]
    """
    if shuffle is None:
        return datapipe
    shufflers = list(filter(is_shuffler, structure.walk(datapipe)))
    if not shufflers and shuffle:
        from datapipes import iter, map

        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`: adding one at the end; "
            "a shuffle() before the batching shuffles better",
            stacklevel=2,
        )
        datapipe = iter.Shuffler(datapipe) if structure.is_stream(datapipe) else map.Shuffler(datapipe)
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Pipe, rng: torch.Generator) -> Pipe:
    """Pin the seed of every random stage to a number drawn from ``rng``."""
    for pipe, _ in depth_first(traverse_dps(datapipe)):
        if user_classes.has_method(pipe, "set_seed"):
            user_classes.pin_seed(
                pipe, int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=rng).item())
            )
    return datapipe


def apply_shuffle_seed(datapipe: Pipe, rng: torch.Generator) -> Pipe:
    """The old name of ``apply_random_seed``."""
    warnings.warn("`apply_shuffle_seed` is deprecated, use `apply_random_seed` instead", FutureWarning, stacklevel=2)
    return apply_random_seed(datapipe, rng)


def set_datapipes_seed(datapipes: Sequence[Pipe], seed_generator: Seeds, distributed_shared: bool) -> None:
    """Pin the seed of each random stage of a list, in its order, to a seed of its own.

    Args:
        datapipes: The stages; those that are not random are left as they are.
        seed_generator: What the seeds are drawn from, a ``loader2.random.SeedGenerator``.
        distributed_shared: Whether they are those that all workers and ranks have in common. Otherwise they are the
            worker's own.
    """
    for pipe in datapipes:
        if user_classes.has_method(pipe, "set_seed"):
            draw = seed_generator.generate_shared_seed if distributed_shared else seed_generator.generate_seed
            user_classes.pin_seed(pipe, draw())


def set_graph_random_seed(datapipe: Pipe, seed_generator: Seeds) -> Pipe:
    """Pin the seeds of a graph: shared ones at and above its sharding stages, a worker's own below them.

    Any stage that shards counts as such; torchdata only knew its own ShardingFilter.

    Args:
        datapipe: The end of the graph, which is changed and returned.
        seed_generator: What the seeds are drawn from, a ``loader2.random.SeedGenerator``.
    """
    graph = traverse_dps(datapipe)
    seen: set[int] = set()
    for pipe, inputs in depth_first(graph):
        if user_classes.is_sharding(pipe):
            set_datapipes_seed(breadth_first([(pipe, inputs)], seen), seed_generator, distributed_shared=True)
    set_datapipes_seed(breadth_first(graph.values(), seen), seed_generator, distributed_shared=False)
    return datapipe
