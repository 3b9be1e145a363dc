"""torchdata's functions that shard, shuffle and seed a whole graph. They change the pipes in place.

A loader needs none of them: it seeds and shards copies.
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
from datapipes.position import user_classes
from datapipes.position.seeds import draw_default_seed
from datapipes.sharding.sharding import SHARDING_PRIORITIES


class Seeds(Protocol):
    """Protocol of generators of seeds: ``loader2.random.SeedGenerator``."""

    def generate_seed(self) -> int:
        """Return a seed that differs between workers."""

    def generate_shared_seed(self) -> int:
        """Return a seed that is the same in all workers."""


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Pipe]:
    """Return every stage of a graph once, depth first from its end."""
    return [pipe for pipe, _ in depth_first(graph)]


def apply_sharding(
    datapipe: Pipe,
    num_of_instances: int,
    instance_id: int,
    sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
) -> Pipe:
    """Shard a graph at its sharding stages. A path may have one sharding stage.

    Args:
        datapipe: The last pipe of the graph, which is changed and returned.
        num_of_instances: The number of shards.
        instance_id: The index of the shard, from 0.
        sharding_group: The purpose of the shards: ranks, workers, or both as one (``DEFAULT``). Shards of ranks and of
            workers combine. Neither combines with ``DEFAULT``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(apply_sharding(IterableWrapper(range(10)).sharding_filter(), 3, 2))
    [2, 5, 8]
    """
    above: dict[int, bool] = {}
    stages = structure.walk(datapipe, inputs=user_classes.sharded_inputs)
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
    """Return whether a stage has the methods of a shuffle, ``set_shuffle`` and ``set_seed``, as torchdata checks."""
    return user_classes.has_method(pipe, "set_shuffle") and user_classes.has_method(pipe, "set_seed")


def apply_shuffle_settings(datapipe: Pipe, shuffle: bool | None = None) -> Pipe:
    """Switch every shuffle of a graph on or off. None changes nothing.

    If there is no shuffle, True adds one at the end, with a warning.

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
            user_classes.pin_seed(pipe, draw_default_seed(rng))
    return datapipe


def apply_shuffle_seed(datapipe: Pipe, rng: torch.Generator) -> Pipe:
    """Pin the seed of every random stage. Deprecated name of ``apply_random_seed``."""
    warnings.warn("`apply_shuffle_seed` is deprecated, use `apply_random_seed` instead", FutureWarning, stacklevel=2)
    return apply_random_seed(datapipe, rng)


def set_datapipes_seed(datapipes: Sequence[Pipe], seed_generator: Seeds, distributed_shared: bool) -> None:
    """Pin the seed of each random stage of a list, in its order, to a seed of its own.

    Args:
        datapipes: The stages. Stages without randomness are not changed.
        seed_generator: The source of the seeds, a ``loader2.random.SeedGenerator``.
        distributed_shared: Whether the seeds are the same in all workers and ranks. Otherwise they belong to this
            worker.
    """
    for pipe in datapipes:
        if user_classes.has_method(pipe, "set_seed"):
            draw = seed_generator.generate_shared_seed if distributed_shared else seed_generator.generate_seed
            user_classes.pin_seed(pipe, draw())


def set_graph_random_seed(datapipe: Pipe, seed_generator: Seeds) -> Pipe:
    """Pin the seeds of a graph: shared seeds at and above its sharding stages, the worker's own seeds below them.

    Args:
        datapipe: The last pipe of the graph, which is changed and returned.
        seed_generator: The source of the seeds, a ``loader2.random.SeedGenerator``.
    """
    graph = traverse_dps(datapipe)
    seen: set[int] = set()
    for pipe, inputs in depth_first(graph):
        if user_classes.is_sharding(pipe):
            set_datapipes_seed(breadth_first([(pipe, inputs)], seen), seed_generator, distributed_shared=True)
    set_datapipes_seed(breadth_first(graph.values(), seen), seed_generator, distributed_shared=False)
    return datapipe
