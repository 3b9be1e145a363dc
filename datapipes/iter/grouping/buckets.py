"""bucketbatch, max_token_bucketize: batches of elements of similar size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from numbers import Real
from operator import index
from typing import Any, ClassVar

from datapipes.description.pipe import IterDataPipe, composed, operator
from datapipes.elements.chunk import DataChunk
from datapipes.errors import BadArgument, StateError
from datapipes.operator_support.checks import needs, needs_callable, needs_count, whole_number
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
    """Batches of similar elements from sorted buckets, or of elements in a random order.

    Elements are shuffled, sorted within their bucket and batched; then the batches are shuffled. Without a
    ``sort_key`` there is only the first shuffle. It is a chain of ``batch``, ``in_batch_shuffle`` (or ``shuffle``),
    ``map`` and ``unbatch``.

    Args:
        batch_size: The number of elements in a batch.
        drop_last: Whether to leave out a last batch that is not full.
        batch_num: The number of batches in a bucket: a larger one makes the elements of a batch more similar, but needs
            more memory.
        bucket_num: Number of buckets whose elements are shuffled together before sorting, and of batches shuffled
            together afterwards. With 1 and a ``sort_key``, neither are shuffled.
        sort_key: A function of the list of a bucket's elements that returns them as a sorted list. ``None``: they are
            not sorted, and the elements of ``bucket_num`` buckets are shuffled together.
        use_in_batch_shuffle: Whether to shuffle within one such group after another. Otherwise they are drawn from a
            buffer: of as many elements, but of ``batch_size * batch_num`` batches for any ``bucket_num``.

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

    The shortest waiting element joins the current batch, or begins the next one; of two of equal length, the one that
    came first.

    Args:
        max_token_count: Most tokens in a batch.
        len_fn: A function that returns the number of tokens of an element.
        min_len: Shorter elements are left out.
        max_len: Longer elements are left out; at most ``max_token_count``. ``None``: that number.
        buffer_size: Number of waiting elements: a larger one makes the elements of a batch more similar, but needs
            more memory.
        include_padding: Whether each element counts as long as the longest of its batch, as it is after padding.

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
        return self._batches(at.source(self.datapipe), at.cell(lambda: _BucketCell(self)), at)

    def _batches(self, source: Iterator[Any], bucket: _BucketCell, at: Opening) -> Iterator[DataChunk[Any]]:
        bucket.begin()
        least = self.buffer_size  # number of waiting elements from which on one of them is moved
        while least or bucket.heap:
            while bucket.heap and len(bucket.heap) >= least:
                if bucket.is_full():
                    full = bucket.made()
                    bucket.earlier, bucket.moved = _EMPTY, []  # from here on without a call, until it is handed on
                    bucket.tokens = bucket.longest = 0
                    yield full
                bucket.move_shortest()
            for element in source:
                try:
                    length: Any = self.len_fn(element)
                    if type(length) is not int and not isinstance(length, Real):
                        length = index(length)  # a tensor, or another object that stands for a whole number
                    fits = self.min_len <= length <= self._longest
                except BaseException as error:
                    at.keep(element, error)
                    raise
                if fits:
                    bucket.arrived += 1
                    heappush(bucket.heap, (length, bucket.arrived, element))
                    break
            else:
                least = 0
        if len(bucket):
            rest = bucket.made()
            bucket.earlier, bucket.moved = _EMPTY, []
            yield rest


_EMPTY: tuple[list[Any], Any, Any] = ([], 0, 0)


class _BucketCell(Cell):
    """Waiting elements, shortest first, and the current batch.

    An element waits as (length, number of its arrival, element): no two are equal in the first two, so that elements
    are never compared.
    """

    def __init__(self, pipe: MaxTokenBucketizer) -> None:
        self.heap: list[tuple[Any, int, Any]] = []
        self.arrived = 0
        self.earlier = _EMPTY  # of the current batch: loaded elements, their tokens, and the longest
        self.moved: list[tuple[Any, int, Any]] = []  # and the entries moved into it since
        self.tokens: Any = 0
        self.longest: Any = 0
        self._pipe = pipe

    def begin(self) -> None:
        """Count the tokens of the current batch: an interruption may have come before this was done."""
        _, self.tokens, self.longest = self.earlier
        for length, _, _ in self.moved:
            self.tokens += length
            self.longest = max(self.longest, length)

    def __len__(self) -> int:
        return len(self.earlier[0]) + len(self.moved)

    def is_full(self) -> bool:
        """Return whether the shortest waiting element does not fit into the current batch."""
        length = self.heap[0][0]
        padded = max(self.longest, length) * (len(self) + 1)
        return bool((padded if self._pipe.include_padding else self.tokens + length) > self._pipe.max_token_count)

    def move_shortest(self) -> None:
        """Move the shortest waiting element into the current batch."""
        length = self.heap[0][0]
        longest = max(self.longest, length)
        self.moved.extend(map(heappop, (self.heap,)))  # one call: a signal arrives before or after it
        self.tokens += length
        self.longest = longest

    def made(self) -> DataChunk[Any]:
        """Return the current batch."""
        return DataChunk([*self.earlier[0], *(element for _, _, element in self.moved)])

    def save(self) -> dict[str, Any] | None:
        if not self.heap and not len(self):
            return None
        self.begin()
        waiting = [[length, element] for length, _, element in sorted(self.heap, key=lambda entry: entry[:2])]
        return {"packed": self.encode([waiting, list(self.made()), self.tokens, self.longest])}

    def load(self, saved: Any) -> None:
        if saved is None:
            return
        (packed,) = fields(saved, "packed")
        match self.decode_list(packed):
            case [list() as waiting, list() as batch, Real() as tokens, Real() as longest]:
                self.earlier = batch, tokens, longest
            case found:
                raise StateError(f"packed: expected waiting elements and a batch, found {found!r:.80}")
        for entry in waiting:
            match entry:
                case [Real() as length, element]:
                    self.arrived += 1
                    heappush(self.heap, (length, self.arrived, element))
                case _:
                    raise StateError(f"packed: expected [length, element], found {entry!r:.80}")

    def close(self) -> None:
        self.heap.clear()
        self.earlier, self.moved = _EMPTY, []
