"""The pool of worker threads of this process: nothing is pickled and nothing is copied.

They speak the same protocol as worker processes, over the link within a process. A thread cannot be killed: one that is
stuck in a function of the user's is left behind, as a daemon, and told to leave when it comes back. Whoever waits for a
message is woken when another thread leaves the opening or ends the pool. In a fork of the process there are no threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.errors import WorkersLeft, WorkerTimeout
from datapipes.messages.exception_copies import twin_of
from datapipes.position.forks import OwnerProcess
from reading_services.interface.service import WorkerInfo, set_worker_info
from reading_services.workers.dispatched import Asking, asking_of
from reading_services.workers.dispatcher import Dispatcher
from reading_services.workers.transport.inline import Arrivals, ConsumerEnd, DealtEnd, DispatcherEnds, pair
from reading_services.workers.transport.protocol import Consumer, ToConsumer
from reading_services.workers.worker import Loop, Making, Order, PoolPlan, Server, WorkerEpochs, numbered, part_of

_PATIENCE = 2.0  # seconds for all threads to leave
_WAKE = -1, None  # arrives from no worker, and has whoever waits look around


@dataclass
class _Worker:
    number: int
    link: ConsumerEnd
    thread: threading.Thread
    consumer: Consumer = field(default_factory=Consumer)
    frames: deque[ToConsumer] = field(default_factory=deque)


class ThreadPool:
    """The pool of all worker threads of a service."""

    def __init__(self, plan: PoolPlan) -> None:
        self.count = count = plan.workers
        self._timeout = plan.timeout
        self._opening = 0
        self._arrived: Arrivals = SimpleQueue()
        self._origin = OwnerProcess()
        self._left = self._closed = False
        self._workers: list[_Worker] = []
        self._dispatcher: threading.Thread | None = None
        self._ends = DispatcherEnds(count)
        parts = [part_of(plan.graph, WorkerInfo(count, number), plan.init_fn) for number in range(count)]
        for number, part in enumerate(parts):
            here, there = pair(self._arrived, number)
            asking = asking_of(part)
            if plan.dispatched is not None:
                asking.link = DealtEnd(self._ends, number)
            info = WorkerInfo(count, number)
            epochs = WorkerEpochs(part, plan.reset_fn, info)
            asking.keeping = epochs.keeping
            of_epoch = partial(_of_epoch, epochs, asking)
            making = Making(of_epoch, epochs.keeping, plan.window, _as_they_are, _Raised)
            server = Server(there, making, asking.leave)
            self._workers.append(_Worker(number, here, _thread_of(server, info, f"worker {number}")))
        if plan.dispatched is not None:
            info = WorkerInfo(count, 0)
            epochs = WorkerEpochs(structure.unfold(plan.dispatched), plan.reset_fn, info)
            making = Making(epochs.graph_of, epochs.keeping, plan.window, _as_they_are, _Raised)
            self._dispatcher = _thread_of(Dispatcher(self._ends, count, making), info, "dispatcher")

    @property
    def _threads(self) -> list[threading.Thread]:
        dispatchers = [] if self._dispatcher is None else [self._dispatcher]
        return [*(worker.thread for worker in self._workers), *dispatchers]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def __repr__(self) -> str:
        return f"{self.count} worker threads"

    def open(self, orders: Sequence[Order | None]) -> None:
        """Begin an opening on the workers that are given an order."""
        self._must_run()
        self._left = False
        self._opening += 1
        for worker, order in zip(self._workers, numbered(orders, self._opening), strict=True):
            worker.frames.clear()
            if order is not None:
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
            try:
                number, arrived = self._arrived.get(timeout=self._timeout)
            except Empty:
                raise WorkerTimeout(
                    f"{asked[0].thread.name} (a thread) has sent nothing for {self._timeout} seconds (timeout=...)"
                ) from None
            if arrived is not None:
                self._workers[number].frames.append(arrived)
        raise WorkersLeft("this iteration was left, or its workers were ended, while an element was waited for")

    def close(self) -> None:
        """Have all threads leave; calling it again does nothing."""
        if self._closed:
            return
        self._left = self._closed = True
        self._arrived.put(_WAKE)
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


def _thread_of(loop: Loop, info: WorkerInfo, name: str) -> threading.Thread:
    """A thread that runs a loop."""

    def run() -> None:
        set_worker_info(info)
        loop.run()

    return threading.Thread(target=run, name=f"loader2 {name}", daemon=True)
