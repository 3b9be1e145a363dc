"""The link between two processes: two pipes, and memory that both see.

A message of elements is a pickle and the memory of its arrays (``transport.packing``), and a position that its maker
has packed. What is large goes into the arena and is read there in place; what is small, and what finds no room there,
goes through the pipe. Between two machines there is no such memory, and a socket takes the place of the pipes.

One side of every link never waits for room in a pipe (``pipes``): the process at home, and the dispatcher, which
have others to listen to meanwhile. So a worker, which does wait for room, is sure to be read in the end.
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
from reading_services.workers.transport.packing import Packed, unpickled
from reading_services.workers.transport.pipes import Inbox, Outbox, Poller, pipe, until_ready
from reading_services.workers.transport.protocol import START, Close, Failed, Items, ToConsumer, ToProducer

_HEAD = struct.Struct("<I")
_THROUGH_THE_PIPE = 1 << 15
"""Messages up to so many bytes go through the pipe, which holds them without a wait."""


class SharedFd:
    """A file descriptor that can be given to a process when it is started, however it is started."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        return _received, (DupFd(self.fd),)


def _received(duplicate: Any) -> SharedFd:
    return SharedFd(duplicate.detach())


class SharedBytes:
    """Bytes that processes are given when they are started.

    As an argument they would go through a pipe, which holds up whoever starts a process until that has read them, and
    for ever if it ends before.
    """

    def __init__(self, data: bytes) -> None:
        self._size = len(data)
        self._file = SharedFd(os.memfd_create("loader2-graph", os.MFD_CLOEXEC))
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file.fd, rest) :]

    def read(self) -> Any:
        """The bytes, in memory that all who read them share."""
        return mmap.mmap(self._file.fd, self._size, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Close this process's copy, when nobody is started any more, or the bytes were read."""
        os.close(self._file.fd)


class ProducerEnd:
    """The end in the process that makes elements."""

    def __init__(self, control: Inbox, elements: Outbox, memory: SharedFd | None) -> None:
        self.control = control
        self.elements = elements
        self._memory = memory

    def send(self, frame: ToConsumer, wait: bool = True) -> None:
        """Send a message. Without a wait ``elements`` keeps what the pipe has no room for."""
        message = self._packed(frame) if isinstance(frame, Items) else _HEAD.pack(0) + pickle.dumps(frame, 5)
        self.elements.put(message)
        self.elements.flush(wait)

    def _packed(self, frame: Items) -> bytes:
        """Pickle a message; its elements must be nobody's but the message's by now."""
        data, buffers = frame.body
        writer = self.writer
        offsets = [writer.reserved_at(buffer) for buffer in buffers]
        parts = [buffer for buffer, offset in zip(buffers, offsets, strict=True) if offset is None]
        with writer.lock:
            buffers.clear()  # what lies in slots of its own is handed over, unless somebody else refers to it
            places: list[Any] = [None if offset is None else writer.hand_over(offset) for offset in offsets]
        rest = iter(parts)
        copied = [next(rest) if place is None else place for place in places if type(place) is not tuple]
        sizes = [len(data), *(part.nbytes for part in copied)]
        slot = writer.put([memoryview(data), *copied]) if sum(sizes) > _THROUGH_THE_PIPE else None
        places = [place if type(place) is tuple else None for place in places]
        above = frame.above.data if isinstance(frame.above, Packed) else b""
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
        """The memory of the link: a batch that is made in it travels as it is."""
        return arena.NoRoom() if self._memory is None else arena.Writer(self._memory.fd)

    def receive(self, wait: bool = True) -> ToProducer | None:
        message = self.control.get(wait)
        frame: ToProducer | None = None if message is None else pickle.loads(message)
        return frame

    def close(self) -> None:
        self.control.close()
        self.elements.close()


class ProducerEnds:
    """The ends of one producer with several consumers, by number: it never waits for one of them alone."""

    def __init__(self, ends: list[ProducerEnd]) -> None:
        self._ends = {end.control.fileno(): (number, end) for number, end in enumerate(ends)}
        self._all = ends
        self._poller = Poller(self._ends, [end.elements for end in ends])

    def send(self, number: int, frame: ToConsumer) -> None:
        self._all[number].send(frame, wait=False)

    def receive(self, wait: bool) -> tuple[int, ToProducer] | None:
        """The next message of anybody; a consumer that has gone without a word counts as one that closes."""
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
        raise EOFError("all consumers have gone")

    def finish(self) -> None:
        """Wait until all has been written, or nobody is there to read it."""
        self._poller.flush()


class ConsumerEnd:
    """The end in the process that uses the elements."""

    def __init__(self, control: Outbox, elements: Inbox, memory: SharedFd | None) -> None:
        self.control = control
        self.elements = elements
        self._memory = memory
        self._mapped: mmap.mmap | None = None
        self.overflows = False
        """Whether elements have come through the pipe because the memory was full."""

    def send(self, frame: ToProducer) -> None:
        """Send a message; ``control`` keeps what the pipe has no room for."""
        self.control.put(pickle.dumps(frame, 5))
        self.control.flush()

    def receive(self) -> ToConsumer | None:
        """The next message; None if none has come to its end yet. EOFError if there will be none."""
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
        body = _Body(memory, sizes, own, aligned=is_large)
        above = items.above if far is None else Packed(arena.leased(self.open_memory(), *far))
        whole: Items = replace(items, body=body, above=above)
        return whole

    def failure_at_start(self) -> BaseException | None:
        """The error that kept the producer from starting, if it has told one; what else it has sent is dropped."""
        with suppress(EOFError, OSError):
            while (frame := self.receive()) is not None:
                if isinstance(frame, Failed) and frame.opening == START:
                    error: BaseException = frame.error.error()
                    return error
        return None

    def open_memory(self) -> mmap.mmap:
        """Map the shared memory; afterwards its descriptor may be closed."""
        if self._mapped is None:
            if self._memory is None:
                raise ProtocolError("a message lies in shared memory, and this link has none")
            self._mapped = mmap.mmap(self._memory.fd, 0)
        return self._mapped

    def close(self) -> None:
        self.control.close()
        self.elements.close()


class Awaited:
    """The consumer's end for somebody who talks to nobody else meanwhile, and so may wait."""

    def __init__(self, end: ConsumerEnd) -> None:
        self._end = end

    def send(self, frame: ToProducer) -> None:
        self._end.send(frame)
        self._end.control.flush(wait=True)

    def receive(self) -> ToConsumer:
        """The next message; EOFError if there will be none."""
        while (frame := self._end.receive()) is None:
            until_ready(self._end.elements.fileno(), select.POLLIN)
        return frame


class _Body:
    """Elements that have come and are not yet unpacked."""

    __slots__ = ("_aligned", "_memory", "_own", "_sizes")

    def __init__(self, memory: memoryview, sizes: Sequence[int], own: list[Any], aligned: bool) -> None:
        self._memory = memory  # of the pickle, and of the arrays that have no slot of their own
        self._sizes = sizes
        self._own = own
        self._aligned = aligned

    def unpack(self) -> Any:
        """The elements; their arrays lie in the memory that came."""
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
    """Both ends of a new link, made to be given to the processes at its ends."""

    def __init__(self, context: Any, arena_bytes: int) -> None:
        control_there, control_here = pipe(context)
        elements_here, elements_there = pipe(context)
        self._memory = arena.create(arena_bytes)
        self.consumer = ConsumerEnd(control_here, elements_here, SharedFd(self._memory))
        self.producer = ProducerEnd(control_there, elements_there, SharedFd(self._memory))

    def producer_started(self) -> None:
        """Close this process's copy of what the producer was given: its death is noticed by that."""
        self.producer.close()

    def consumer_started(self) -> None:
        """Close this process's copy of what the consumer was given, and of the memory."""
        self.consumer.close()
        os.close(self._memory)

    def consumer_is_here(self) -> None:
        """Keep what this process needs as the consumer."""
        self.consumer.open_memory()
        os.close(self._memory)
