"""Methods that group elements, take groups apart, or change their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from datapipes.chunk import DataChunk

if TYPE_CHECKING:
    from datapipes.iter.shard import ShardingFilter
    from datapipes.iter.shuffle import Shuffler
    from datapipes.pipe import IterDataPipe
    from datapipes.sharding import SHARDING_PRIORITIES

T_co = TypeVar("T_co", covariant=True)


class GroupingMethods(Generic[T_co]):
    """batch, unbatch, shuffle, sharding_filter."""

    def batch(
        self, batch_size: int, drop_last: bool = False, wrapper_class: Callable[[list[Any]], Any] = DataChunk
    ) -> IterDataPipe[Any]:
        """Lists of ``batch_size`` elements.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2, drop_last=True))
        [[0, 1], [2, 3]]
        """
        from datapipes.iter.batch import Batcher

        return Batcher(self, batch_size, drop_last, wrapper_class)  # type: ignore[arg-type]  # self is an IterDataPipe

    def unbatch(self, unbatch_level: int = 1) -> IterDataPipe[Any]:
        """The elements of batches, one by one.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([[1, 2], [3]]).unbatch())
        [1, 2, 3]
        """
        from datapipes.iter.unbatch import UnBatcher

        return UnBatcher(self, unbatch_level)  # type: ignore[arg-type]  # self is an IterDataPipe

    def shuffle(self, *, buffer_size: int = 10000, unbatch_level: int = 0) -> Shuffler[T_co]:
        """The elements in a random order, drawn from a buffer.

        >>> from datapipes.iter import IterableWrapper
        >>> sorted(IterableWrapper(range(5)).shuffle())
        [0, 1, 2, 3, 4]
        """
        from datapipes.iter.shuffle import Shuffler

        return Shuffler(self, buffer_size=buffer_size, unbatch_level=unbatch_level)  # type: ignore[arg-type]  # self is an IterDataPipe

    def sharding_filter(self, sharding_group_filter: SHARDING_PRIORITIES | None = None) -> ShardingFilter[T_co]:
        """The elements of this shard: all of them, until a loader or ``apply_sharding`` shards the graph here.

        >>> from datapipes.iter import IterableWrapper
        >>> from datapipes.graph import apply_sharding
        >>> list(apply_sharding(IterableWrapper(range(7)).sharding_filter(), 3, 1))
        [1, 4]
        """
        from datapipes.iter.shard import ShardingFilter

        return ShardingFilter(self, sharding_group_filter)  # type: ignore[arg-type]  # self is an IterDataPipe
