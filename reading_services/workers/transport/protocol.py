"""The protocol of a producer of elements and its consumer: frames, and the order in which each side may send them.

No I/O and no clock: two state machines and a table. The links beside this file carry the frames.

    consumer -> producer                              producer -> consumer
    OpenStream  make the elements of an opening       Items        some elements, in order, and the table after them
    Credit      one of your frames was used up        Failed       an error in place of an element, and the table after
    Widen       run ahead by this window              EndOfStream  the opening has no more elements
    Stop        drop the rest of an opening           Started      ready for the first opening
    Close       leave                                 WorkerEnd    the producer has gone, and why

    producer is   it may send          and becomes    it may get     and becomes
    new           Started              new            OpenStream     open
                  WorkerEnd            gone           Close          gone
    open          Items                open           OpenStream     open, with the new opening
                  Failed, EndOfStream  idle           Credit, Widen  open
                                                      Stop           idle
                                                      Close          gone
    idle          (nothing)                           OpenStream     open
                                                      Credit, Stop   idle
                                                      Widen          idle
                                                      Close          gone

A producer that cannot start sends WorkerEnd itself. If any other producer ends, its host makes this frame: so WorkerEnd
may come after any frame.

Each frame names its opening. Frames of an earlier opening may still be under way when the next one begins: the consumer
drops them, and the producer ignores credit for them. A producer runs ahead of its consumer by its window, which limits
elements and bytes. The window always allows two frames, so that one can be made while the other is used. A frame has at
most half of the window's bytes. Then two frames fit, and the next one reuses the memory of the first one: to allocate
memory takes longer than to fill it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from datapipes.errors import ProtocolError

START = 0
"""The opening before the first ``OpenStream``."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Request to make the elements of an opening. ``order`` has its details."""

    opening: int
    order: Any


@dataclass(frozen=True, slots=True)
class Credit:
    """Notice that the consumer has used up a frame. Frames are used up in the order in which they were sent."""

    opening: int
    saves: bool = False
    """Whether the consumer saves positions, so that large tables are wanted, too."""


@dataclass(frozen=True, slots=True)
class Widen:
    """Request to run ahead by another window."""

    window: Window


@dataclass(frozen=True, slots=True)
class Stop:
    """Request to drop the rest of an opening."""

    opening: int


@dataclass(frozen=True, slots=True)
class Close:
    """Request to leave."""


@dataclass(frozen=True, slots=True)
class Started:
    """Notice that the producer has started. Starting may take long; the user's own work follows it."""

    opening: int = START


@dataclass(frozen=True, slots=True)
class Items:
    """``count`` elements, and the table after them if a snapshot was taken."""

    opening: int
    count: int
    size: int
    body: Any
    above: Any = None
    errors: Any = None
    """The number of errors that the stages have tolerated since the start of the stream, or None."""
    start: Any = None
    """The table before the first element, in the first frame of an opening that begins there."""
    part: Any = None
    """The producer's completion, in a frame with a table, if the program shows a progress bar."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An error in place of an element, which ends the opening. ``above`` is the table after that element."""

    opening: int
    error: Any
    above: Any = None
    errors: Any = None


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """Notice that the opening has no more elements."""

    opening: int
    errors: Any = None


class EndReason(Enum):
    """The reason why a worker has gone. Only after ``DIED`` another worker may take its place."""

    DIED = "died"
    COULD_NOT_START = "could not start"
    UNGUARDED = "starts workers itself, while it imports the program's file"
    REFUSED = "was not accepted"
    LATE = "did not start in time"


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """A worker or the dispatcher has gone. It is the last frame of each of them."""

    number: int | None
    """The worker's number. None: the dispatcher, without which all workers have to be replaced."""
    name: str
    how: str
    reason: EndReason = EndReason.DIED
    error: Any = None
    """The error that a worker met while it started. It is packed like that of ``Failed``."""
    at_work: Any = None
    """The ``AtWork`` of a worker that died, if its host can read it."""
    has_spoken: bool = False
    """Whether it had sent a frame of an opening. The pool sets it."""


ToProducer: TypeAlias = OpenStream | Credit | Widen | Stop | Close
OfOpening: TypeAlias = Items | Failed | EndOfStream
ToConsumer: TypeAlias = Started | OfOpening | WorkerEnd


@dataclass(frozen=True, slots=True)
class Window:
    """Limits on how far a producer of a link may run ahead, and on the size of its frames."""

    items: int
    """The most elements under way."""
    small: int = 1 << 16
    """More elements than ``items`` are allowed if all elements under way have at most this many bytes."""
    messages: int = 4
    """More elements than ``items`` are also allowed if fewer frames than this are under way; see ``together``."""
    together: int = 1 << 22
    """The most bytes under way if ``messages`` is what allows more elements."""
    most: int = 1 << 24
    """The most bytes under way, half of them in one frame. Two frames are always allowed, however large."""
    seconds: float = 0.002
    """The time that it should take to make the elements of one frame."""


class Producer:
    """The producer's state machine."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.opening: int | None = None
        self.gone = False
        self._under_way: deque[tuple[int, int]] = deque()  # (elements, bytes) of the frames that are not used up
        self._items = self._bytes = 0
        self._latest = START

    def receive(self, frame: ToProducer) -> None:
        """Record a frame from the consumer. Raise ProtocolError if it is not legal now."""
        if self.gone:
            raise ProtocolError(f"{frame} after Close")
        if isinstance(frame, Close):
            self.gone, self.opening = True, None
        elif isinstance(frame, OpenStream):
            if frame.opening <= self._latest:
                raise ProtocolError(f"{frame} after opening {self._latest}")
            self._latest = self.opening = frame.opening
            self._under_way.clear()
            self._items = self._bytes = 0
        elif isinstance(frame, Stop):
            if frame.opening == self.opening:
                self.opening = None
        elif isinstance(frame, Widen):
            self.window = frame.window
        elif frame.opening == self._latest:
            if not self._under_way:
                raise ProtocolError(f"{frame}, and no frame is under way")
            items, size = self._under_way.popleft()
            self._items -= items
            self._bytes -= size
        elif frame.opening > self._latest:
            raise ProtocolError(f"{frame} before it was opened")

    @property
    def may_send(self) -> bool:
        """Whether a frame of elements may be sent now."""
        return self.room(0) > 0

    @property
    def under_way(self) -> list[int]:
        """The number of elements in each frame that is not used up."""
        return [count for count, _ in self._under_way]

    @property
    def has_nothing(self) -> bool:
        """Whether the opening goes on and all frames are used up."""
        return self.opening is not None and not self._under_way

    def room(self, size: int) -> int:
        """Return how many elements of about ``size`` bytes the next frame may have. 0: no frame may be sent now."""
        window, size = self.window, max(size, 1)
        if self.opening is None or (self._bytes >= window.most and len(self._under_way) > 1):
            return 0
        room = max(window.items - self._items, (window.small - self._bytes) // size, 0 if self._under_way else 1)
        if len(self._under_way) < window.messages:
            room = max(room, (window.together - self._bytes) // size)
        return min(room, max(min(window.most - self._bytes, window.most // 2) // size, 1))

    def started(self) -> Started:
        """Return the first of all frames."""
        if self._latest != START or self.gone:
            raise ProtocolError("Started after other frames")
        return Started()

    def items(self, count: int, size: int, body: Any, *further: Any) -> Items:
        """Return the frame for some elements. ``further`` are its other fields, in the order of ``Items``."""
        frame = Items(self._open_one(), count, size, body, *further)
        self._under_way.append((count, size))
        self._items += count
        self._bytes += size
        return frame

    def failed(self, error: Any, above: Any = None, errors: Any = None) -> Failed:
        """Return the frame for an error, which ends the opening."""
        frame = Failed(self._open_one(), error, above, errors)
        self.opening = None
        return frame

    def end(self, errors: Any = None) -> EndOfStream:
        """Return the frame for the end of the stream."""
        frame = EndOfStream(self._open_one(), errors)
        self.opening = None
        return frame

    def _open_one(self) -> int:
        if self.opening is None:
            raise ProtocolError("nothing is open")
        return self.opening


@dataclass
class Consumer:
    """The consumer's state machine for one producer."""

    opening: int = START
    """The current opening, or the last one. A new producer continues with the number of the one it replaces."""
    ended: bool = True
    stopped: bool = False
    closed: bool = False

    def open(self, order: Any) -> OpenStream:
        """Return the request for a new opening. Frames of the opening before it are dropped from now on."""
        self._not_closed()
        self.opening += 1
        self.ended = self.stopped = False
        return OpenStream(self.opening, order)

    def receive(self, frame: ToConsumer) -> OfOpening | None:
        """Return a frame from the producer. Return None for one to drop, because its opening has ended."""
        if isinstance(frame, Started | WorkerEnd):
            return None
        if frame.opening < self.opening or self.stopped:
            return None
        if frame.opening > self.opening or self.ended:
            raise ProtocolError(f"{type(frame).__name__} of opening {frame.opening}, which has ended or not begun")
        if not isinstance(frame, Items):
            self.ended = True
        return frame

    def used_up(self, frame: Items, saves: bool = False) -> Credit | None:
        """Return the credit for a frame that is used up, or None if its opening has ended."""
        return None if self.closed or self.ended or frame.opening != self.opening else Credit(frame.opening, saves)

    def stop(self) -> Stop | None:
        """Return the request to drop the rest of the opening, or None if there is no rest."""
        if self.closed or self.ended:
            return None
        self.ended = self.stopped = True
        return Stop(self.opening)

    def close(self) -> Close:
        """Return the request to leave."""
        self._not_closed()
        self.closed = True
        return Close()

    def _not_closed(self) -> None:
        if self.closed:
            raise ProtocolError("Close was sent to the producer before")
