"""torch's DataLoader, and torchdata's StatefulDataLoader, over a graph: their ``shuffle=``, ``len`` and epochs.

Both loaders recognise torch's own pipes by their class, and treat a graph of this library as any other iterable
dataset. They refuse ``shuffle=True``, ignore ``shuffle=False``, use ``len(dataset)`` as their own length, and pass no
epoch to their dataset. Therefore two of their methods and the constructor of their iterators are wrapped. A dataset
without a pipe of this library is passed to torch's own method unchanged.

``datapipes.position.torch_worker`` describes how their workers share a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

from torch.utils.data import DataLoader, dataloader

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, MapDataPipe
from datapipes.errors import BadArgument
from datapipes.graph.settings import apply_sharding, apply_shuffle_settings, is_shuffler
from datapipes.position.torch_worker import begin_epoch
from datapipes.position.user_classes import is_sharding
from datapipes.sharding.group import ranks
from datapipes.sharding.sharding import SHARDING_PRIORITIES


def lend_shuffling_and_lengths() -> None:
    """Wrap ``__init__`` and ``__len__`` of torch's loader, and ``__init__`` of torchdata's, which calls no other."""
    base: Any = DataLoader  # typed so that methods can be assigned
    for loader in (base, *base.__subclasses__()):
        _lend_shuffling(loader)
    base.__init_subclass__ = classmethod(_made)
    base.__len__ = _counting(base.__len__)


def _made(loader: Any, /, **given: Any) -> None:
    super(DataLoader, loader).__init_subclass__(**given)
    _lend_shuffling(loader)


# -- epochs ------------------------------------------------------------------------------------------------------------


def lend_epochs() -> None:
    """Wrap the constructor of the iterators of both loaders, which runs before they start their workers."""
    # The name is private. Without it, workers that are started for each epoch do not know its number.
    iterator: Any = vars(dataloader).get("_BaseDataLoaderIter")
    if iterator is not None:
        iterator.__init__ = _beginning(iterator.__init__)


def _beginning(by_torch: Callable[..., None]) -> Callable[..., None]:
    @wraps(by_torch)
    def __init__(self: Any, loader: Any, *args: Any, **given: Any) -> None:
        by_torch(self, loader, *args, **given)
        begin_epoch(loader, vars(self).get("_base_seed"))

    return __init__


# -- shuffle= ----------------------------------------------------------------------------------------------------------


def _lend_shuffling(loader: Any) -> None:
    """Wrap the constructor of torch's loader, or of torchdata's. A user's class calls torch's, which is wrapped."""
    by_itself = loader is DataLoader or loader.__module__.startswith("torchdata.")
    if by_itself and "__init__" in vars(loader):
        loader.__init__ = _shuffling(loader.__init__)


def _shuffling(by_torch: Callable[..., None]) -> Callable[..., None]:
    @wraps(by_torch)
    def __init__(
        self: Any, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, *args: Any, **given: Any
    ) -> None:
        if shuffle is not None and _is_graph(dataset):
            dataset, shuffle = _shuffled(dataset, bool(shuffle)), None
        by_torch(self, dataset, batch_size, shuffle, *args, **given)

    return __init__


def _is_graph(dataset: object) -> bool:
    """Return whether a dataset is a stream that contains a pipe of this library."""
    if not structure.is_pipe(dataset) or not structure.is_stream(dataset):
        return False
    return any(isinstance(stage, IterDataPipe | MapDataPipe) for stage in structure.walk(dataset))


def _shuffled(graph: structure.Pipe, shuffle: bool) -> structure.Pipe:
    """Return a copy of a graph with its shuffles switched on or off.

    Raise BadArgument if there is none to switch on.
    """
    if not any(map(is_shuffler, structure.walk(graph))):
        if shuffle:
            raise BadArgument(
                f"DataLoader(shuffle=True) switches on the shuffle() of a graph, and there is none in {graph!r}: put "
                ".shuffle() into the graph, above .sharding_filter() and .batch()"
            )
        return graph
    return apply_shuffle_settings(structure.unfold(graph), shuffle)


# -- len ---------------------------------------------------------------------------------------------------------------


def _counting(by_torch: Callable[[Any], int]) -> Callable[[Any], int]:
    @wraps(by_torch)
    def __len__(self: Any) -> int:
        parts = fields_of(self.dataset, max(1, self.num_workers)) if isinstance(self.dataset, IterDataPipe) else None
        if parts is None:
            return by_torch(self)
        size: int = self.batch_size or 1
        return sum(part // size if self.drop_last else -(-part // size) for part in parts)

    return __len__


def fields_of(graph: structure.Pipe, workers: int) -> list[int] | None:
    """Return the length of the shard of each worker of this rank, or None if the graph's own length applies.

    Stages below the ``sharding_filter`` round in each worker: 18 rows in batches of 4 are 5 batches, but 3 + 3 with two
    workers. A length that ``set_length`` or a user's class declares below the ``sharding_filter`` is used as it is.

    >>> from datapipes.iter import IterableWrapper
    >>> graph = IterableWrapper(range(18)).sharding_filter().batch(4)
    >>> len(graph), len(DataLoader(graph, batch_size=None, num_workers=2))
    (5, 6)
    """
    from datapipes.iter.elements.numbering import LengthSetter
    from datapipes.operator_support.checks import length_of

    stages, here = structure.walk(graph), ranks()
    sharded = set(chain(*(vars(stage).get("groups") or () for stage in stages)))  # by a call of apply_sharding
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
