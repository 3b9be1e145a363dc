"""The link between two processes: two pipes and shared memory.

A frame of elements consists of a pickle, the memory of its arrays (``transport.packing``) and a packed table. Large
parts go into the arena and are read there in place. Small parts, and parts for which the arena has no room, go through
the pipe. Between two machines a socket replaces the pipes, and there is no arena.

The main process and the dispatcher never wait for room in a pipe (``pipes``), because they have other links to serve.
A worker does wait, and the other side is sure to read its frames in the end.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from multiprocessing.reduction import DupFd
from typing import Any

from datapipes.errors import ProtocolError
from reading_services.workers.transport import arena
from reading_services.workers.transport.packing import LazyPickle, unpickled
from reading_services.workers.transport.pipes import Inbox, Outbox, Poller, pipe, until_ready
from reading_services.workers.transport.protocol import Close, Items, ToConsumer, ToProducer

_HEAD = struct.Struct("<I")
_THROUGH_THE_PIPE = 1 << 15
"""Frames of up to this many bytes go through the pipe, which holds them without a wait."""


class SharedFd:
    """A file descriptor that can be passed to a new process, whatever the start method is."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        return _received, (DupFd(self.fd),)


def _received(duplicate: Any) -> SharedFd:
    return SharedFd(duplicate.detach())


class SharedBytes:
    """Bytes that are passed to new processes through shared memory.

    As an argument the bytes would go through a pipe. The main process would wait until the new process has read them,
    and for ever if the new process ends before.
    """

    def __init__(self, data: bytes) -> None:
        self._size = len(data)
        self._file = SharedFd(os.memfd_create("loader2-graph", os.MFD_CLOEXEC))
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file.fd, rest) :]

    def read(self) -> Any:
        """Return the bytes, in memory that all processes share."""
        return mmap.mmap(self._file.fd, self._size, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Close this process's descriptor, after the last process is started or the bytes are read."""
        os.close(self._file.fd)


class PipeProducerEnd:
    """The end in the process that makes the elements."""

    def __init__(self, control: Inbox, elements: Outbox, memory: SharedFd | None) -> None:
        self.control = control
        self.elements = elements
        self._memory = memory

    def send(self, frame: ToConsumer, wait: bool = True) -> None:
        """Send a frame. Without ``wait``, ``elements`` keeps the bytes that the pipe has no room for."""
        message = self._packed(frame) if isinstance(frame, Items) else _HEAD.pack(0) + pickle.dumps(frame, 5)
        self.elements.put(message)
        self.elements.flush(wait)

    def _packed(self, frame: Items) -> bytes:
        """Pickle a frame. The frame must have the last references to its elements."""
        data, buffers = frame.body
        writer = self.writer
        offsets = [writer.reserved_at(buffer) for buffer in buffers]
        parts = [buffer for buffer, offset in zip(buffers, offsets, strict=True) if offset is None]
        with writer.lock:
            buffers.clear()  # a reserved slot is sent without a copy if no other reference to it is left
            places: list[Any] = [None if offset is None else writer.copy_kept_values(offset) for offset in offsets]
        rest = iter(parts)
        copied = [next(rest) if place is None else place for place in places if type(place) is not tuple]
        sizes = [len(data), *(part.nbytes for part in copied)]
        slot = writer.put([memoryview(data), *copied]) if sum(sizes) > _THROUGH_THE_PIPE else None
        places = [place if type(place) is tuple else None for place in places]
        above = frame.above.data if isinstance(frame.above, LazyPickle) else b""
        far = writer.put([memoryview(above)]) if len(above) > _THROUGH_THE_PIPE else None
        frame = replace(frame, body=None, above=frame.above if far is None else None)
        meta = pickle.dumps((frame, slot, sizes, places, far), 5)
        head = _HEAD.pack(len(meta)) + meta
        if slot is not None:
            return head
        if sum(sizes) <= _THROUGH_THE_PIPE:
            return b"".join([head, data, *copied])
        parts = [memoryview(head), memoryview(data), *copied]
        return b"".join(each for part in parts for each in (part, bytes(-part.nbytes % arena.ALIGNED)))

    @cached_property
    def writer(self) -> arena.Writer | arena.NoRoom:
        """The writer of the link's memory. A batch that is made in its slots is sent without a copy."""
        return arena.NoRoom() if self._memory is None else arena.Writer(self._memory.fd)

    def receive(self, wait: bool = True) -> ToProducer | None:
        message = self.control.get(wait)
        frame: ToProducer | None = None if message is None else pickle.loads(message)
        return frame

    def close(self) -> None:
        self.control.close()
        self.elements.close()


class PipeProducerEnds:
    """The ends of one producer's links with several consumers, by number. It waits for all of them at once."""

    def __init__(self, ends: list[PipeProducerEnd]) -> None:
        self._ends = {end.control.fileno(): (number, end) for number, end in enumerate(ends)}
        self._all = ends
        self._poller = Poller(self._ends, [end.elements for end in ends])

    def send(self, number: int, frame: ToConsumer) -> None:
        self._all[number].send(frame, wait=False)

    def receive(self, wait: bool) -> tuple[int, ToProducer] | None:
        """Return the next frame of any consumer. A consumer that has died counts as closed."""
        while self._ends:
            for fd in self._poller.wait(None if wait else 0):
                number, end = self._ends[fd]
                try:
                    frame = end.receive(wait=False)
                except (EOFError, OSError):
                    frame = Close()
                if isinstance(frame, Close):
                    self._poller.forget(fd, end.elements)
                    del self._ends[fd]
                if frame is not None:
                    return number, frame
            if not wait:
                return None
        raise EOFError("all consumers have ended")


class PipeConsumerEnd:
    """The end in the process that uses the elements."""

    def __init__(self, control: Outbox, elements: Inbox, memory: SharedFd | None) -> None:
        self.control = control
        self.elements = elements
        self._memory = memory
        self._mapped: mmap.mmap | None = None
        self.overflows = False
        """Whether elements came through the pipe because the shared memory was full."""

    def send(self, frame: ToProducer) -> None:
        """Send a frame. ``control`` keeps the bytes that the pipe has no room for."""
        self.control.put(pickle.dumps(frame, 5))
        self.control.flush()

    def receive(self) -> ToConsumer | None:
        """Return the next frame, or None if none is complete. Raise EOFError if the producer has ended."""
        message = self.elements.get()
        if message is None:
            return None
        (size,) = _HEAD.unpack_from(message)
        if not size:
            frame: ToConsumer = pickle.loads(message[_HEAD.size :])
            return frame
        start = _HEAD.size + size
        items, slot, sizes, places, far = pickle.loads(message[_HEAD.size : start])
        is_large = sum(sizes) > _THROUGH_THE_PIPE
        if slot is not None:
            memory = arena.leased(self.open_memory(), *slot)
        else:
            memory = message[arena.aligned(start) if is_large else start :]
            self.overflows |= is_large and self._memory is not None
        own = [None if place is None else arena.leased(self.open_memory(), *place) for place in places]
        body = _PackedItems(memory, sizes, own, aligned=is_large)
        above = items.above if far is None else LazyPickle(arena.leased(self.open_memory(), *far))
        whole: Items = replace(items, body=body, above=above)
        return whole

    def rest(self) -> list[ToConsumer]:
        """Return the complete frames that were not read yet."""
        frames: list[ToConsumer] = []
        with suppress(EOFError, OSError):
            while (frame := self.receive()) is not None:
                frames.append(frame)
        return frames

    def open_memory(self) -> mmap.mmap:
        """Map the shared memory. Its descriptor may be closed afterwards."""
        if self._mapped is None:
            if self._memory is None:
                raise ProtocolError("a message lies in shared memory, and this link has none")
            self._mapped = mmap.mmap(self._memory.fd, 0)
        return self._mapped

    def close(self) -> None:
        self.control.close()
        self.elements.close()


class BlockingConsumerEnd:
    """The end of a consumer that has a single link, and so may wait."""

    def __init__(self, end: PipeConsumerEnd) -> None:
        self._end = end

    def send(self, frame: ToProducer) -> None:
        self._end.send(frame)
        self._end.control.flush(wait=True)

    def receive(self) -> ToConsumer:
        """Return the next frame. Raise EOFError if the producer has ended."""
        while (frame := self._end.receive()) is None:
            until_ready(self._end.elements.fileno(), select.POLLIN)
        return frame


class _PackedItems:
    """The elements of a frame before they are unpickled."""

    __slots__ = ("_aligned", "_memory", "_own", "_sizes")

    def __init__(self, memory: memoryview, sizes: Sequence[int], own: list[Any], aligned: bool) -> None:
        self._memory = memory  # of the pickle, and of the arrays that have no slot of their own
        self._sizes = sizes
        self._own = own
        self._aligned = aligned

    def unpack(self) -> Any:
        """Return the elements. Their arrays use the memory of the frame."""
        parts = []
        at = 0
        for size in self._sizes:
            parts.append(self._memory[at : at + size])
            at += arena.aligned(size) if self._aligned else size
        data, *shared = parts
        if not self._aligned:
            shared = [memoryview(bytearray(buffer)) for buffer in shared]  # writable, and aligned
        rest = iter(shared)
        return unpickled(data, [next(rest) if buffer is None else buffer for buffer in self._own])


class Pair:
    """Both ends of a new link, to be passed to the processes at its ends."""

    def __init__(self, context: Any, arena_bytes: int) -> None:
        control_there, control_here = pipe(context)
        elements_here, elements_there = pipe(context)
        self._memory = arena.create(arena_bytes)
        self.consumer = PipeConsumerEnd(control_here, elements_here, SharedFd(self._memory))
        self.producer = PipeProducerEnd(control_there, elements_there, SharedFd(self._memory))

    def producer_started(self) -> None:
        """Close this process's copy of the producer's end, so that the producer's death closes the pipe."""
        self.producer.close()

    def consumer_started(self) -> None:
        """Close this process's copy of the consumer's end and of the memory."""
        self.consumer.close()
        os.close(self._memory)

    def consumer_is_here(self) -> None:
        """Map the memory for this process, which is the consumer, and close its descriptor."""
        self.consumer.open_memory()
        os.close(self._memory)
