"""Workers that are threads of this process: nothing is pickled and nothing is copied.

They speak the same protocol as worker processes, over the link within a process. A thread cannot be killed: one that is
stuck in a function of the user's is left behind, as a daemon, and told to leave when it comes back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from datapipes.structure import Pipe
from reading_services.worker_info import WorkerInfo, set_worker_info
from reading_services.workers.failures import WorkerTimeout
from reading_services.workers.links.inline import ConsumerEnd, pair
from reading_services.workers.protocol import Consumer, ToConsumer, Window
from reading_services.workers.worker import Epochs, Order, Server, part_of

_PATIENCE = 2.0  # seconds for all threads to leave


@dataclass
class _Worker:
    number: int
    link: ConsumerEnd
    thread: threading.Thread
    consumer: Consumer = field(default_factory=Consumer)
    frames: deque[ToConsumer] = field(default_factory=deque)


class ThreadCrew:
    """All worker threads of a service."""

    def __init__(
        self, graph: Pipe, count: int, window: Window, init_fn: Any, reset_fn: Any, timeout: float | None
    ) -> None:
        self.count = count
        self._timeout = timeout
        self._arrived: SimpleQueue[tuple[int, ToConsumer]] = SimpleQueue()
        self._workers: list[_Worker] = []
        for number in range(count):
            info = WorkerInfo(count, number)
            epochs = Epochs(part_of(graph, info, init_fn), reset_fn, info)
            here, there = pair(self._arrived, number)
            server = Server(there, partial(_of_epoch, epochs), window, _as_they_are, _Raised)
            thread = threading.Thread(target=_serve, args=(server, info), name=f"loader2 worker {number}", daemon=True)
            thread.start()
            self._workers.append(_Worker(number, here, thread))

    def open(self, orders: Sequence[Order | None]) -> None:
        """Begin an opening on the workers that are given an order."""
        for worker, order in zip(self._workers, orders, strict=True):
            if order is not None:
                worker.frames.clear()
                worker.link.send(worker.consumer.open(order))

    def stop(self) -> None:
        """Say that nobody wants the rest of the opening."""
        for worker in self._workers:
            worker.frames.clear()
            if (frame := worker.consumer.stop()) is not None:
                worker.link.send(frame)

    def used_up(self, number: int, frame: Any) -> None:
        """Give a worker credit for a frame."""
        worker = self._workers[number]
        if (credit := worker.consumer.used_up(frame)) is not None:
            worker.link.send(credit)

    def next_frame(self, numbers: Iterable[int]) -> tuple[int, ToConsumer]:
        """The next frame of one of these workers, whichever comes first."""
        asked = [self._workers[number] for number in numbers]
        while True:
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
            self._workers[number].frames.append(arrived)

    def close(self) -> None:
        """Have all threads leave; calling it again does nothing."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.link.send(worker.consumer.close())
        for worker in workers:
            if worker.thread is not threading.current_thread():
                worker.thread.join(_PATIENCE)


@dataclass(frozen=True, slots=True)
class _Elements:
    """A chunk of elements, as they are."""

    elements: list[Any]

    def unpack(self) -> list[Any]:
        return self.elements


@dataclass(frozen=True, slots=True)
class _Raised:
    """An error, as it is."""

    raised: BaseException

    def error(self) -> BaseException:
        return self.raised


def _as_they_are(elements: list[Any]) -> tuple[Any, int]:
    return _Elements(list(elements)), 0  # the worker empties its own list


def _of_epoch(epochs: Epochs, order: Order) -> Pipe:
    return epochs.graph_of(order.reset)


def _serve(server: Server, info: WorkerInfo) -> None:
    set_worker_info(info)
    server.run()
