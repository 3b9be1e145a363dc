"""The link between two threads of one process. Elements are passed on as they are.

All producers of one consumer share one queue. Each frame in it has the number of its producer, so the consumer can wait
for the first of them.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import TypeAlias

from reading_services.workers.transport.protocol import Close, ToConsumer, ToProducer

Arrivals: TypeAlias = SimpleQueue[tuple[int | None, ToConsumer | None]]
"""Frames with the numbers of their producers. None in place of a frame wakes the thread that waits."""


class ThreadProducerEnd:
    """The end in the thread that makes the elements."""

    def __init__(self, control: SimpleQueue[ToProducer], arrivals: Arrivals, number: int) -> None:
        self._control = control
        self._arrivals = arrivals
        self._number = number

    def send(self, frame: ToConsumer) -> None:
        self._arrivals.put((self._number, frame))

    def receive(self, wait: bool = True) -> ToProducer | None:
        return self._control.get() if wait or not self._control.empty() else None  # this thread is the only reader


class ThreadConsumerEnd:
    """The end in the thread that uses the elements. It only sends: frames arrive in the queue of all producers."""

    def __init__(self, control: SimpleQueue[ToProducer]) -> None:
        self._control = control

    def send(self, frame: ToProducer) -> None:
        self._control.put(frame)


class DispatcherEnds:
    """A dispatcher's ends of its links with all workers."""

    def __init__(self, workers: int) -> None:
        self.asked: SimpleQueue[tuple[int, ToProducer]] = SimpleQueue()
        self.dealt: list[SimpleQueue[ToConsumer | None]] = [SimpleQueue() for _ in range(workers)]

    def send(self, number: int, frame: ToConsumer) -> None:
        self.dealt[number].put(frame)

    def receive(self, wait: bool) -> tuple[int, ToProducer] | None:
        return self.asked.get() if wait or not self.asked.empty() else None

    def close(self) -> None:
        """Tell the dispatcher to leave, and end the links of the workers that wait for it."""
        for number, dealt in enumerate(self.dealt):
            self.asked.put((number, Close()))
            dealt.put(None)


class ThreadDispatchEnd:
    """A worker's end of its link with the dispatcher."""

    def __init__(self, ends: DispatcherEnds, number: int) -> None:
        self._ends = ends
        self._number = number

    def send(self, frame: ToProducer) -> None:
        self._ends.asked.put((self._number, frame))

    def receive(self) -> ToConsumer:
        """Return the next frame. Raise EOFError if the dispatcher has ended."""
        frame = self._ends.dealt[self._number].get()
        if frame is None:
            self._ends.dealt[self._number].put(None)
            raise EOFError
        return frame


def pair(arrivals: Arrivals, number: int) -> tuple[ThreadConsumerEnd, ThreadProducerEnd]:
    """Return both ends of a new link.

    >>> from reading_services.workers.transport.protocol import Close, EndOfStream
    >>> arrivals = SimpleQueue()
    >>> here, there = pair(arrivals, number=3)
    >>> here.send(Close()); there.receive(), there.receive(wait=False)
    (Close(), None)
    >>> there.send(EndOfStream(1)); arrivals.get()
    (3, EndOfStream(opening=1...))
    """
    control: SimpleQueue[ToProducer] = SimpleQueue()
    return ThreadConsumerEnd(control), ThreadProducerEnd(control, arrivals, number)
