"""sharding_round_robin_dispatch: a part of the graph that one process runs for all workers.

The dispatcher makes the elements of that part once and deals them out: element k is for worker k modulo their number.
It serves each worker over a link of its own, with that link's window; the worker whose turn it is holds up the others
when it is slow. Only when another one has nothing left to do more is dealt, and kept for those who are slow: a worker
whose elements are all left out must not wait for one that, in the end, waits for it.

Positions: with its elements a worker is told the dispatcher's position behind all elements that were dealt until then,
as long as looking at positions takes a small share of the time. A worker that resumes hands over what it was told and
how many elements it has taken; the dispatcher begins at the earliest of these positions and passes over what the others
have had. It begins when all who take part have asked, or have said that they will not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from datapipes.description import passes
from datapipes.errors import consumes_element
from datapipes.messages.warnings import warn
from reading_services.workers.dispatched import Absent, Mishap, PartRequest
from reading_services.workers.portable import note_unsendable
from reading_services.workers.transport.packing import unpacked
from reading_services.workers.transport.protocol import START, Credit, Open, Producer, ToConsumer, ToProducer, Window
from reading_services.workers.worker import Loop, Making


class Links(Protocol):
    """The dispatcher's ends of its links with all workers."""

    def send(self, number: int, frame: ToConsumer) -> None:
        """Send a message to a worker."""

    def receive(self, wait: bool) -> tuple[int, ToProducer] | None:
        """A message of some worker; None if there is none and nobody wants to wait. EOFError if all have gone."""


class _Worker:
    """The dispatcher's record of one worker."""

    def __init__(self, window: Window) -> None:
        self.producer = Producer(window)
        self.share: PartRequest | None = None
        self.kept: deque[Callable[[], ToConsumer]] = deque()
        """The messages that were dealt to it and not yet sent; the one of the end may be sent at any time."""
        self.ends = False

    def forget(self) -> None:
        """Drop what was kept."""
        self.kept.clear()
        self.ends = False

    @property
    def takes_part(self) -> bool:
        return self.producer.opening is not None and self.share is not None

    @property
    def starves(self) -> bool:
        return not self.kept and self.producer.has_nothing

    def room(self, size: int) -> int:
        """Number of elements of about this size that it has room for."""
        return 0 if self.kept else self.producer.room(size)

    def had(self, ordinal: int) -> bool:
        """Whether it has had its element of this number before it resumed."""
        return self.share is not None and ordinal < self.share.taken


class Dispatcher(Loop):
    """The loop of the dispatcher."""

    def __init__(self, links: Links, workers: int, making: Making) -> None:
        super().__init__(making)
        self._links = links
        self._workers = [_Worker(making.window) for _ in range(workers)]
        self._key = START  # the opening that is asked for
        self._absent: set[int] = set()  # who will not ask for its share of it
        self._dealt = 0
        self._unread: list[tuple[int, ToProducer]] = []  # a message that came while elements were made, if there is one
        self._start: tuple[Any, int] | None = None  # the position before the first element, until another is known

    @property
    def gone(self) -> bool:
        return all(worker.producer.gone for worker in self._workers)

    def _serve(self) -> None:
        for number, worker in enumerate(self._workers):
            self._links.send(number, worker.producer.started())
        while not self.gone:
            room = self._room()
            received = self._unread.pop() if self._unread else self._links.receive(wait=not room)
            if received is not None:
                self._receive(*received)
            elif room:
                self._make(room)

    # -- who asks for what ---------------------------------------------------------------------------------------------

    def _receive(self, number: int, frame: ToProducer) -> None:
        worker = self._workers[number]
        worker.producer.receive(frame)
        if isinstance(frame, Open):
            self._asked(number, frame.order)
        elif worker.producer.opening is None:
            worker.forget()
        else:
            self._send_kept(number)

    def _asked(self, number: int, share: PartRequest | Absent) -> None:
        worker = self._workers[number]
        worker.forget()
        if share.order.key < self._key:  # of an opening that has been abandoned meanwhile
            self._links.send(number, worker.producer.end())
            return
        if share.order.key > self._key:
            self._next_opening(share.order.key, number)
        if isinstance(share, Absent):
            self._absent.add(number)
            self._links.send(number, worker.producer.end())
        else:
            worker.share = share
        if self._session is None and {*self._absent, *self._with_shares()} >= set(share.order.crowd):
            self._begin()

    def _next_opening(self, key: int, asked_by: int) -> None:
        self._leave_session()
        self._key = key
        self._absent.clear()
        for number, worker in enumerate(self._workers):
            if worker.producer.opening is not None and number != asked_by:  # it waits for what nobody wants any more
                worker.forget()
                self._links.send(number, worker.producer.end())
            worker.share = None

    def _with_shares(self) -> list[int]:
        return [number for number, worker in enumerate(self._workers) if worker.share is not None]

    def _taking_part(self) -> list[int]:
        return [number for number, worker in enumerate(self._workers) if worker.takes_part]

    def _begin(self) -> None:
        shares = [worker.share for worker in self._workers if worker.share is not None]
        if not shares:
            return
        first = min(shares, key=lambda share: share.dealt)
        try:
            graph = self._open_graph(first.order)
            run = replace(first.order.run.alone(), passes=passes.numbers(graph))
            if self._record is not None:
                self._record.making(first.dealt, 0)
            self._open(self._watching(graph, first.order.dealing), run, unpacked(first.above))
        except BaseException as error:
            for number in self._taking_part():
                self._refuse(number, error)
        self._dealt = first.dealt
        self._start = None if first.above is not None else self._behind_all(in_any_case=True)

    def _refuse(self, number: int, error: BaseException) -> None:
        self._links.send(number, self._workers[number].producer.failed(self._failure(error)))

    # -- making and dealing --------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """Number of elements that may be made now, those of workers who want no more among them."""
        takers = self._taking_part()
        if self._session is None or not takers:
            return 0
        count = len(self._workers)
        room, needed = self._at_once * count, 0
        for number in takers:
            worker = self._workers[number]
            before = (number - self._dealt) % count  # how many come before the next one of this worker
            room = min(room, before + count * worker.room(self._average))
            if worker.starves:
                needed = max(needed, before + 1)
        return max(room, needed)

    def _make(self, room: int) -> None:
        session = self._session
        if session is None:
            return
        chunk: list[Any] = []
        room = self._at_most(room, self._dealt)
        if self._record is not None:
            self._record.making(self._dealt, room)
        error, sent = self._pulled(session, room, chunk, self._at_once * len(self._workers))
        made = len(chunk)
        if self._record is not None:
            self._record.making(self._dealt + made, 0)
        self._dealt += made
        position = None if error is not None else self._behind_all()
        self._deal(chunk, self._dealt - made, position or self._start, self._errors())
        if position is not None:
            self._start = None
        if session.passes_over(error):  # home has counted it
            error = None
        elif error is not None:
            self._deal_error(error)
            error = None  # it keeps the frames that it went through, and with them this one
        elif sent + made < room:
            errors = self._errors()
            self._leave_session()
            for number in self._taking_part():
                worker = self._workers[number]
                worker.kept.append(partial(worker.producer.end, errors))
                worker.ends = True
                self._send_kept(number)

    def _deal_error(self, error: BaseException) -> None:
        first = self._dealt
        self._dealt += consumes_element(error)
        mishap = Mishap(self._failure(error), self._dealt - first)
        self._deal([mishap], first, self._behind_all(in_any_case=True), self._errors())

    def _send_early(self, chunk: list[Any]) -> int:
        there = chunk[:]
        del chunk[: len(there)]
        self._dealt += len(there)
        # The counts of errors are those of the elements that are being made, too: they come with the next message.
        self._deal(there, self._dealt - len(there), self._start, errors=None)
        if self._record is not None:
            self._record.made(len(there))
        while not self._unread and (received := self._links.receive(wait=False)) is not None:
            if isinstance(received[1], Credit):
                self._receive(*received)
            else:
                self._unread.append(received)
        return len(there)

    def _deal(
        self, chunk: list[Any], first: int, position: tuple[Any, int] | None, errors: dict[str, int] | None
    ) -> None:
        """Deal each worker its part of the elements from the given number on."""
        count = len(self._workers)
        for number in self._taking_part():
            offset = (number - first) % count
            part = chunk[offset::count]
            had = sum(self._workers[number].had((first + offset) // count + i) for i in range(len(part)))
            if part[had:]:
                self._keep(number, part[had:], position, errors)
                self._send_kept(number)

    def _keep(
        self, number: int, part: list[Any], position: tuple[Any, int] | None, errors: dict[str, int] | None
    ) -> None:
        try:
            body, size = self._pack(part)
        except Exception as error:
            if len(part) == 1:
                if self._session is not None:
                    note_unsendable(error, part[0], self._session.description)
                self._keep(number, [Mishap(self._failure(error), 1)], position, errors)
            else:
                for element in part:  # one of them cannot be sent; whoever resumes in between passes over the others
                    self._keep(number, [element], None, errors)
            return
        self._average = max(size // len(part), 1)
        worker = self._workers[number]
        count = part[0].count if type(part[0]) is Mishap else len(part)
        worker.kept.append(partial(worker.producer.items, count, size, body, position, errors))

    def _send_kept(self, number: int) -> None:
        worker = self._workers[number]
        while worker.kept and worker.producer.opening is not None:
            if not worker.producer.may_send and not (worker.ends and len(worker.kept) == 1):
                return
            self._links.send(number, worker.kept.popleft()())

    def _behind_all(self, in_any_case: bool = False) -> tuple[Any, int] | None:
        """The position behind all that was dealt, and how many elements that were, if looking is cheap."""
        if not (in_any_case or self._looking.is_cheap()):
            return None
        started = perf_counter()
        position = self._position()
        self._looking.took(perf_counter() - started)
        if isinstance(position, str):
            with suppress(UserWarning):  # where warnings are errors, nobody is there to catch one
                warn(f"{position}; until then a resume deals out again what was dealt since the position was known")
            return None
        return None if position is None else (position, self._dealt)
