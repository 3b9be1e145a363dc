"""AsynchronousDataAccessor: a dataset iterated ahead in a process of its own.

One process makes the elements and keeps at most ``buffer_size`` of them ready; it waits for a slot as its consumer
waits for an element, and neither of them ever polls. The elements come in the order in which they were made. Epochs
never mix: what was made of an epoch that is left early is dropped, and the next one begins at its first element.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing import util
from typing import Any, Self

import torch
from torch.utils.data import Dataset

from datapipes.errors import BadArgument, FetchFailed, WorkerDied
from reading_services.ipu.host.feed import Feed
from reading_services.ipu.host.sources import Plain, Sourced
from reading_services.ipu.names.custom_types import rebuilt
from reading_services.ipu.names.enums import SharingStrategy
from reading_services.ipu.names.errors import Error
from reading_services.workers.transport.protocol import Consumer, Failed, Items, ToConsumer, Widen, Window


class AsynchronousDataAccessor(Iterator[Any]):
    """Iterate a dataset in a process of its own, some elements ahead.

    An element is a tensor, or tensors in dicts, lists, tuples and objects of registered types (PopTorch allows no
    nesting); all must be like the first. A step may be kept: the memory it lies in is used again when its last
    reference is gone (PopTorch lends it until the next one).

    Iterating again after a whole epoch goes on with the next one; in the middle of one it begins the next at its first
    element; twice in a row it does nothing. An accessor is one iterator: two loops at once take elements from each
    other.

    Args:
        dataset: What is iterated: a dataset of torch, by index or a stream, any other iterable, or a ``DataLoader`` in
            mode Sync.
        buffer_size: How many elements are kept ready at most, each with its memory; one at least.
        miss_sleep_time_in_ms: Taken for PopTorch's sake; nobody sleeps.
        load_indefinitely: Whether the next epoch is made ahead without being asked for. ``False`` begins it when the
            accessor is iterated again.
        early_preload: Whether all of ``buffer_size`` elements are made ahead of the first ``iter()``. ``False`` makes
            one.
        sharing_strategy: How the dataset gets into the process: Fork starts that as a copy of this one, ForkServer as a
            copy of a small one, SharedMemory and FileSystem anew, the latter with the pickle in a temporary file. But
            for Fork the dataset is pickled, and a script has to guard its entry point with
            ``if __name__ == "__main__":``.
        rebatched_size: How many rows each element is to have, 2 at least; rows are regrouped for that. An incomplete
            last element is left out, unless a ``DataLoader`` is told to keep it (``drop_last=False``). ``None``:
            elements are as the dataset gives them.
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
        self._asked = False  # whether any iteration was asked for
        self._used = False  # whether anything was taken of the current one
        self._at_end = False
        window = self._wide if early_preload else Window(1, small=0, messages=0, most=1 << 62)
        seed = source.seed
        if seed is None:
            seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_().item())
        self._feed = Feed(source, SharingStrategy(sharing_strategy), window, load_indefinitely, seed)
        # It is also called before the interpreter waits for the processes that it has started.
        self._finalizer: Any = util.Finalize(self, _end, (self._feed, self._consumer), exitpriority=100)
        self._feed.send(self._consumer.open(self._epoch))
        self._arrived.appendleft(self._next("worker thread failed to start", Error))

    @property
    def slots(self) -> tuple[bool, ...]:
        """For each slot, whether it holds an element that is ready to be taken; those that do come first."""
        try:
            while not self._feed.closed and (frame := self._feed.receive(wait=False)) is not None:
                self._keep(frame)
        except WorkerDied:
            pass  # whoever asks for the next element is told
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
        """The next message of the current opening; where there will be none, all ends with an error of this kind."""
        try:
            while not self._arrived:
                frame = self._feed.receive()
                if frame is not None:
                    self._keep(frame)
            found = self._arrived.popleft()
        except WorkerDied as death:
            self.terminate()
            raise kind(f"{failed}: {death}") from death
        if isinstance(found, Failed):
            self.terminate()
            error = found.error.error()
            raise kind(f"{failed}: {type(error).__name__}: {error}{error.__cause__}") from error
        return found

    def _keep(self, frame: ToConsumer) -> None:
        current = self._consumer.receive(frame)
        if current is not None:
            self._arrived.append(current)

    def _give_back(self) -> None:
        """Free the slot of the step that was handed out last."""
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
                "An error occurred in the data fetcher, or terminate() was called: it does not run any more"
            )

    def terminate(self) -> None:
        """End the process; calling it again does nothing. Steps that were handed out stay valid."""
        self._finalizer()


def _end(feed: Feed, consumer: Consumer) -> None:
    feed.close(consumer.close())
