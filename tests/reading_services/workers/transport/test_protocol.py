"""The protocol, explored: every order in which two producers, one consumer and their links can take their steps.

The consumer wants the elements of both producers in turn. It may stop an opening, or begin the next, at any moment. In
every state that can be reached something can go on until all is done, nothing of an earlier opening is handed on, and
nothing is lost or comes twice.

A link is a pipe each way, and a pipe holds less than a frame with a position in it may be. A producer that writes does
nothing else until all is in the pipe. The consumer keeps what there is no room for, and reads only while it waits for
a frame; one that waited for room as well would come to a state in which neither side can go on, which is shown, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

import pytest

from datapipes.errors import ProtocolError
from reading_services.workers.transport.protocol import (
    Close,
    Consumer,
    Credit,
    EndOfStream,
    Failed,
    Items,
    OpenStream,
    Producer,
    ToProducer,
    Widen,
    Window,
    WorkerEnd,
)

OPENINGS = 2
CAPACITY = 2
"""Capacity of a pipe; a message is as large as 1, or as a position."""


@dataclass
class Pipe:
    """One way of a link: messages not yet wholly in the pipe, what is in it, and the messages that have come."""

    unsent: deque[tuple[object, int]] = field(default_factory=deque)
    inside: deque[tuple[object, int]] = field(default_factory=deque)  # None for a part with which no message ends
    come: deque[Any] = field(default_factory=deque)

    def put(self, frame: object, size: int = 1) -> None:
        self.unsent.append((frame, size))
        self.write()

    def write(self) -> None:
        while self.unsent and (room := CAPACITY - sum(size for _, size in self.inside)):
            frame, size = self.unsent.popleft()
            if size > room:
                self.unsent.appendleft((frame, size - room))
                frame = None
            self.inside.append((frame, min(size, room)))

    def read(self) -> None:
        """Take all out. A producer that has more to write does so at once."""
        while self.inside:
            self.come.extend(frame for frame, _ in self.inside if frame is not None)
            self.inside.clear()
            self.write()

    def clear(self) -> None:
        self.unsent.clear()
        self.inside.clear()
        self.come.clear()

    def key(self) -> object:
        return tuple(self.unsent), tuple(self.inside), tuple(self.come)


@dataclass
class World:
    """Two producers, what is on the way to and from them, and the consumer."""

    lengths: tuple[int, int]
    fails: bool
    producers: list[Producer]
    position: int = 1
    """How large an order is, and a failure."""
    waits: bool = False
    """Whether the consumer, too, does nothing else while it writes."""
    consumers: list[Consumer] = field(default_factory=lambda: [Consumer(), Consumer()])
    there: list[Pipe] = field(default_factory=lambda: [Pipe(), Pipe()])
    back: list[Pipe] = field(default_factory=lambda: [Pipe(), Pipe()])
    made: list[int] = field(default_factory=lambda: [0, 0])
    got: list[int] = field(default_factory=lambda: [0, 0])
    turn: int = 0
    opening: int = 0
    done: bool = False

    def key(self) -> object:
        return (
            tuple((p.opening, p.gone, tuple(p._under_way)) for p in self.producers),
            tuple((c.opening, c.ended, c.stopped, c.closed) for c in self.consumers),
            tuple(pipe.key() for pipe in self.there + self.back),
            tuple(self.made),
            tuple(self.got),
            self.turn,
            self.opening,
            self.done,
        )

    def steps(self) -> Iterator[tuple[str, int]]:
        for i in (0, 1):
            if self.consumers[i].closed:
                if not self.producers[i].gone:
                    yield "leave", i
                continue
            if self.back[i].unsent:
                continue
            if self.there[i].inside:
                yield "deliver", i
            if self.producers[i].may_send and self.made[i] < self.lengths[i]:
                yield "make", i
            if self.producers[i].opening is not None and self.made[i] == self.lengths[i]:
                yield "end", i
        if self.waits and any(pipe.unsent for pipe in self.there):
            return
        if self.opening and not self.done:
            if self.back[self.turn].come:
                yield "take", self.turn
            elif any(pipe.inside for pipe in self.back):
                yield "hear", 0
            yield "stop", 0
        if self.opening < OPENINGS or (self.done and not self.consumers[0].closed):
            yield "open" if self.opening < OPENINGS else "close", 0

    def step(self, name: str, i: int) -> None:
        getattr(self, name)(i)

    def deliver(self, i: int) -> None:
        self.there[i].read()
        while self.there[i].come:
            frame = self.there[i].come.popleft()
            self.producers[i].receive(frame)
            if isinstance(frame, OpenStream):
                self.made[i] = 0

    def make(self, i: int) -> None:
        self.made[i] += 1
        self.back[i].put(self.producers[i].items(1, 10, self.made[i]))

    def end(self, i: int) -> None:
        producer = self.producers[i]
        if self.fails and i:
            self.back[i].put(producer.failed("broken"), self.position)
        else:
            self.back[i].put(producer.end())

    def hear(self, _: int) -> None:
        for pipe in self.back:
            pipe.read()

    def take(self, i: int) -> None:
        frame = self.consumers[i].receive(self.back[i].come.popleft())
        if frame is None:
            return
        assert frame.opening == self.opening
        if isinstance(frame, Items):
            assert i == self.turn
            self.got[i] += 1
            assert frame.body == self.got[i], "lost, doubled or of another opening"
            if (credit := self.consumers[i].used_up(frame)) is not None:
                self.there[i].put(credit)
        else:
            assert isinstance(frame, Failed if self.fails and i else EndOfStream)
            assert self.got[i] == self.lengths[i]
        self.turn = 1 - i if not self.consumers[1 - i].ended else i
        self.done = all(consumer.ended for consumer in self.consumers)

    def open(self, _: int) -> None:
        self.opening += 1
        for i in (0, 1):
            self.there[i].put(self.consumers[i].open(None), self.position)
        self.got, self.turn, self.done = [0, 0], 0, False

    def stop(self, _: int) -> None:
        for i in (0, 1):
            if (frame := self.consumers[i].stop()) is not None:
                self.there[i].put(frame)
        self.done = True

    def close(self, _: int) -> None:
        for i in (0, 1):
            self.consumers[i].close()
            self.there[i].clear()
            self.back[i].clear()

    def leave(self, i: int) -> None:
        """End the link: the reader and the writer get an error."""
        self.producers[i].receive(Close())


@pytest.mark.parametrize(
    ("lengths", "window"), [((0, 0), 1), ((1, 0), 1), ((1, 1), 1), ((1, 1), 2), ((0, 2), 1), ((0, 2), 2), ((2, 1), 1)]
)
@pytest.mark.parametrize(("fails", "position"), [(False, 1), (True, 2 * CAPACITY)])
def test_every_order_of_steps_ends_well(lengths: tuple[int, int], window: int, fails: bool, position: int) -> None:
    limits = Window(items=window, small=0, most=1000)
    ends, seen = explored(World(lengths, fails, [Producer(limits), Producer(limits)], position))
    assert all(world.done and all(producer.gone for producer in world.producers) for world in ends)
    assert ends
    assert seen > 20


def test_a_consumer_that_waits_for_room_comes_to_where_nobody_can_go_on() -> None:
    limits = Window(items=2, small=0, most=1000)
    start = World((1, 1), True, [Producer(limits), Producer(limits)], position=2 * CAPACITY, waits=True)
    ends, _ = explored(start)
    assert any(not world.done and world.there[1].unsent and world.back[1].unsent for world in ends)


def explored(start: World) -> tuple[list[World], int]:
    """Return the states in which no side can go on, and the number of states that can be reached."""
    seen = {start.key()}
    todo = [start]
    ends = []
    while todo:
        world = todo.pop()
        steps = list(world.steps())
        if not steps:
            ends.append(world)
        for name, i in steps:
            after = copied(world)
            after.step(name, i)
            if after.key() not in seen:
                seen.add(after.key())
                todo.append(after)
    return ends, len(seen)


UNCHANGING = frozenset({int, bool, NoneType, tuple, Window})
PARTS = frozenset({World, Pipe, Producer, Consumer})


def copied(part: Any) -> Any:
    """A world, or a part of one, that can go on by itself; messages and numbers do not change, and are shared."""
    if type(part) is deque:
        return part.copy()
    if type(part) is list:
        return [copied(item) if type(item) in PARTS else item for item in part]
    copy = object.__new__(type(part))
    copy.__dict__ = {
        name: value if type(value) in UNCHANGING else copied(value) for name, value in part.__dict__.items()
    }
    return copy


class TestWindow:
    def test_so_many_elements(self) -> None:
        producer = opened(Window(items=3, small=0, messages=0, most=1000))
        assert producer.room(10) == 3
        producer.items(2, 20, None)
        assert producer.room(10) == 1
        producer.items(1, 10, None)
        assert not producer.may_send
        producer.receive(Credit(1))
        assert producer.room(10) == 2

    def test_more_while_they_are_small(self) -> None:
        producer = opened(Window(items=3, small=100, messages=0, most=1000))
        assert producer.room(1) == 100
        producer.items(50, 50, None)
        assert producer.room(1) == 50
        assert producer.may_send

    def test_some_messages_of_what_is_quickly_made(self) -> None:
        producer = opened(Window(items=3, small=0, messages=2, together=1000))
        assert producer.room(10) == 100
        producer.items(40, 400, None)
        assert producer.room(10) == 60
        producer.items(30, 300, None)
        assert not producer.may_send
        producer.receive(Credit(1))
        assert producer.room(10) == 70

    def test_never_more_than_so_many_bytes_half_in_a_message_but_two_messages_in_any_case(self) -> None:
        producer = opened(Window(items=100, small=0, messages=0, most=1000))
        assert producer.room(100) == 5
        producer.items(5, 500, None)
        assert producer.room(100) == 5
        producer.items(4, 400, None)
        assert producer.room(100) == 1

    def test_two_messages_of_elements_larger_than_that(self) -> None:
        producer = opened(Window(items=100, small=0, messages=0, most=1000))
        assert producer.room(5000) == 1
        producer.items(1, 5000, None)
        assert producer.room(5000) == 1
        producer.items(1, 5000, None)
        assert not producer.may_send
        producer.receive(Credit(1))
        assert producer.may_send

    def test_a_window_that_is_widened(self) -> None:
        producer = opened(Window(items=1, small=0, messages=0))
        producer.items(1, 1, None)
        assert not producer.may_send
        producer.receive(Widen(Window(items=3, small=0, messages=0)))
        producer.items(0, 1, None)
        producer.items(2, 1, None)
        assert producer.under_way == [1, 0, 2]
        assert not producer.may_send

    def test_credit_of_an_earlier_opening_is_ignored(self) -> None:
        producer = opened(Window(items=1, small=0, messages=0))
        producer.items(1, 1, None)
        producer.receive(OpenStream(2, None))
        producer.items(1, 1, None)
        producer.receive(Credit(1))
        assert not producer.may_send


class TestMistakes:
    def test_a_producer_that_is_not_open_sends_nothing(self) -> None:
        producer = Producer(Window(items=1))
        with pytest.raises(ProtocolError, match="nothing is open"):
            producer.items(1, 1, None)
        with pytest.raises(ProtocolError, match="nothing is open"):
            producer.end()
        with pytest.raises(ProtocolError, match="nothing is open"):
            producer.failed("no such module")

    def test_the_end_of_a_worker_belongs_to_no_opening(self) -> None:
        consumer = Consumer()
        consumer.open(None)
        assert consumer.receive(WorkerEnd(0, "worker 0", "left with exit code 1")) is None
        assert not consumer.ended

    @pytest.mark.parametrize("frame", [OpenStream(1, None), Credit(2)])
    def test_openings_only_go_up(self, frame: ToProducer) -> None:
        producer = opened(Window(items=1))
        with pytest.raises(ProtocolError):
            producer.receive(frame)

    def test_credit_is_for_a_frame(self) -> None:
        with pytest.raises(ProtocolError, match="no frame is under way"):
            opened(Window(items=1)).receive(Credit(1))

    def test_nothing_comes_after_close(self) -> None:
        producer, consumer = Producer(Window(items=1)), Consumer()
        producer.receive(consumer.close())
        with pytest.raises(ProtocolError, match="after Close"):
            producer.receive(Close())
        with pytest.raises(ProtocolError, match="Close was sent"):
            consumer.open(None)

    def test_nothing_comes_after_the_end(self) -> None:
        consumer = Consumer()
        consumer.open(None)
        consumer.receive(EndOfStream(1))
        with pytest.raises(ProtocolError, match="ended or not begun"):
            consumer.receive(Items(1, 1, 1, None))


def opened(window: Window) -> Producer:
    producer = Producer(window)
    producer.receive(OpenStream(1, None))
    return producer
