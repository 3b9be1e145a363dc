"""The loop of the dispatcher: it runs a part of the graph for all workers (sharding_round_robin_dispatch).

The dispatcher makes each element of this part once. Element k is for worker k modulo their number. Each worker has a
link with a window of its own, and a slow worker delays the others. Only if another worker has nothing left does the
dispatcher make more, and it keeps the elements of the slow ones. Otherwise a worker whose elements are all filtered out
could wait for one that, in the end, waits for it.

A snapshot of the dispatcher travels with the elements as long as the snapshot budget allows it. A worker that resumes
sends its last snapshot and the number of elements it has taken. The dispatcher opens at the earliest of these snapshots
and skips the elements that a worker has had. It begins when each worker of the opening has asked or declined.
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
from reading_services.workers.dispatched import DispatchRequest, ItemError, NotTaking
from reading_services.workers.transport.packing import unpacked
from reading_services.workers.transport.protocol import (
    START,
    Credit,
    OpenStream,
    Producer,
    ToConsumer,
    ToProducer,
    Window,
)
from reading_services.workers.worker import LoopConfig, ProducerLoop
from reading_services.workers.worker_checks import note_unsendable


class Links(Protocol):
    """The dispatcher's ends of its links with all workers."""

    def send(self, number: int, frame: ToConsumer) -> None:
        """Send a frame to a worker."""

    def receive(self, wait: bool) -> tuple[int, ToProducer] | None:
        """Return the next frame of any worker, or None without ``wait``. Raise EOFError if all workers have ended."""


class _WorkerLink:
    """The dispatcher's record of one worker."""

    def __init__(self, window: Window) -> None:
        self.producer = Producer(window)
        self.share: DispatchRequest | None = None
        self.kept: deque[Callable[[], ToConsumer]] = deque()
        """The frames that were dealt to the worker and not sent. The frame of the end needs no credit."""
        self.ends = False

    def forget(self) -> None:
        self.kept.clear()
        self.ends = False

    @property
    def takes_part(self) -> bool:
        return self.producer.opening is not None and self.share is not None

    @property
    def starves(self) -> bool:
        return not self.kept and self.producer.has_nothing

    def room(self, size: int) -> int:
        """Return how many elements of about ``size`` bytes the worker has room for."""
        return 0 if self.kept else self.producer.room(size)

    def had(self, ordinal: int) -> bool:
        """Return whether the worker has had its element of this number before it resumed."""
        return self.share is not None and ordinal < self.share.taken


class Dispatcher(ProducerLoop):
    """The loop of the dispatcher."""

    def __init__(self, links: Links, workers: int, making: LoopConfig) -> None:
        super().__init__(making)
        self._links = links
        self._workers = [_WorkerLink(making.window) for _ in range(workers)]
        self._key = START  # number of the opening that the workers ask for
        self._absent: set[int] = set()  # workers that have declined to take part in it
        self._dealt = 0
        self._unread: list[tuple[int, ToProducer]] = []  # at most one frame that came while elements were made
        self._start: tuple[Any, int] | None = None  # the table before the first element, until there is a later one

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

    # -- requests of the workers ---------------------------------------------------------------------------------------

    def _receive(self, number: int, frame: ToProducer) -> None:
        worker = self._workers[number]
        worker.producer.receive(frame)
        if isinstance(frame, OpenStream):
            self._asked(number, frame.order)
        elif worker.producer.opening is None:
            worker.forget()
        else:
            self._send_kept(number)

    def _asked(self, number: int, share: DispatchRequest | NotTaking) -> None:
        worker = self._workers[number]
        worker.forget()
        if share.order.key < self._key:  # of an opening that was abandoned since
            self._links.send(number, worker.producer.end())
            return
        if share.order.key > self._key:
            self._next_opening(share.order.key, number)
        if isinstance(share, NotTaking):
            self._absent.add(number)
            self._links.send(number, worker.producer.end())
        else:
            worker.share = share
        if self._session is None and {*self._absent, *self._with_shares()} >= set(share.order.participants):
            self._begin()

    def _next_opening(self, key: int, asked_by: int) -> None:
        self._leave_session()
        self._key = key
        self._absent.clear()
        for number, worker in enumerate(self._workers):
            if worker.producer.opening is not None and number != asked_by:  # it waits for an abandoned opening
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
            graph = self._making.open_graph(first.order)
            run = replace(first.order.run.alone(), passes=passes.numbers(graph))
            self._making.record.making(first.dealt, 0)
            self._open(self._watching(graph, first.order.dealing), run, unpacked(first.above))
        except BaseException as error:
            for number in self._taking_part():
                self._refuse(number, error)
        self._dealt = first.dealt
        self._start = None if first.above is not None else self._behind_all(in_any_case=True)

    def _refuse(self, number: int, error: BaseException) -> None:
        self._links.send(number, self._workers[number].producer.failed(self._making.failure(error)))

    # -- making and dealing --------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """Return how many elements may be made now, including those of workers that take no more."""
        takers = self._taking_part()
        if self._session is None or not takers:
            return 0
        count = len(self._workers)
        room, needed = self._at_once * count, 0
        for number in takers:
            worker = self._workers[number]
            before = (number - self._dealt) % count  # elements that come before the next one of this worker
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
        self._making.record.making(self._dealt, room)
        error, sent = self._pulled(session, room, chunk, self._at_once * len(self._workers))
        made = len(chunk)
        self._making.record.making(self._dealt + made, 0)
        self._dealt += made
        position = None if error is not None else self._behind_all()
        self._deal(chunk, self._dealt - made, position or self._start, self._errors())
        if position is not None:
            self._start = None
        if session.passes_over(error):  # the stages have counted it
            error = None
        elif error is not None:
            self._deal_error(error)
            error = None  # it refers to its frames, and through them to this one
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
        mishap = ItemError(self._making.failure(error), self._dealt - first)
        self._deal([mishap], first, self._behind_all(in_any_case=True), self._errors())

    def _send_early(self, chunk: list[Any]) -> int:
        there = chunk[:]
        del chunk[: len(there)]
        self._dealt += len(there)
        # The counts of errors include those of the elements under way. The next frame brings them.
        self._deal(there, self._dealt - len(there), self._start, errors=None)
        self._making.record.made(len(there))
        while not self._unread and (received := self._links.receive(wait=False)) is not None:
            if isinstance(received[1], Credit):
                self._receive(*received)
            else:
                self._unread.append(received)
        return len(there)

    def _deal(
        self, chunk: list[Any], first: int, position: tuple[Any, int] | None, errors: dict[str, int] | None
    ) -> None:
        """Send or keep for each worker its part of ``chunk``, which begins at element ``first``."""
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
            body, size = self._making.pack(part)
        except Exception as error:
            if len(part) == 1:
                if self._session is not None:
                    note_unsendable(error, part[0], self._session.plan.graph)
                self._keep(number, [ItemError(self._making.failure(error), 1)], position, errors)
            else:
                for element in part:  # one of them cannot be sent: a resume in between skips the others
                    self._keep(number, [element], None, errors)
            return
        self._average = max(size // len(part), 1)
        worker = self._workers[number]
        count = part[0].count if type(part[0]) is ItemError else len(part)
        worker.kept.append(partial(worker.producer.items, count, size, body, position, errors))

    def _send_kept(self, number: int) -> None:
        worker = self._workers[number]
        while worker.kept and worker.producer.opening is not None:
            if not worker.producer.may_send and not (worker.ends and len(worker.kept) == 1):
                return
            self._links.send(number, worker.kept.popleft()())

    def _behind_all(self, in_any_case: bool = False) -> tuple[Any, int] | None:
        """Return the table after all dealt elements and their number. Return None if the budget forbids a snapshot."""
        if not (in_any_case or self._looking.is_cheap()):
            return None
        started = perf_counter()
        position = self._position()
        self._looking.took(perf_counter() - started)
        if isinstance(position, str):
            with suppress(UserWarning):  # where warnings are errors, no caller could catch one here
                warn(f"{position}; until this is possible, a resume makes the elements since the last position again")
            return None
        return None if position is None else (position, self._dealt)
