"""The pool of worker threads of this process: nothing is pickled and nothing is copied.

They speak the same protocol as worker processes, over the link within a process. A thread cannot be killed: one that is
stuck in a function of the user's is left behind, as a daemon, and told to leave when it comes back. Whoever waits for a
message is woken when another thread leaves the opening or ends the pool. In a fork of the process there are no threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.errors import WorkerDied, WorkersLeft, WorkerTimeout
from datapipes.messages.exception_copies import twin_of
from datapipes.position.forks import OwnerProcess
from reading_services.interface.service import WorkerInfo, set_worker_info
from reading_services.workers.dispatched import Asking, asking_of
from reading_services.workers.dispatcher import Dispatcher
from reading_services.workers.restarts import Ended, died
from reading_services.workers.transport.inline import Arrivals, ConsumerEnd, DealtEnd, DispatcherEnds, pair
from reading_services.workers.transport.protocol import START, Consumer, ToConsumer
from reading_services.workers.worker import Loop, Making, Order, PoolPlan, Server, WorkerEpochs, numbered, part_of

_PATIENCE = 2.0  # seconds for all threads to leave
_WAKE = -1, None  # arrives from no worker, and has whoever waits look around


@dataclass
class _Worker:
    number: int
    link: ConsumerEnd
    thread: threading.Thread
    consumer: Consumer
    frames: deque[ToConsumer] = field(default_factory=deque)


class ThreadPool:
    """The pool of all worker threads of a service."""

    def __init__(self, plan: PoolPlan) -> None:
        self._plan = plan
        self.count = plan.workers
        self.alone = plan.dispatched is None
        self._timeout = plan.timeout
        self._opening = 0
        self._arrived: Arrivals = SimpleQueue()
        self._origin = OwnerProcess()
        self._left = self._closed = False
        self._workers: list[_Worker] = []
        self._dispatcher: threading.Thread | None = None
        self._ends = DispatcherEnds(self.count)
        self._died: dict[int | None, Ended] = {}  # threads that have ended without being told to; None: the dispatcher
        self._mourned: set[int | None] = set()  # those of whom that was said

    def start(self, numbers: Container[int] = ()) -> None:
        """Start the threads that were never started, those whose end was told, and among ``numbers`` all that ended.

        With a dispatcher all start together.
        """
        openings = [worker.consumer.opening for worker in self._workers] or [START] * self.count
        if not self._workers or (self._died and not self.alone):
            again: Iterable[int] = range(self.count)
            if self._workers:
                self._leave()
                self._ends = DispatcherEnds(self.count)
            self._died.clear()
            if self._plan.dispatched is not None:
                self._dispatcher = self._started_dispatcher(self._plan.dispatched)
        else:
            again = [number for number in range(self.count) if number in self._died and self._is_due(number, numbers)]
        for number in again:
            self._died.pop(number, None)
        started = {number: self._started(number, Consumer(openings[number])) for number in again}
        self._workers = [started.get(number) or self._workers[number] for number in range(self.count)]
        self._mourned.clear()

    def _is_due(self, number: int, numbers: Container[int]) -> bool:
        return number in self._mourned or number in numbers

    def _started(self, number: int, consumer: Consumer) -> _Worker:
        """Start a thread; what another one has sent to the same consumer is of an earlier opening."""
        info = WorkerInfo(self.count, number)
        graph = part_of(self._plan.graph, info, self._plan.init_fn)
        arrived: Arrivals = self._arrived
        here, there = pair(arrived, number)
        asking = asking_of(graph)
        if not self.alone:
            asking.link = DealtEnd(self._ends, number)
        epochs = WorkerEpochs(graph, self._plan.reset_fn, info)
        asking.keeping = epochs.keeping
        of_epoch = partial(_of_epoch, epochs, asking)
        making = Making(of_epoch, epochs.keeping, self._plan.window, _as_they_are, _Raised)
        thread = self._thread_of(Server(there, making, asking.leave), info, f"worker {number}")
        return _Worker(number, here, thread, consumer)

    def _started_dispatcher(self, graph: Pipe) -> threading.Thread:
        info = WorkerInfo(self.count, 0)
        epochs = WorkerEpochs(structure.unfold(graph), self._plan.reset_fn, info)
        making = Making(epochs.graph_of, epochs.keeping, self._plan.window, _as_they_are, _Raised)
        return self._thread_of(Dispatcher(self._ends, self.count, making), info, "dispatcher")

    def _thread_of(self, loop: Loop, info: WorkerInfo, name: str) -> threading.Thread:
        """A thread that runs a loop; one that ends without being told to says so."""
        number = info.worker_id if isinstance(loop, Server) else None

        def run() -> None:
            set_worker_info(info)
            how = "has left"
            try:
                loop.run()
            except BaseException as error:  # the interpreter would print it, and nobody at home would know
                how = f"was ended by {error!r:.500}"
            if not loop.gone:
                ended[number] = Ended(number, f"{name} (a thread)", how)
                arrived.put(_WAKE)

        ended, arrived = self._died, self._arrived  # and not this pool, which ends the thread when it is let go of
        thread = threading.Thread(target=run, name=f"loader2 {name}", daemon=True)
        thread.start()
        return thread

    @property
    def _threads(self) -> list[threading.Thread]:
        dispatchers = [] if self._dispatcher is None else [self._dispatcher]
        return [*(worker.thread for worker in self._workers), *dispatchers]

    def __repr__(self) -> str:
        return f"{self.count} worker threads"

    def open(self, orders: Sequence[Order | None]) -> None:
        """Begin an opening on the workers that are given an order; the others go on with what they have."""
        self._must_run()
        self._left = False
        self.start([number for number, order in enumerate(orders) if order is not None])
        self._opening += 1
        for worker, order in zip(self._workers, numbered(orders, self._opening), strict=True):
            if order is not None:
                worker.frames.clear()
                worker.link.send(worker.consumer.open(order))

    def stop(self) -> None:
        """Stop the opening: nobody wants the rest; whoever waits for it in another thread is told as well."""
        self._left = True
        self._arrived.put(_WAKE)
        for worker in self._workers:
            worker.frames.clear()
            if (frame := worker.consumer.stop()) is not None:
                worker.link.send(frame)

    def _must_run(self) -> None:
        self._origin.must_be_here("the worker threads")
        if self._closed:
            raise WorkersLeft("the workers were ended, with their reading service")

    def used_up(self, number: int, frame: Any) -> None:
        """Give a worker credit for a message."""
        self._must_run()
        worker = self._workers[number]
        if (credit := worker.consumer.used_up(frame)) is not None:
            worker.link.send(credit)

    def next_frame(self, numbers: Iterable[int]) -> tuple[int, ToConsumer]:
        """The next message of one of these workers, whichever comes first."""
        self._must_run()
        asked = [self._workers[number] for number in numbers]
        while not self._left:
            for worker in asked:
                while worker.frames:
                    frame = worker.consumer.receive(worker.frames.popleft())
                    if frame is not None:
                        return worker.number, frame
            for ended in list(self._died.values()):
                self._mourned.add(ended.worker)
                raise died(
                    ended,
                    "in the middle of its work; next() on the same iterator starts another one, which goes on without "
                    "a loss; with restart=n the service does so by itself",
                )
            try:
                number, arrived = self._arrived.get(timeout=self._timeout)
            except Empty:
                raise WorkerTimeout(
                    f"{asked[0].thread.name} (a thread) has sent nothing for {self._timeout} seconds (timeout=...)"
                ) from None
            if arrived is not None:
                self._workers[number].frames.append(arrived)
        raise WorkersLeft("this iteration was left, or its workers were ended, while an element was waited for")

    def dispatcher_died(self) -> WorkerDied:
        """The error for the dispatcher, of which a worker has said that it is gone."""
        ended = Ended(None, "the dispatcher (a thread)", "has left")
        return died(
            next((end for end in self._died.values() if end.worker is None), ended), "in the middle of its work"
        )

    def close(self) -> None:
        """Have all threads leave; calling it again does nothing."""
        if self._closed:
            return
        self._left = self._closed = True
        self._arrived.put(_WAKE)
        self._leave()

    def _leave(self) -> None:
        """Have all threads leave that run."""
        for worker in self._workers:
            worker.link.send(worker.consumer.close())
        self._ends.close()
        until = monotonic() + _PATIENCE
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(max(0.0, until - monotonic()))


@dataclass(frozen=True, slots=True)
class _Elements:
    """A chunk of elements, as they are."""

    elements: list[Any]

    def unpack(self) -> list[Any]:
        return self.elements


@dataclass(frozen=True, slots=True)
class _Raised:
    """An error, as it is; the thread that met it still has it, and is not to have what it meets at home."""

    raised: BaseException

    def error(self) -> BaseException:
        return twin_of(self.raised)


def _as_they_are(elements: list[Any]) -> tuple[Any, int]:
    return _Elements(list(elements)), 0  # the worker empties its own list


def _of_epoch(epochs: WorkerEpochs, asking: Asking, order: Order) -> Pipe:
    asking.ordered(order)
    return epochs.graph_of(order)
