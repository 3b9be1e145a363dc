"""Methods that group elements, take groups apart, or change their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from datapipes.elements.chunk import DataChunk
from datapipes.parts.sharding import SHARDING_PRIORITIES

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.iter.grouping.in_batch_shuffle import InBatchShuffler
    from datapipes.iter.grouping.shuffle import Shuffler
    from datapipes.iter.placement.shard import ShardingFilter

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")


class GroupingMethods(Generic[T_co]):
    """batch and its kin, unbatch, groupby, shuffle, in_batch_shuffle, sharding_filter and its kin, shard_expand."""

    @overload
    def batch(self, batch_size: int, drop_last: bool = False) -> IterDataPipe[list[T_co]]: ...
    @overload
    def batch(
        self, batch_size: int, drop_last: bool = False, *, wrapper_class: Callable[[list[T_co]], R]
    ) -> IterDataPipe[R]: ...
    @overload
    def batch(self, batch_size: int, drop_last: bool, wrapper_class: Callable[[list[T_co]], R]) -> IterDataPipe[R]: ...

    def batch(
        self, batch_size: int, drop_last: bool = False, wrapper_class: Callable[[list[Any]], Any] = DataChunk
    ) -> IterDataPipe[Any]:
        """Lists of ``batch_size`` elements.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2, drop_last=True))
        [[0, 1], [2, 3]]
        """
        from datapipes.iter.grouping.batch import Batcher

        return Batcher(self, batch_size, drop_last, wrapper_class)  # type: ignore[arg-type]  # self is an IterDataPipe

    def unbatch(self, unbatch_level: int = 1) -> IterDataPipe[Any]:
        """The elements of batches, one by one.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([[1, 2], [3]]).unbatch())
        [1, 2, 3]
        """
        from datapipes.iter.grouping.unbatch import UnBatcher

        return UnBatcher(self, unbatch_level)  # type: ignore[arg-type]  # self is an IterDataPipe

    @overload
    def shuffle(self, *, buffer_size: int = 10000) -> Shuffler[T_co]: ...
    @overload
    def shuffle(self, *, buffer_size: int = 10000, unbatch_level: int) -> Shuffler[Any]: ...

    def shuffle(self, *, buffer_size: int = 10000, unbatch_level: int = 0) -> Shuffler[Any]:
        """The elements in a random order, drawn from a buffer.

        >>> from datapipes.iter import IterableWrapper
        >>> sorted(IterableWrapper(range(5)).shuffle())
        [0, 1, 2, 3, 4]
        """
        from datapipes.iter.grouping.shuffle import Shuffler

        return Shuffler(self, buffer_size=buffer_size, unbatch_level=unbatch_level)  # type: ignore[arg-type]  # self is an IterDataPipe

    def sharding_filter(self, sharding_group_filter: SHARDING_PRIORITIES | None = None) -> ShardingFilter[T_co]:
        """The elements of this shard: all of them, until a loader or ``apply_sharding`` shards the graph here.

        >>> from datapipes.iter import IterableWrapper
        >>> from datapipes.graph import apply_sharding
        >>> list(apply_sharding(IterableWrapper(range(7)).sharding_filter(), 3, 1))
        [1, 4]
        """
        from datapipes.iter.placement.shard import ShardingFilter

        return ShardingFilter(self, sharding_group_filter)  # type: ignore[arg-type]  # self is an IterDataPipe

    def groupby(
        self,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int | None = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> IterDataPipe[Any]:
        """Lists of the elements that have one key.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(6)).groupby(lambda x: x % 2, group_size=2))
        [[0, 2], [1, 3], [4], [5]]
        """
        from datapipes.iter.grouping.groupby import Grouper

        return Grouper(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            group_key_fn,
            keep_key=keep_key,
            buffer_size=buffer_size,
            group_size=group_size,
            guaranteed_group_size=guaranteed_group_size,
            drop_remaining=drop_remaining,
        )

    def bucketbatch(
        self,
        batch_size: int,
        drop_last: bool = False,
        batch_num: int = 100,
        bucket_num: int = 1,
        sort_key: Callable[[list[Any]], Any] | None = None,
        use_in_batch_shuffle: bool = True,
    ) -> IterDataPipe[Any]:
        """Batches of elements that are near each other once a bucket of them is sorted.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["ccc", "a", "bb", "d"]).bucketbatch(2, sort_key=sorted, batch_num=2))
        [['a', 'bb'], ['ccc', 'd']]
        """
        from datapipes.iter.grouping.buckets import BucketBatcher

        return BucketBatcher(self, batch_size, drop_last, batch_num, bucket_num, sort_key, use_in_batch_shuffle)  # type: ignore[arg-type]  # self is an IterDataPipe

    def max_token_bucketize(
        self,
        max_token_count: int,
        len_fn: Callable[[Any], float] = len,
        min_len: int = 0,
        max_len: int | None = None,
        buffer_size: int = 1000,
        include_padding: bool = False,
    ) -> IterDataPipe[DataChunk[Any]]:
        """Batches of elements of similar length, with a limit on the sum of lengths.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["aaa", "bb", "ccc"]).max_token_bucketize(6))
        [['bb', 'aaa'], ['ccc']]
        """
        from datapipes.iter.grouping.buckets import MaxTokenBucketizer

        return MaxTokenBucketizer(self, max_token_count, len_fn, min_len, max_len, buffer_size, include_padding)  # type: ignore[arg-type]  # self is an IterDataPipe

    def in_batch_shuffle(self) -> InBatchShuffler:
        """The elements of each batch in a random order.

        >>> from datapipes.iter import IterableWrapper
        >>> [sorted(batch) for batch in IterableWrapper(range(5)).batch(3).in_batch_shuffle()]
        [[0, 1, 2], [3, 4]]
        """
        from datapipes.iter.grouping.in_batch_shuffle import InBatchShuffler

        return InBatchShuffler(self)  # type: ignore[arg-type]  # self is an IterDataPipe

    def lines_to_paragraphs(self, joiner: Callable[[list[Any]], Any] = "\n".join) -> IterDataPipe[tuple[Any, Any]]:
        """Neighbouring lines of one file joined, up to an empty one.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", "one"), ("a", "two"), ("b", "three")]).lines_to_paragraphs("+".join))
        [('a', 'one+two'), ('b', 'three')]
        """
        from datapipes.iter.grouping.paragraphs import ParagraphAggregator

        return ParagraphAggregator(self, joiner)  # type: ignore[arg-type]  # self is an IterDataPipe

    def shard_expand(self) -> IterDataPipe[str]:
        """Names with ranges in braces, spelled out.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a{1..2}{0..1}"]).shard_expand())
        ['a10', 'a11', 'a20', 'a21']
        """
        from datapipes.iter.sources.expand import ShardExpander

        return ShardExpander(self)  # type: ignore[arg-type]  # self is an IterDataPipe

    def sharding_round_robin_dispatch(
        self, sharding_group_filter: SHARDING_PRIORITIES | None = SHARDING_PRIORITIES.MULTIPROCESSING
    ) -> IterDataPipe[T_co]:
        """The same elements; what is above is run once for all worker processes, which take them in turn.

        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper("ab").sharding_round_robin_dispatch())
        ['a', 'b']
        """
        from datapipes.iter.placement.dispatch import ShardingRoundRobinDispatcher

        return ShardingRoundRobinDispatcher(self, sharding_group_filter)  # type: ignore[arg-type]  # self is an IterDataPipe

    def in_memory_cache(self, size: float | None = None) -> IterDataPipe[T_co]:
        """The same elements, made in the first whole pass and remembered for later ones; ``size`` is in megabytes.

        >>> from datapipes.iter import IterableWrapper
        >>> dp = IterableWrapper("a").map(lambda x: print("making", x) or x.upper()).in_memory_cache(size=100)
        >>> list(dp), list(dp)
        making a
        (['A'], ['A'])
        """
        from datapipes.iter.caching.in_memory import InMemoryCacheHolder

        return InMemoryCacheHolder(self, size)  # type: ignore[arg-type]  # self is an IterDataPipe
