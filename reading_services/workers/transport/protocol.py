"""The protocol of a producer of elements and its consumer: messages, and who may send which of them when.

No input, no output, no time: two state machines and a table. A link carries the messages (see the files beside this
one).

    consumer -> producer                          producer -> consumer
    Open     make the elements of an opening      Items    some elements, in order, and the position after them
    Credit   a message of yours was used up       Failed   an error in place of an element, and the position after it
    Widen    run ahead so far from now on         End      the opening has no more elements
    Stop     nobody wants the rest of an opening
    Close    leave                                Started  ready for the first opening

    producer is   it may send    and becomes      it may get    and becomes
    new           Started        new              Open          open
                  Failed(start)  gone
                                                  Close         gone
    open          Items          open             Open          open, with the new opening
                  Failed, End    idle             Credit, Widen open
                                                  Stop          idle
                                                  Close         gone
    idle          (nothing)                       Open          open
                                                  Credit, Stop  idle
                                                  Widen         idle
                                                  Close         gone

Every message names its opening. Those of an earlier opening may still be under way when the next one begins; the
consumer drops them on sight, and the producer ignores credit for them. A producer runs ahead of its consumer by its
window: a number of elements, more of them while they are small or quickly made, not more than so many bytes, and always
at least two messages, so that one can be made while the other is used. New memory costs more than filling it does, so
a message has no more than half of those bytes: the next ones lie where those before it lay.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, TypeAlias

from datapipes.errors import ProtocolError

START = 0
"""The opening that a failure before the first ``Open`` belongs to."""


@dataclass(frozen=True, slots=True)
class Open:
    """Make the elements of an opening, as ``order`` says."""

    opening: int
    order: Any


@dataclass(frozen=True, slots=True)
class Credit:
    """The oldest message of an opening that was not yet used up is used up."""

    opening: int
    saves: bool = False
    """Whether somebody saves positions, so that large ones are wanted as well."""


@dataclass(frozen=True, slots=True)
class Widen:
    """Run ahead by this window from now on."""

    window: Window


@dataclass(frozen=True, slots=True)
class Stop:
    """Nobody wants the rest of an opening."""

    opening: int


@dataclass(frozen=True, slots=True)
class Close:
    """Leave."""


@dataclass(frozen=True, slots=True)
class Started:
    """The producer has started, which may take long; what follows is the user's own work."""

    opening: int = START


@dataclass(frozen=True, slots=True)
class Items:
    """``count`` elements, and the position after them, if it was looked at."""

    opening: int
    count: int
    size: int
    body: Any
    above: Any = None
    errors: Any = None
    """How many errors the stages have tolerated up to here, if any: in the whole stream, not in the message."""
    start: Any = None
    """The position before the first element, in the first message of an opening that begins there."""
    part: Any = None
    """How much of its source the producer has read, with a position, if somebody watches."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An error in place of an element; the opening ends with it. ``above`` is the position after that element."""

    opening: int
    error: Any
    above: Any = None
    errors: Any = None


@dataclass(frozen=True, slots=True)
class End:
    """There are no more elements."""

    opening: int
    errors: Any = None


ToProducer: TypeAlias = Open | Credit | Widen | Stop | Close
OfOpening: TypeAlias = Items | Failed | End
ToConsumer: TypeAlias = Started | OfOpening


@dataclass(frozen=True, slots=True)
class Window:
    """Limits of how far a producer may run ahead, and in what portions, as suits a link."""

    items: int
    """So many elements,"""
    small: int = 1 << 16
    """or so many bytes of smaller ones, if that is more,"""
    messages: int = 4
    """or so many messages,"""
    together: int = 1 << 22
    """of so many bytes in all,"""
    most: int = 1 << 24
    """but not more than about so many bytes, half of them in one message, or than two messages of larger elements."""
    seconds: float = 0.002
    """How long the elements of a message should take to be made."""


class Producer:
    """The producer's state machine: what it may send, given what it got and sent."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.opening: int | None = None
        self.gone = False
        self._under_way: deque[tuple[int, int]] = deque()  # (elements, bytes) of the messages that are not used up
        self._items = self._bytes = 0
        self._latest = START

    def receive(self, frame: ToProducer) -> None:
        """Take note of a message from the consumer."""
        if self.gone:
            raise ProtocolError(f"{frame} after Close")
        if isinstance(frame, Close):
            self.gone, self.opening = True, None
        elif isinstance(frame, Open):
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
        """Whether a message of elements may be sent now."""
        return self.room(0) > 0

    @property
    def under_way(self) -> list[int]:
        """The number of elements in each message that is not used up."""
        return [count for count, _ in self._under_way]

    @property
    def has_nothing(self) -> bool:
        """Whether all that was sent has been used up, and more is wanted."""
        return self.opening is not None and not self._under_way

    def room(self, size: int) -> int:
        """Number of elements of about ``size`` bytes that the next message may have; 0 if none may be sent now."""
        window, size = self.window, max(size, 1)
        if self.opening is None or (self._bytes >= window.most and len(self._under_way) > 1):
            return 0
        room = max(window.items - self._items, (window.small - self._bytes) // size, 0 if self._under_way else 1)
        if len(self._under_way) < window.messages:
            room = max(room, (window.together - self._bytes) // size)
        return min(room, max(min(window.most - self._bytes, window.most // 2) // size, 1))

    def started(self) -> Started:
        """The message before all others."""
        if self._latest != START or self.gone:
            raise ProtocolError("Started after other messages")
        return Started()

    def items(self, count: int, size: int, body: Any, *told: Any) -> Items:
        """The message for some elements, and what is told with them, in the order of ``Items``."""
        frame = Items(self._open_one(), count, size, body, *told)
        self._under_way.append((count, size))
        self._items += count
        self._bytes += size
        return frame

    def failed(self, error: Any, above: Any = None, errors: Any = None) -> Failed:
        """The message for an error; before the first opening, one that keeps the producer from starting."""
        if self._latest == START:
            self.gone = True
            return Failed(START, error)
        frame = Failed(self._open_one(), error, above, errors)
        self.opening = None
        return frame

    def end(self, errors: Any = None) -> End:
        """The message for the end of the stream."""
        frame = End(self._open_one(), errors)
        self.opening = None
        return frame

    def _open_one(self) -> int:
        if self.opening is None:
            raise ProtocolError("nothing is open")
        return self.opening


@dataclass
class Consumer:
    """The consumer's state machine, for one producer."""

    opening: int = START
    """The one under way, or the last one: it may have been of another producer."""
    ended: bool = True
    stopped: bool = False
    closed: bool = False

    def open(self, order: Any) -> Open:
        """Begin an opening; the one before it, if it is still under way, is dropped."""
        self._not_closed()
        self.opening += 1
        self.ended = self.stopped = False
        return Open(self.opening, order)

    def receive(self, frame: ToConsumer) -> OfOpening | None:
        """A message from the producer, or None if it is of an earlier opening, or of none, and has to be dropped."""
        if isinstance(frame, Started):
            return None
        if frame.opening == START and isinstance(frame, Failed):
            self.ended = True
            return frame
        if frame.opening < self.opening or self.stopped:
            return None
        if frame.opening > self.opening or self.ended:
            raise ProtocolError(f"{type(frame).__name__} of opening {frame.opening}, which has ended or not begun")
        if not isinstance(frame, Items):
            self.ended = True
        return frame

    def used_up(self, frame: Items, saves: bool = False) -> Credit | None:
        """Tell the producer that it may go on; None if there is nothing to go on with."""
        return None if self.closed or self.ended or frame.opening != self.opening else Credit(frame.opening, saves)

    def stop(self) -> Stop | None:
        """Tell the producer that nobody wants the rest; None if there is no rest."""
        if self.closed or self.ended:
            return None
        self.ended = self.stopped = True
        return Stop(self.opening)

    def close(self) -> Close:
        """Tell the producer to leave."""
        self._not_closed()
        self.closed = True
        return Close()

    def _not_closed(self) -> None:
        if self.closed:
            raise ProtocolError("the producer was told to leave")
