"""sharding_round_robin_dispatch: a part of the graph that one process runs for all workers.

The dispatcher makes the elements of that part once and deals them out: element k is for worker k modulo their number.
It serves each worker over a link of its own, with that link's window; the worker whose turn it is holds up the others
when it is slow, so nothing has to be buffered without bound.

Positions: with its elements a worker is told the dispatcher's position behind all elements that were dealt until then.
A worker that resumes hands over what it was told and how many elements it has taken; the dispatcher begins at the
earliest of these positions and passes over what the others have had. It begins when all who take part have asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Protocol

from datapipes.cells import Table
from datapipes.errors import UnsavableElement
from datapipes.session import Session, segment
from datapipes.structure import Pipe
from reading_services.workers.dispatched import Share
from reading_services.workers.protocol import Open, Producer, ToConsumer, ToProducer, Window
from reading_services.workers.worker import Pace, Packing


class Links(Protocol):
    """The dispatcher's ends of its links with all workers."""

    def send(self, number: int, frame: ToConsumer) -> None:
        """Send a frame to a worker."""

    def receive(self, wait: bool) -> tuple[int, ToProducer] | None:
        """A frame of some worker; None if there is none and nobody wants to wait. EOFError if all have gone."""


class Dispatcher:
    """The loop of the dispatcher."""

    def __init__(
        self,
        links: Links,
        workers: int,
        open_graph: Callable[[Share], Pipe],
        window: Window,
        pack: Packing,
        failure: Callable[[BaseException], Any],
    ) -> None:
        self._links = links
        self._count = workers
        self._open_graph = open_graph
        self._producers = [Producer(window) for _ in range(workers)]
        self._pack = pack
        self._failure = failure
        self._shares: dict[int, Share] = {}
        self._session: Session | None = None
        self._elements: Iterator[Any] = iter(())
        self._dealt = 0
        self._average = 64
        self._pace = Pace()

    def run(self) -> None:
        """Serve until all workers have gone."""
        try:
            while not all(producer.gone for producer in self._producers):
                room = self._room()
                received = self._links.receive(wait=not room)
                if received is not None:
                    self._receive(*received)
                elif room:
                    self._make(room)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # nobody is interested any more
        finally:
            self._leave_session()

    def _receive(self, number: int, frame: ToProducer) -> None:
        self._producers[number].receive(frame)
        if not isinstance(frame, Open):
            return
        share: Share = frame.order
        if any(other.key != share.key for other in self._shares.values()):
            self._leave_session()
            self._shares.clear()
            for other in self._active():
                if other != number:  # it still waits for an element that nobody wants any more
                    self._links.send(other, self._producers[other].end())
        self._shares[number] = share
        if set(self._shares) == set(share.crowd):
            try:
                self._begin()
            except BaseException as error:
                for number in self._active():
                    self._links.send(number, self._producers[number].failed(self._failure(error)))

    def _begin(self) -> None:
        first = min(self._shares.values(), key=lambda share: share.dealt)
        self._leave_session()
        self._session = Session(self._open_graph(first), first.run, first.above)
        self._elements = segment(self._session)
        self._dealt = first.dealt
        self._pace = Pace()

    def _active(self) -> list[int]:
        return [number for number, producer in enumerate(self._producers) if producer.opening is not None]

    def _room(self) -> int:
        """How many elements may be made now, those of workers who want no more among them."""
        active = self._active()
        if self._session is None or not active:
            return 0
        room = self._pace.at_once * self._count
        for number in active:
            producer = self._producers[number]
            first = (number - self._dealt) % self._count  # how many come before the next one of this worker
            room = min(room, first + self._count * (producer.room(self._average) if producer.may_send else 0))
        return room

    def _make(self, room: int) -> None:
        chunk: list[Any] = []
        error = None
        started = perf_counter()
        try:
            chunk.extend(islice(self._elements, room))
        except BaseException as raised:
            error = raised
        self._pace.took(perf_counter() - started, full=len(chunk) == self._pace.at_once * self._count)
        first, self._dealt = self._dealt, self._dealt + len(chunk)
        position = None if error is not None else self._position()
        for number in self._active():
            offset = (number - first) % self._count
            had = max(0, self._shares[number].taken - (first + offset) // self._count)
            part = chunk[offset :: self._count][had:]
            if part:
                body, size = self._pack(part)
                self._average = max(size // len(part), 1)
                self._links.send(number, self._producers[number].items(len(part), size, body, position))
        if error is not None:
            self._fail(error)
        elif len(chunk) < room:
            for number in self._active():
                self._links.send(number, self._producers[number].end())
            self._leave_session()

    def _fail(self, error: BaseException) -> None:
        """Tell the worker whose element it was; the others go on."""
        turn = self._dealt % self._count
        had = self._shares[turn].taken > self._dealt // self._count if turn in self._shares else True
        self._dealt += 1
        position = self._position()
        if self._session is not None:
            self._elements = segment(self._session)
        producer = self._producers[turn]
        if producer.opening is not None and not had:
            self._links.send(turn, producer.failed(self._failure(error), position))

    def _position(self) -> tuple[Table, int] | None:
        try:
            return None if self._session is None else (self._session.table(), self._dealt)
        except UnsavableElement:
            return None

    def _leave_session(self) -> None:
        session, self._session, self._elements = self._session, None, iter(())
        if session is not None:
            session.close()
