"""The link between two processes: two pipes, and memory that both see.

A frame of elements is a pickle and the memory of its arrays (``workers.packing``). What is large goes into the arena
and is read there in place; what is small, and what finds no room there, goes through the pipe.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import threading
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from queue import SimpleQueue
from typing import Any

from reading_services.workers import arena
from reading_services.workers.packing import unpack
from reading_services.workers.protocol import Close, Items, ToConsumer, ToProducer

_HEAD = struct.Struct("<I")
_THROUGH_THE_PIPE = 1 << 15
"""Frames up to so many bytes go through the pipe, which holds them without a wait."""


class SharedFd:
    """A file descriptor that can be given to a process when it is started, however it is started."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        return _received, (DupFd(self.fd),)


def _received(duplicate: Any) -> SharedFd:
    return SharedFd(duplicate.detach())


class ProducerEnd:
    """The end in the process that makes elements."""

    def __init__(self, control: Connection, elements: Connection, memory: SharedFd) -> None:
        self._control = control
        self._elements = elements
        self._memory = memory
        self._writer: arena.Writer | None = None
        self._ready: select.poll | None = None

    def send(self, frame: ToConsumer) -> None:
        if isinstance(frame, Items):
            self._elements.send_bytes(self._packed(frame))
        else:
            self._elements.send_bytes(_HEAD.pack(0) + pickle.dumps(frame, 5))

    def _packed(self, frame: Items) -> bytes:
        """A frame as a message; its elements must be nobody's but the frame's by now."""
        data, buffers = frame.body
        writer = self._arena()
        offsets = [writer.reserved_at(buffer) for buffer in buffers]
        parts = [buffer for buffer, offset in zip(buffers, offsets, strict=True) if offset is None]
        buffers.clear()  # what lies in slots of its own is handed over, unless somebody else refers to it
        places: list[Any] = [None if offset is None else writer.hand_over(offset) for offset in offsets]
        rest = iter(parts)
        copied = [next(rest) if place is None else place for place in places if type(place) is not tuple]
        sizes = [len(data), *(part.nbytes for part in copied)]
        slot = writer.put([memoryview(data), *copied]) if sum(sizes) > _THROUGH_THE_PIPE else None
        places = [place if type(place) is tuple else None for place in places]
        meta = pickle.dumps((replace(frame, body=None), slot, sizes, places), 5)
        head = _HEAD.pack(len(meta)) + meta
        return head if slot is not None else b"".join([head, data, *copied])

    def allocate(self, size: int) -> memoryview | None:
        """Memory for a batch, in which it can travel."""
        return self._arena().reserve(size)

    def _arena(self) -> arena.Writer:
        if self._writer is None:
            self._writer = arena.Writer(self._memory.fd)
        return self._writer

    def fileno(self) -> int:
        """What becomes readable when a frame has come, or when there will be none."""
        return self._control.fileno()

    def receive(self, wait: bool = True) -> ToProducer | None:
        if self._ready is None:
            self._ready = select.poll()
            self._ready.register(self._control.fileno(), select.POLLIN)
        if not wait and not self._ready.poll(0):
            return None
        frame: ToProducer = pickle.loads(self._control.recv_bytes())
        return frame

    def close(self) -> None:
        self._control.close()
        self._elements.close()


class ProducerEnds:
    """The ends of one producer with several consumers, by number."""

    def __init__(self, ends: list[ProducerEnd]) -> None:
        self._ends = ends
        self._ready = select.poll()
        self._numbers = {end.fileno(): number for number, end in enumerate(ends)}
        for fd in self._numbers:
            self._ready.register(fd, select.POLLIN)

    def send(self, number: int, frame: ToConsumer) -> None:
        self._ends[number].send(frame)

    def receive(self, wait: bool) -> tuple[int, ToProducer] | None:
        """The next frame of anybody; a consumer that has gone without a word counts as one that closes."""
        if not self._numbers:
            raise EOFError("all consumers have gone")
        for fd, _ in self._ready.poll(None if wait else 0):
            number = self._numbers[fd]
            try:
                frame = self._ends[number].receive()
            except (EOFError, OSError):
                frame = Close()
            if isinstance(frame, Close):
                self._ready.unregister(fd)
                del self._numbers[fd]
            return None if frame is None else (number, frame)
        return None


class ConsumerEnd:
    """The end in the process that uses the elements."""

    def __init__(self, control: Connection, elements: Connection, memory: SharedFd) -> None:
        self._control = control
        self._elements = elements
        self._memory = memory
        self._reader: arena.Reader | None = None
        self.overflows = False
        """Whether elements have come through the pipe because the memory was full."""

    def fileno(self) -> int:
        """What becomes readable when a frame has come, or when there will be none."""
        return self._elements.fileno()

    def send(self, frame: ToProducer) -> None:
        self._control.send_bytes(pickle.dumps(frame, 5))

    def receive(self, wait: bool = True) -> ToConsumer | None:
        if not wait and not self._elements.poll(0):
            return None
        message = memoryview(self._elements.recv_bytes())
        (size,) = _HEAD.unpack_from(message)
        if not size:
            frame: ToConsumer = pickle.loads(message[_HEAD.size :])
            return frame
        start = _HEAD.size + size
        items, slot, sizes, places = pickle.loads(message[_HEAD.size : start])
        lease = self.open_memory().lease
        memory = message[start:] if slot is None else lease(*slot)
        self.overflows |= slot is None and len(memory) > _THROUGH_THE_PIPE
        own = [None if place is None else lease(*place) for place in places]
        body = _Body(memory, sizes, own, aligned=slot is not None)
        whole: Items = replace(items, body=body)
        return whole

    def open_memory(self) -> arena.Reader:
        """Map the shared memory; afterwards its descriptor may be closed."""
        if self._reader is None:
            self._reader = arena.Reader(self._memory.fd)
        return self._reader

    def close(self) -> None:
        self._control.close()
        self._elements.close()


class Drained:
    """The consumer's end, read by a thread: who sends never waits because its frames are not looked at."""

    def __init__(self, end: ConsumerEnd) -> None:
        self._end = end
        self._frames: SimpleQueue[ToConsumer | None] = SimpleQueue()
        threading.Thread(target=self._drain, name="dispatched elements", daemon=True).start()

    def send(self, frame: ToProducer) -> None:
        self._end.send(frame)

    def receive(self) -> ToConsumer:
        """The next frame; EOFError if there will be none."""
        frame = self._frames.get()
        if frame is None:
            self._frames.put(None)
            raise EOFError
        return frame

    def _drain(self) -> None:
        try:
            while (frame := self._end.receive()) is not None:
                self._frames.put(frame)
        except (EOFError, OSError):
            self._frames.put(None)


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
        return unpack(data, [next(rest) if buffer is None else buffer for buffer in self._own])


class Pair:
    """Both ends of a new link, made to be given to the processes at its ends."""

    def __init__(self, context: Any, arena_bytes: int) -> None:
        control_there, control_here = context.Pipe(duplex=False)
        elements_here, elements_there = context.Pipe(duplex=False)
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
