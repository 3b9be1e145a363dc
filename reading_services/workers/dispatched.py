"""The stage that, in a worker, fetches the elements of a part that the dispatcher runs for all workers.

It asks the dispatcher (``reading_services.workers.dispatcher``) for its part of an epoch. Its position is the number of
elements that it has taken, and the last snapshot that the dispatcher has sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import length_hint
from typing import Any, ClassVar, Final, Protocol, TypeVar

from datapipes.description import structure
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe
from datapipes.errors import GraphError, LengthUnknown, WorkerDied
from datapipes.operator_support.checks import length_of, no_length
from datapipes.position.cells import Cell, count, fields, table
from datapipes.position.opening import Opening
from datapipes.position.seeds import ErrorCounts, Run
from datapipes.sharding.sharding import shard_length
from reading_services.interface.service import WorkerInfo
from reading_services.workers.cut import dispatched_end, with_end_replaced
from reading_services.workers.transport.packing import unpacked
from reading_services.workers.transport.protocol import (
    Consumer,
    Failed,
    Items,
    OfOpening,
    ToConsumer,
    ToProducer,
)
from reading_services.workers.worker import Order, worker_graph

T_co = TypeVar("T_co", covariant=True)


DEALT: Final = "dispatched: "
"""Prefix that a worker puts before the stages of the dispatcher, whose errors are counted by all workers alike."""


@dataclass(frozen=True, slots=True)
class DispatchRequest:
    """A worker's request to the dispatcher for its part of an epoch, from its position."""

    order: Order
    """The worker's own, with the run that its graph reads this part in, and without its position."""
    above: Any
    """A position of the dispatcher, or None for the start,"""
    dealt: int
    """how many elements were dealt before that,"""
    taken: int
    """and how many this worker has taken in all."""


@dataclass(frozen=True, slots=True)
class NotTaking:
    """A worker's message that it will not ask for its part of an opening."""

    order: Order


@dataclass(frozen=True, slots=True)
class ItemError:
    """A failure in place of an element that the dispatcher could not make. The next elements follow."""

    failure: Any
    count: int
    """Number of elements that were lost: 0 if the same element comes again, otherwise 1."""


class DispatcherGone(WorkerDied):
    """The dispatcher of a worker has ended."""


class DispatchLink(Protocol):
    """The consumer's end of a worker's link with the dispatcher."""

    def send(self, frame: ToProducer) -> None:
        """Send a message."""

    def receive(self) -> ToConsumer:
        """The next message; EOFError if there will be none."""


@operator
class Dispatched(IterDataPipe[T_co]):
    """The stage that, in a worker, stands in place of the part that the dispatcher runs.

    It does not refer to that part, whose data are sent to the dispatcher alone.
    """

    is_dealt: ClassVar[bool] = True
    _stands_for: ClassVar[str | None] = "text"

    text: str
    """The last stage of that part as it prints."""

    length: int | LengthUnknown | None = None
    """Number of elements of all workers together, or why it is unknown. None in a worker, which does not need it."""

    def __post_init__(self) -> None:
        self.asking = DispatchClient()
        self.dealt_to: tuple[int, int] = (1, 0)  # how many workers, and which this is

    def _open(self, at: Opening) -> Iterator[T_co]:
        asking = self.asking
        dealt = at.cell(lambda: DispatchedCell(asking.stop))
        if dealt.failed is not None:
            raise dealt.failed.error.error()
        if not dealt.asked:  # at once, because the others wait for it; after an exception it goes on with what came
            asking.ask(asking.share(at.run, dealt))
            dealt.asked = True
        return self._elements(dealt, at.run.errors)

    def _elements(self, dealt: DispatchedCell, errors: ErrorCounts) -> Iterator[T_co]:
        while not dealt.ended:
            yield from dealt.left
            if (used_up := dealt.used_up()) is not None:
                self.asking.used_up(used_up)
            frame, error = self.asking.receive(), None
            if frame is not None and frame.errors:
                errors.add({DEALT + stage: n - errors.counts[DEALT + stage] for stage, n in frame.errors.items()})
            if isinstance(frame, Items):
                error = dealt.take(frame)
            elif isinstance(frame, Failed):
                error, dealt.failed = frame.error.error(), frame
            elif frame is not None:
                # The dispatcher sends no more, even if an error ends this iterator and it starts again.
                dealt.ended = True
            if error is not None:
                try:
                    raise error
                finally:
                    del error, frame  # the traceback holds this frame
            del frame

    def __len__(self) -> int:
        if isinstance(self.length, LengthUnknown):
            raise LengthUnknown(str(self.length), self.length.stage)
        if self.length is None:
            raise no_length(self)
        return shard_length(self.length, *self.dealt_to)


class DispatchClient:
    """A worker's link with the dispatcher, and its request: one object for all openings of its graph."""

    def __init__(self) -> None:
        self.link: DispatchLink | None = None
        self._order: Order | None = None
        self._consumer = Consumer()
        self._asked = 0  # the key of the last share that was asked for

    def ordered(self, order: Order) -> None:
        """Take note of the worker's order; later requests are for that."""
        self._order = replace(order, above=None, behind=0, watch=None)

    def share(self, run: Run, dealt: DispatchedCell) -> DispatchRequest:
        """The request for a worker's part, from its position."""
        order = Order(run) if self._order is None else replace(self._order, run=run)
        return DispatchRequest(order, dealt.above, dealt.before, dealt.taken)

    def wait_for_start(self) -> None:
        """Wait until the dispatcher has started, or has gone: a request to it raises then."""
        if self.link is not None:
            with suppress(EOFError, OSError):
                self.link.receive()

    def ask(self, share: DispatchRequest | NotTaking) -> None:
        """Begin an opening."""
        if self._asked == share.order.key != 0:
            raise GraphError(
                "a stage reads more than once what is dispatched: dispatch what it gives. A plain class that reads one "
                "child of a fork does so when it is replayed: give the class state_dict() and load_state_dict()"
            )
        self._asked = share.order.key
        self._send(self._consumer.open(share))

    def leave(self) -> None:
        """End the worker's opening; if it has not asked for its part, it will not."""
        if self.link is not None and self._order is not None and self._asked < self._order.key:
            with suppress(WorkerDied):
                self.ask(NotTaking(self._order))

    def receive(self) -> OfOpening | None:
        """The next message; None if it belongs to no opening, or to an earlier one."""
        try:
            frame = self._connected().receive()
        except (EOFError, OSError):
            raise DispatcherGone("the process that deals out elements has gone") from None
        return self._consumer.receive(frame)

    def used_up(self, frame: Items) -> None:
        """Give the dispatcher credit for a message."""
        if (credit := self._consumer.used_up(frame)) is not None:
            self._send(credit)

    def stop(self) -> None:
        """Stop the opening: its other elements are not needed."""
        if self.link is not None and (frame := self._consumer.stop()) is not None:
            with suppress(WorkerDied):
                self._send(frame)

    def _send(self, frame: ToProducer) -> None:
        try:
            self._connected().send(frame)
        except OSError:
            raise DispatcherGone("the process that deals out elements has gone") from None

    def _connected(self) -> DispatchLink:
        if self.link is None:
            raise RuntimeError("this stage is read by a worker only")
        return self.link


def without_dispatched(end: Pipe) -> tuple[Pipe, Pipe | None]:
    """Split a graph into the part that the workers run and the part that the dispatcher runs for them, if any."""
    dealt = dispatched_end(end)
    if dealt is None:
        return end, None
    part: Pipe = Dispatched(printed(dealt))
    return with_end_replaced(end, dealt, lambda _: part), dealt


def length_of_parts(end: Pipe, workers: int, changes: Sequence[Any] = ()) -> int:
    """Number of elements of all workers together; ``changes`` are functions that may change their graphs."""
    if any(change is not None for change in changes):
        raise TypeError("worker_init_fn and worker_reset_fn may change how many elements the workers give")
    whole, dealt = without_dispatched(end)
    length = 0
    for number in range(workers):
        part = worker_graph(whole, WorkerInfo(workers, number), None)
        for stage in structure.walk(part):
            if isinstance(stage, Dispatched):
                stage.length, stage.dealt_to = _length_if_known(dealt), (workers, number)
        length += length_of(part)
    return length


def _length_if_known(graph: Pipe | None) -> int | LengthUnknown:
    try:
        return length_of(graph)
    except LengthUnknown as error:
        return error


def asking_of(graph: Pipe) -> DispatchClient:
    """The ``DispatchClient`` that all of a worker's graph shares; unused if nothing in it is dispatched."""
    asking = DispatchClient()
    for stage in structure.walk(graph):
        if isinstance(stage, Dispatched):
            stage.asking = asking
    return asking


class DispatchedCell(Cell):
    """Cell of dispatched elements: the number that this worker has taken, and the dispatcher's last snapshot."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._behind = 0
        self._frame: Items | None = None
        self.asked = self.ended = False
        self.failed: Failed | None = None
        self.left: Iterator[Any] = iter(())
        """Elements that have come and were not taken yet."""
        self.above: Any = None  # packed, as it came
        self.before = 0

    @property
    def taken(self) -> int:
        """Number of elements taken in all."""
        return self._behind + (0 if self._frame is None else self._frame.count - length_hint(self.left))

    def take(self, frame: Items) -> BaseException | None:
        """Take elements that have come, or return the error in place of one."""
        elements = frame.body.unpack()
        self._frame = replace(frame, body=None)
        if type(elements[0]) is not ItemError:
            self.left = iter(elements)
            return None
        self.left = iter(())
        error: BaseException = elements[0].failure.error()
        return error

    def used_up(self) -> Items | None:
        """The message that was the last one, now that all of it was taken; it says where the dispatcher was."""
        frame = self._frame
        if frame is not None:
            self._behind, self._frame = self._behind + frame.count, None
            if frame.above is not None:
                self.above, self.before = frame.above
        return frame

    def save(self) -> dict[str, Any]:
        self.above = unpacked(self.above)
        return {"above": self.above, "before": self.before, "taken": self.taken}

    def load(self, saved: Any) -> None:
        above, before, taken = fields(saved, "above", "before", "taken")
        self.above, self.before, self._behind = table(above), count(before, "before"), count(taken, "taken")

    def close(self) -> None:
        if self.asked:  # and is not one that was refused, beside another
            self._stop()
