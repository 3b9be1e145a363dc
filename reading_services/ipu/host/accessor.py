"""AsynchronousDataAccessor: a dataset iterated ahead in a process of its own.

One process makes the elements and keeps at most ``buffer_size`` of them ready. It waits for a free slot, and its
consumer waits for an element; neither side polls. The elements come in the order in which they were made. Epochs never
mix: the elements of an epoch that the consumer leaves early are dropped, and the next epoch begins at its first one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing import util
from typing import Any, Self

from torch.utils.data import Dataset

from datapipes.errors import BadArgument, FetchFailed, WorkerDied
from datapipes.position.seeds import draw_default_seed
from reading_services.ipu.host.feed import Feed
from reading_services.ipu.host.sources import Plain, Sourced
from reading_services.ipu.names.custom_types import rebuilt
from reading_services.ipu.names.enums import SharingStrategy
from reading_services.ipu.names.errors import Error
from reading_services.workers.transport.protocol import Consumer, Failed, Items, ToConsumer, Widen, Window, WorkerEnd


class AsynchronousDataAccessor(Iterator[Any]):
    """Iterator over a dataset in a process of its own, some elements ahead.

    An element is a tensor, or tensors in dicts, lists, tuples and objects of registered types (PopTorch allows no
    nesting). All elements must be like the first. A step may be kept: its memory is used again when its last reference
    is gone (PopTorch lends it until the next step).

    ``iter()`` after a whole epoch begins the next one. In the middle of an epoch, it drops the rest and begins the next
    one. A second ``iter()`` before the first element does nothing. An accessor is one iterator: two loops at the same
    time take elements from each other.

    Args:
        dataset: The dataset to iterate: one of torch, by index or as a stream, another iterable, or a ``DataLoader``
            in mode Sync.
        buffer_size: The largest number of elements that are kept ready, each with its memory; at least 1.
        miss_sleep_time_in_ms: Accepted as in PopTorch; it has no effect.
        load_indefinitely: Make the next epoch ahead, before the accessor is iterated again. ``False`` begins it when
            the accessor is iterated again.
        early_preload: Make all ``buffer_size`` elements before the first ``iter()``. ``False`` makes one.
        sharing_strategy: The transport of the dataset into the process. Fork copies this process, ForkServer a small
            one. SharedMemory and FileSystem start a new one; FileSystem puts the pickle into a temporary file. All but
            Fork pickle the dataset, and need the entry point of a script to be guarded by
            ``if __name__ == "__main__":``.
        rebatched_size: The number of rows of each element, at least 2; rows are regrouped. An incomplete last element
            is dropped, unless a ``DataLoader`` keeps it (``drop_last=False``). ``None``: the dataset's own elements.
    """

    def __init__(
        self,
        dataset: Iterable[Any] | Dataset[Any] | Sourced,
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
    ) -> None:
        if rebatched_size is not None and rebatched_size <= 1:
            raise BadArgument(f"rebatched_size={rebatched_size}: it must be None or greater than 1")
        if buffer_size < 1:
            raise BadArgument(f"buffer_size={buffer_size}: the accessor needs at least one slot")
        known = dataset if isinstance(dataset, Sourced) else Plain(dataset)
        source = known.source(rebatched_size)
        self._dataset = dataset
        self._length = source.__len__
        self._buffer_size = buffer_size
        self._load_indefinitely = load_indefinitely
        self._wide = Window(buffer_size, small=0, messages=0, most=1 << 62)
        self._consumer = Consumer()
        self._arrived: deque[ToConsumer] = deque()
        self._held: Items | None = None
        self._like: Any = None
        self._epoch = 0
        self._asked = False  # whether an iteration has begun
        self._used = False  # whether the current iteration has given an element
        self._at_end = False
        window = self._wide if early_preload else Window(1, small=0, messages=0, most=1 << 62)
        seed = draw_default_seed() if source.seed is None else source.seed
        self._feed = Feed(source, SharingStrategy(sharing_strategy), window, load_indefinitely, seed)
        # The interpreter also calls it at its exit, before it waits for its child processes.
        self._finalizer: Any = util.Finalize(self, _end, (self._feed, self._consumer), exitpriority=100)
        self._feed.send(self._consumer.open(self._epoch))
        self._arrived.appendleft(self._next("worker thread failed to start", Error))

    @property
    def slots(self) -> tuple[bool, ...]:
        """For each slot, whether it holds an element that is ready. The True ones come first."""
        try:
            while not self._feed.closed and (frame := self._feed.receive(wait=False)) is not None:
                self._keep(frame)
        except WorkerDied:
            pass  # the next call of next() raises it
        ready = sum(frame.count for frame in self._arrived if isinstance(frame, Items))
        return (True,) * ready + (False,) * (self._buffer_size - ready)

    def __len__(self) -> int:
        return self._length()

    def __iter__(self) -> Self:
        self._must_live()
        if not self._asked:
            self._asked = True
            self._feed.send(Widen(self._wide))
        elif self._at_end or self._used:
            self._give_back()
            self._epoch += 1
            if not (self._at_end and self._load_indefinitely):
                self._arrived.clear()
                self._feed.send(self._consumer.open(self._epoch))
        self._used = self._at_end = False
        return self

    def __next__(self) -> Any:
        self._must_live()
        if not self._asked:
            iter(self)
        self._used = True
        self._give_back()
        if self._at_end:
            raise StopIteration
        frame = self._next("An error occurred in the data fetcher", FetchFailed)
        if isinstance(frame, Items) and frame.count:
            return self._element(frame)
        self._at_end = True
        if isinstance(frame, Items):
            self._used_up(frame)
        raise StopIteration

    def _element(self, frame: Items) -> Any:
        like, tensors = frame.body.unpack()
        if like is not None:
            self._like = like
        self._held = frame
        return rebuilt(self._like, tensors)

    def _next(self, failed: str, kind: type[Exception]) -> ToConsumer:
        """Return the next frame of the current opening. At a death or failure, close and raise an error of ``kind``."""
        try:
            while not self._arrived:
                frame = self._feed.receive()
                if frame is not None:
                    self._keep(frame)
            found = self._arrived.popleft()
        except WorkerDied as death:
            self.terminate()
            raise kind(f"{failed}: {death}") from death
        if isinstance(found, Failed | WorkerEnd):
            self.terminate()
            error = found.error.error()
            raise kind(f"{failed}: {type(error).__name__}: {error}{error.__cause__}") from error
        return found

    def _keep(self, frame: ToConsumer) -> None:
        current = frame if isinstance(frame, WorkerEnd) else self._consumer.receive(frame)
        if current is not None:
            self._arrived.append(current)

    def _give_back(self) -> None:
        """Free the slot of the last step that the caller got."""
        held, self._held = self._held, None
        if held is not None:
            self._used_up(held)

    def _used_up(self, frame: Items) -> None:
        credit = self._consumer.used_up(frame)
        if credit is not None:
            self._feed.send(credit)

    def _must_live(self) -> None:
        if self._feed.closed:
            raise FetchFailed(
                "An error occurred in the data fetcher, or terminate() was called: the accessor is closed"
            )

    def terminate(self) -> None:
        """End the process. A second call does nothing. Steps that the caller keeps stay valid."""
        self._finalizer()


def _end(feed: Feed, consumer: Consumer) -> None:
    feed.close(consumer.close())
