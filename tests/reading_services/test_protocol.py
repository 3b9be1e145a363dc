"""The protocol, explored: every order in which two producers, one consumer and their links can take their steps.

The consumer wants the elements of both producers in turn. It may stop an opening, or begin the next, at any moment. In
every state that can be reached something can go on until all is done, nothing of an earlier opening is handed on, and
nothing is lost or comes twice.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from reading_services.workers.protocol import (
    START,
    Close,
    Consumer,
    Credit,
    End,
    Failed,
    Items,
    Open,
    Producer,
    ProtocolError,
    ToConsumer,
    ToProducer,
    Widen,
    Window,
)

OPENINGS = 2


@dataclass
class World:
    """Two producers, what is on the way to and from them, and the consumer."""

    lengths: tuple[int, int]
    fails: bool
    producers: list[Producer]
    consumers: list[Consumer] = field(default_factory=lambda: [Consumer(), Consumer()])
    there: list[deque[ToProducer]] = field(default_factory=lambda: [deque(), deque()])
    back: list[deque[ToConsumer]] = field(default_factory=lambda: [deque(), deque()])
    made: list[int] = field(default_factory=lambda: [0, 0])
    got: list[int] = field(default_factory=lambda: [0, 0])
    turn: int = 0
    opening: int = 0
    done: bool = False

    def key(self) -> object:
        return (
            tuple((p.opening, p.gone, tuple(p._under_way)) for p in self.producers),
            tuple((c.opening, c.ended, c.stopped, c.closed) for c in self.consumers),
            tuple(map(tuple, self.there)),
            tuple(map(tuple, self.back)),
            tuple(self.made),
            tuple(self.got),
            self.turn,
            self.opening,
            self.done,
        )

    def steps(self) -> Iterator[tuple[str, int]]:
        for i in (0, 1):
            if self.there[i]:
                yield "deliver", i
            if self.producers[i].may_send and self.made[i] < self.lengths[i]:
                yield "make", i
            if self.producers[i].opening is not None and self.made[i] == self.lengths[i]:
                yield "end", i
        if not self.done and self.opening:
            if self.back[self.turn]:
                yield "take", self.turn
            elif self.back[1 - self.turn] and self.stale(1 - self.turn):
                yield "take", 1 - self.turn
        elif self.opening:
            yield from (("drop", i) for i in (0, 1) if self.back[i])
        if self.opening and not self.done:
            yield "stop", 0
        if self.opening < OPENINGS or (self.done and not self.consumers[0].closed):
            yield "open" if self.opening < OPENINGS else "close", 0

    def stale(self, i: int) -> bool:
        return self.back[i][0].opening < self.opening

    def step(self, name: str, i: int) -> None:
        getattr(self, name)(i)

    def deliver(self, i: int) -> None:
        frame = self.there[i].popleft()
        self.producers[i].receive(frame)
        if isinstance(frame, Open):
            self.made[i] = 0

    def make(self, i: int) -> None:
        self.made[i] += 1
        self.back[i].append(self.producers[i].items(1, 10, self.made[i]))

    def end(self, i: int) -> None:
        producer = self.producers[i]
        self.back[i].append(producer.failed("broken") if self.fails and i else producer.end())

    def take(self, i: int) -> None:
        frame = self.consumers[i].receive(self.back[i].popleft())
        if frame is None:
            return
        assert frame.opening == self.opening
        if isinstance(frame, Items):
            assert i == self.turn
            self.got[i] += 1
            assert frame.body == self.got[i], "lost, doubled or of another opening"
            if (credit := self.consumers[i].used_up(frame)) is not None:
                self.there[i].append(credit)
        else:
            assert isinstance(frame, Failed if self.fails and i else End)
            assert self.got[i] == self.lengths[i]
        self.turn = 1 - i if not self.consumers[1 - i].ended else i
        self.done = all(consumer.ended for consumer in self.consumers)

    def drop(self, i: int) -> None:
        assert self.consumers[i].receive(self.back[i].popleft()) is None

    def open(self, _: int) -> None:
        self.opening += 1
        for i in (0, 1):
            self.there[i].append(self.consumers[i].open(None))
        self.got, self.turn, self.done = [0, 0], 0, False

    def stop(self, _: int) -> None:
        for i in (0, 1):
            if (frame := self.consumers[i].stop()) is not None:
                self.there[i].append(frame)
        self.done = True

    def close(self, _: int) -> None:
        for i in (0, 1):
            self.there[i].append(self.consumers[i].close())


@pytest.mark.parametrize("lengths", [(0, 0), (1, 0), (1, 1), (0, 2), (2, 1)])
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("fails", [False, True])
def test_every_order_of_steps_ends_well(lengths: tuple[int, int], window: int, fails: bool) -> None:
    limits = Window(items=window, small=0, most=1000)
    start = World(lengths, fails, [Producer(limits), Producer(limits)])
    seen = {start.key()}
    todo = [start]
    ends = 0
    while todo:
        world = todo.pop()
        steps = list(world.steps())
        if not steps:
            assert world.done, f"nobody can go on: {world}"
            assert all(producer.gone for producer in world.producers)
            ends += 1
        for name, i in steps:
            after: World = pickle.loads(pickle.dumps(world))
            after.step(name, i)
            if after.key() not in seen:
                seen.add(after.key())
                todo.append(after)
    assert ends
    assert len(seen) > 20


class TestWindow:
    def test_so_many_elements(self) -> None:
        producer = opened(Window(items=3, small=0, most=1000))
        assert producer.room(10) == 3
        producer.items(2, 20, None)
        assert producer.room(10) == 1
        producer.items(1, 10, None)
        assert not producer.may_send
        producer.receive(Credit(1))
        assert producer.room(10) == 2

    def test_more_while_they_are_small(self) -> None:
        producer = opened(Window(items=3, small=100, most=1000))
        assert producer.room(1) == 100
        producer.items(50, 50, None)
        assert producer.room(1) == 50
        assert producer.may_send

    def test_never_more_than_so_many_bytes_but_one_frame_in_any_case(self) -> None:
        producer = opened(Window(items=100, small=0, most=1000))
        assert producer.room(300) == 3
        assert producer.room(5000) == 1
        producer.items(1, 5000, None)
        assert not producer.may_send
        producer.receive(Credit(1))
        assert producer.may_send

    def test_a_window_that_is_widened(self) -> None:
        producer = opened(Window(items=1, small=0))
        producer.items(1, 1, None)
        assert not producer.may_send
        producer.receive(Widen(Window(items=3, small=0)))
        producer.items(0, 1, None)
        producer.items(2, 1, None)
        assert producer.under_way == [1, 0, 2]
        assert not producer.may_send

    def test_credit_of_an_earlier_opening_is_ignored(self) -> None:
        producer = opened(Window(items=1, small=0))
        producer.items(1, 1, None)
        producer.receive(Open(2, None))
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

    def test_a_failure_before_the_first_opening_belongs_to_the_start(self) -> None:
        producer, consumer = Producer(Window(items=1)), Consumer()
        frame = producer.failed("no such module")
        assert frame.opening == START
        consumer.open(None)
        assert consumer.receive(frame) is frame
        assert consumer.ended

    @pytest.mark.parametrize("frame", [Open(1, None), Credit(2)])
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
        with pytest.raises(ProtocolError, match="told to leave"):
            consumer.open(None)

    def test_nothing_comes_after_the_end(self) -> None:
        consumer = Consumer()
        consumer.open(None)
        consumer.receive(End(1))
        with pytest.raises(ProtocolError, match="ended or not begun"):
            consumer.receive(Items(1, 1, 1, None))


def opened(window: Window) -> Producer:
    producer = Producer(window)
    producer.receive(Open(1, None))
    return producer
