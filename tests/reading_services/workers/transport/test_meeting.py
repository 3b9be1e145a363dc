"""Only a caller that knows the key is let in, and the proof has a time limit."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from reading_services.cluster.member import MemberTask, _met, consumer_end, producer_end
from reading_services.network.proof import Refused
from reading_services.workers.process.main import packed
from reading_services.workers.transport import listener
from reading_services.workers.transport.listener import Listener, call
from reading_services.workers.transport.pipes import Poller, until_ready
from reading_services.workers.transport.process import PipeConsumerEnd, PipeProducerEnd
from reading_services.workers.transport.protocol import EndOfStream, Items, Window


@pytest.fixture
def listens() -> Iterator[Listener]:
    with closing(Listener("127.0.0.1", "here")) as made:
        yield made


def greeted(listens: Listener) -> tuple[socket.socket, dict[str, Any]]:
    line = listens.next_caller()
    assert line is not None
    try:
        return line, listens.greet(line)
    except BaseException:
        line.close()
        raise


@pytest.mark.parametrize("machine", ["here", "elsewhere"])
def test_a_caller_is_heard(listens: Listener, machine: str) -> None:
    with ThreadPoolExecutor() as threads:
        heard = threads.submit(greeted, listens)
        there = call(listens.address, machine, {"number": 3})
        here, said = heard.result(10)
    with closing(here), closing(there):
        assert said == {"number": 3}
        assert (here.family == socket.AF_UNIX) == (machine == "here")


@pytest.mark.parametrize("machine", ["here", "elsewhere"])
def test_who_has_another_key_is_hung_up_on_by_both(listens: Listener, machine: str) -> None:
    with ThreadPoolExecutor() as threads:
        heard = threads.submit(greeted, listens)
        with pytest.raises(Refused, match="the process that listens there does not know the key"):
            call({**listens.address, "key": "00" * 32}, machine, {"number": 3})
        with pytest.raises(Refused, match="closed the connection before it proved"):
            heard.result(10)


def test_a_caller_that_does_not_prove_itself_is_not_heard(listens: Listener) -> None:
    with ThreadPoolExecutor() as threads:
        heard = threads.submit(greeted, listens)
        with closing(socket.create_connection((listens.address["host"], listens.address["port"]), 10)) as line:
            line.sendall(bytes(32))
            assert len(line.recv(64, socket.MSG_WAITALL)) == 64
            line.sendall(b"\x02\x00{}" + bytes(32))
            with pytest.raises(Refused, match="does not know the key"):
                heard.result(10)


def test_a_caller_that_says_nothing_is_given_up(listens: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SECONDS", 0.2)
    with ThreadPoolExecutor() as threads:
        heard = threads.submit(greeted, listens)
        with (
            closing(socket.create_connection((listens.address["host"], listens.address["port"]), 10)),
            pytest.raises(Refused, match="did not prove in time"),
        ):
            heard.result(10)


def ends(listens: Listener, machine: str) -> tuple[PipeProducerEnd, PipeConsumerEnd]:
    with ThreadPoolExecutor() as threads:
        heard = threads.submit(greeted, listens)
        there = call(listens.address, machine, {})
        here, _ = heard.result(10)
    consumer = consumer_end(here, 1 << 24)
    return producer_end(there), consumer


@pytest.mark.parametrize("size", [10, 1 << 13, 1 << 20, 1 << 23])
@pytest.mark.parametrize("machine", ["here", "elsewhere"])
def test_elements_arrive_writable_and_whole(listens: Listener, machine: str, size: int) -> None:
    import numpy

    producer, consumer = ends(listens, machine)
    sent: list[Any] = [numpy.arange(size), {"name": "a", "rows": numpy.ones(3)}, numpy.arange(size, dtype=numpy.int8)]
    expected: list[Any] = [sent[0].copy(), dict(sent[1]), sent[2].copy()]
    body, total = packed(sent)
    writing = threading.Thread(target=producer.send, args=(Items(1, 3, total, body),))
    writing.start()
    while (frame := consumer.receive()) is None:
        until_ready(consumer.elements.fileno(), select.POLLIN)
    writing.join(300)
    assert isinstance(frame, Items)
    numbers, named, small = frame.body.unpack()
    assert numpy.array_equal(numbers, expected[0])
    assert numpy.array_equal(named["rows"], expected[1]["rows"])
    assert numpy.array_equal(small, expected[2])
    assert numbers.flags.aligned
    numbers += 1
    assert numpy.array_equal(small, expected[2])
    assert consumer.overflows == (machine == "here" and size == 1 << 23)
    producer.close()
    consumer.close()


@pytest.mark.parametrize("machine", ["here", "elsewhere"])
def test_home_hears_while_it_has_more_to_say_than_a_connection_holds(listens: Listener, machine: str) -> None:
    producer, consumer = ends(listens, machine)
    poller = Poller([consumer.elements.fileno()], [consumer.control])
    consumer.control.put(bytes(20 << 20))
    consumer.control.flush()
    producer.send(EndOfStream(1))  # before it has read anything
    assert poller.wait(300) == [consumer.elements.fileno()]
    assert consumer.receive() == EndOfStream(1)
    with ThreadPoolExecutor() as threads:
        read = threads.submit(producer.control.get, True)
        while not consumer.control.is_empty:
            assert poller.wait(0.1) == []
        message = read.result(10)
    assert message is not None
    assert len(message) == 20 << 20
    producer.send(EndOfStream(1))
    assert poller.wait(300) == [consumer.elements.fileno()]
    assert consumer.receive() == EndOfStream(1)
    producer.close()
    assert poller.wait(300) == [consumer.elements.fileno()]  # that it has gone
    consumer.close()


def test_listening_leaves_nothing() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with closing(Listener("127.0.0.1", "here")):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_strangers_do_not_keep_the_dispatcher_from_its_workers() -> None:
    listens = Listener("127.0.0.1", "here")
    with ThreadPoolExecutor() as threads, closing(socket.socket()) as silent, closing(socket.socket()) as leaves:
        met = threads.submit(_met, listens, MemberTask(0, 2, b"", Window(items=1), {}, 1 << 20))
        for stranger in (silent, leaves):
            stranger.connect((listens.address["host"], listens.address["port"]))
        leaves.close()
        lines = [call(listens.address, "elsewhere", {"number": number}) for number in (1, 0)]
        ends = met.result(10)
        ends[1].send(EndOfStream(3))
        with closing(lines[0]), closing(lines[1]):
            assert lines[0].recv(1)
        for end in ends:
            end.close()
