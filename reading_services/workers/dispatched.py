"""In a worker, the stage that stands in place of what one process runs for all workers.

It asks the dispatcher (``reading_services.workers.dispatcher``) for its part of an epoch. Its position is how many
elements it has taken, and the position of the dispatcher as it was told last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import length_hint
from typing import Any, ClassVar, Protocol, TypeVar

from datapipes.cells import Cell, Table, count, fields, table
from datapipes.opening import Opening
from datapipes.pipe import IterDataPipe
from datapipes.seeds import Run
from reading_services.workers.failures import WorkerDied
from reading_services.workers.protocol import Consumer, Failed, Items, ToConsumer, ToProducer

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Share:
    """What a worker asks of the dispatcher: its part of an epoch, from where it is."""

    key: int
    """The same for all workers that take part in one opening."""
    crowd: tuple[int, ...]
    """Who takes part."""
    run: Run
    above: Table | None
    """A position of the dispatcher, or None for the start,"""
    dealt: int
    """how many elements were dealt before that,"""
    taken: int
    """and how many this worker has taken in all."""
    reset: Any = None


class DispatchLink(Protocol):
    """The consumer's end of a worker's link with the dispatcher."""

    def send(self, frame: ToProducer) -> None:
        """Send a frame."""

    def receive(self, wait: bool = True) -> ToConsumer | None:
        """The next frame; EOFError if there will be none."""


class Dispatched(IterDataPipe[T_co]):
    """In a worker, what stands in place of the part that the dispatcher runs."""

    _data: ClassVar[frozenset[str]] = frozenset({"graph"})
    is_dealt: ClassVar[bool] = True

    def __init__(self, graph: IterDataPipe[T_co]) -> None:
        self.graph = graph
        self.link: DispatchLink | None = None
        self.consumer = Consumer()
        self.number = 0
        self.key = 0
        self.crowd: tuple[int, ...] = (0,)
        self.reset: Any = None

    def _open(self, at: Opening) -> Iterator[T_co]:
        return self._elements(at.cell(lambda: Dealt(self._stop)), at.run)

    def _elements(self, dealt: Dealt, run: Run) -> Iterator[T_co]:
        link, consumer = self._link(), self.consumer
        dealt.begin()
        share = Share(self.key, self.crowd, run, dealt.above, dealt.before, dealt.taken, self.reset)
        link.send(consumer.open(share))
        while True:
            try:
                frame = link.receive()
            except (EOFError, OSError):
                raise WorkerDied("the process that deals out elements has gone") from None
            current = None if frame is None else consumer.receive(frame)
            if isinstance(current, Items):
                yield from dealt.taking(current)
                dealt.told(current.above)
                if (credit := consumer.used_up(current)) is not None:
                    link.send(credit)
            elif isinstance(current, Failed):
                dealt.taken += 1
                dealt.told(current.above)
                raise current.error.error()
            elif current is not None:
                return

    def _link(self) -> DispatchLink:
        if self.link is None:
            raise RuntimeError("this stage is read by a worker only")
        return self.link

    def _stop(self) -> None:
        if self.link is not None and (frame := self.consumer.stop()) is not None:
            self.link.send(frame)


class Dealt(Cell):
    """How many elements this worker has taken, and what it was told of the dispatcher's position."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._behind = 0
        self._length = 0
        self._left: Iterator[Any] = iter(())
        self.above: Table | None = None
        self.before = 0

    @property
    def taken(self) -> int:
        """How many elements were taken in all."""
        return self._behind + self._length - length_hint(self._left)

    @taken.setter
    def taken(self, number: int) -> None:
        self._behind, self._length, self._left = number, 0, iter(())

    def begin(self) -> None:
        """Forget what has come and was not taken."""
        self.taken = self.taken

    def taking(self, frame: Items) -> Iterator[Any]:
        """The elements of a frame."""
        self.taken = self.taken
        elements = frame.body.unpack()
        self._length, self._left = len(elements), iter(elements)
        return self._left

    def told(self, position: Any) -> None:
        """The dispatcher has said where it was."""
        if position is not None:
            self.above, self.before = position

    def save(self) -> dict[str, Any]:
        return {"above": self.above, "before": self.before, "taken": self.taken}

    def load(self, saved: Any) -> None:
        above, before, taken = fields(saved, "above", "before", "taken")
        self.above, self.before, self.taken = table(above), count(before, "before"), count(taken, "taken")

    def close(self) -> None:
        self._stop()
