"""bucketbatch, max_token_bucketize: batches of elements that are alike in size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from numbers import Real
from operator import index
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.elements.chunk import DataChunk
from datapipes.errors import BadArgument, StateError
from datapipes.operators.checks import needs, needs_callable, needs_count, whole_number
from datapipes.position.cells import Cell, fields
from datapipes.position.opening import Opening


@composed
def BucketBatcher(
    datapipe: IterDataPipe[Any],
    batch_size: int,
    drop_last: bool = False,
    batch_num: int = 100,
    bucket_num: int = 1,
    sort_key: Callable[[list[Any]], Any] | None = None,
    use_in_batch_shuffle: bool = True,
) -> IterDataPipe[Any]:
    """Batches of elements that are alike, out of buckets that are sorted; or of elements in a random order.

    Elements are shuffled, sorted within their bucket and put into batches, and the batches are shuffled. Without a
    ``sort_key`` there is only the first of these shuffles. It is a chain of ``batch``, ``in_batch_shuffle`` (or
    ``shuffle``), ``map`` and ``unbatch``.

    Args:
        batch_size: The number of elements in a batch.
        drop_last: Whether a last batch that is not full is left out.
        batch_num: The number of batches in a bucket: more make the elements of a batch more alike, and take more
            memory.
        bucket_num: How many buckets of elements are shuffled together before they are sorted, and how many batches
            afterwards. With 1 and a ``sort_key``, neither are shuffled.
        sort_key: A function that is given the elements of a bucket as a list, and returns them as a sorted list.
            ``None``: they are not sorted, and the elements of ``bucket_num`` buckets are shuffled together.
        use_in_batch_shuffle: Whether they are shuffled in one such group after the other. Otherwise they are drawn from
            a buffer: of as many elements, but of ``batch_size * batch_num`` batches, whatever ``bucket_num`` is.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([3, 1, 2, 9, 8, 7]).bucketbatch(3, batch_num=1, sort_key=sorted))
    [[1, 2, 3], [7, 8, 9]]
    """
    from datapipes.iter import Batcher, InBatchShuffler, Mapper, Shuffler, UnBatcher

    for name, number in (("batch_size", batch_size), ("batch_num", batch_num), ("bucket_num", bucket_num)):
        if whole_number(name, number, ".bucketbatch()") <= 0:
            raise BadArgument(f"{name} is required to be larger than 0, got {number}, in .bucketbatch()")
    needs_callable("bucketbatch", sort_key, or_none=True)

    def shuffled(dp: IterDataPipe[Any], within: int, buffer_size: int) -> IterDataPipe[Any]:
        return (
            UnBatcher(InBatchShuffler(Batcher(dp, within)))
            if use_in_batch_shuffle
            else Shuffler(dp, buffer_size=buffer_size)
        )

    bucket = batch_size * batch_num
    dp = datapipe
    if bucket_num > 1 or sort_key is None:
        dp = shuffled(dp, bucket * bucket_num, bucket * bucket_num)
    if sort_key is not None:
        dp = UnBatcher(Mapper(Batcher(dp, bucket), sort_key))
    dp = Batcher(dp, batch_size, drop_last)
    return dp if sort_key is None else shuffled(dp, bucket_num, bucket)


@operator
class MaxTokenBucketizer(IterDataPipe[DataChunk[Any]]):
    """Batches of elements of similar length, with a limited number of tokens.

    The shortest of the elements that wait joins the batch at hand, or begins the next one; of two of one length, the
    one that came first (torchdata left that open).

    Args:
        max_token_count: How many tokens a batch may have.
        len_fn: A function that gives the number of tokens of an element.
        min_len: Elements that are shorter are left out.
        max_len: Elements that are longer are left out; at most ``max_token_count``. ``None``: that number.
        buffer_size: How many elements wait to be the shortest: more make the elements of a batch more alike, and take
            more memory.
        include_padding: Whether each element counts as long as the longest of its batch, which it is once it is padded.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["aaa", "b", "cc", "d"]).max_token_bucketize(max_token_count=4))
    [['b', 'd', 'cc'], ['aaa']]
    """

    _fluent: ClassVar[str | None] = "max_token_bucketize"

    datapipe: IterDataPipe[Any]
    max_token_count: int
    len_fn: Callable[[Any], float] = len
    min_len: int = 0
    max_len: int | None = None
    buffer_size: int = 1000
    include_padding: bool = False

    def __post_init__(self) -> None:
        needs_callable("max_token_bucketize", self.len_fn)
        self._longest = self.max_token_count if self.max_len is None else self.max_len
        needs(0 <= self.min_len <= self._longest, self, "min_len should be 0 or more, and not exceed max_len")
        needs(self._longest <= self.max_token_count, self, "max_token_count must be equal to or greater than max_len")
        needs_count(self, "buffer_size", 1, "buffer_size should be larger than 0")

    def _open(self, at: Opening) -> Iterator[DataChunk[Any]]:
        return self._batches(at.source(self.datapipe), at.cell(lambda: _Bucket(self)))

    def _batches(self, source: Iterator[Any], bucket: _Bucket) -> Iterator[DataChunk[Any]]:
        for element in source:
            length: Any = self.len_fn(element)
            if type(length) is not int and not isinstance(length, Real):
                length = index(length)  # a tensor, or what else stands for a whole number
            if self.min_len <= length <= self._longest:
                bucket.put(length, element)
                if len(bucket.heap) >= self.buffer_size and (full := bucket.move_shortest()):
                    yield full
        while bucket.heap:
            if full := bucket.move_shortest():
                yield full
        if rest := bucket.begin_batch():
            yield rest


class _Bucket(Cell):
    """The elements that wait, shortest first, and the batch at hand.

    An element waits as (length, number of its arrival, element): no two are equal in the first two, so that elements
    are never compared.
    """

    def __init__(self, pipe: MaxTokenBucketizer) -> None:
        self.heap: list[tuple[Any, int, Any]] = []
        self._pipe = pipe
        self._arrived = 0
        self._batch: DataChunk[Any] = DataChunk()
        self._tokens: Any = 0
        self._longest: Any = 0

    def put(self, length: Any, element: Any) -> None:
        """Let an element wait."""
        heappush(self.heap, (length, self._arrived, element))
        self._arrived += 1

    def move_shortest(self) -> DataChunk[Any]:
        """Move an element into the batch at hand; one that it does not fit into is returned, and it begins the next."""
        length, _, element = heappop(self.heap)
        longest = max(self._longest, length)
        cost = longest * (len(self._batch) + 1) if self._pipe.include_padding else self._tokens + length
        full: DataChunk[Any] = self.begin_batch() if cost > self._pipe.max_token_count else DataChunk()
        self._batch.append(element)
        self._tokens += length
        self._longest = max(self._longest, length)
        return full

    def begin_batch(self) -> DataChunk[Any]:
        """The batch at hand, which is replaced by an empty one."""
        batch, self._batch, self._tokens, self._longest = self._batch, DataChunk(), 0, 0
        return batch

    def save(self) -> dict[str, Any] | None:
        if not self.heap and not self._batch:
            return None
        waiting = [[length, element] for length, _, element in sorted(self.heap, key=lambda entry: entry[:2])]
        return {"packed": self.encode([waiting, list(self._batch), self._tokens, self._longest])}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        (packed,) = fields(saved, "packed")
        match self.decode_list(packed):
            case [list() as waiting, list() as batch, Real() as tokens, Real() as longest]:
                self._batch, self._tokens, self._longest = DataChunk(batch), tokens, longest
            case found:
                raise StateError(f"packed: expected what waits and a batch, found {found!r:.80}")
        for entry in waiting:
            match entry:
                case [Real() as length, element]:
                    self.put(length, element)
                case _:
                    raise StateError(f"packed: expected [length, element], found {entry!r:.80}")

    def close(self) -> None:
        self.heap.clear()
        self._batch.clear()
