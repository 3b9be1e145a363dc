"""Host of worker threads, in this process: nothing is pickled and nothing is copied.

They speak the same protocol as worker processes, over the link within a process. A thread cannot be killed. A thread
that is stuck in a user's function is left behind as a daemon, and leaves when the function returns. A fork of the
process has no threads.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, ClassVar

from datapipes.description import structure
from datapipes.description.structure import Pipe
from datapipes.messages.exception_copies import twin_of
from datapipes.messages.stacks import stack_of
from reading_services.interface.service import WorkerInfo, set_worker_info
from reading_services.workers.dispatched import DispatchClient, asking_of
from reading_services.workers.dispatcher import Dispatcher
from reading_services.workers.pool import MemberHost, Number
from reading_services.workers.transport.inline import (
    Arrivals,
    DispatcherEnds,
    ThreadConsumerEnd,
    ThreadDispatchEnd,
    pair,
)
from reading_services.workers.transport.protocol import ToConsumer, ToProducer, WorkerEnd
from reading_services.workers.worker import (
    LoopConfig,
    Order,
    PoolSpec,
    ProducerLoop,
    WorkerEpochs,
    WorkerLoop,
    worker_graph,
)

_PATIENCE = 2.0  # seconds for all threads to leave


class ThreadHost(MemberHost):
    """Threads of this process."""

    members: ClassVar[str] = "worker threads"

    def __init__(self, plan: PoolSpec) -> None:
        self._plan = plan
        self._arrived: Arrivals = SimpleQueue()
        self._links: dict[int, ThreadConsumerEnd] = {}
        self._threads: dict[Number, threading.Thread] = {}
        self._ends: DispatcherEnds | None = None

    def start(self, numbers: Collection[int]) -> None:
        if self._plan.dispatched is not None and self._ends is None:
            self._ends = DispatcherEnds(self._plan.workers)
            info = WorkerInfo(self._plan.workers, 0)
            epochs = WorkerEpochs(structure.unfold(self._plan.dispatched), self._plan.reset_fn, info)
            making = LoopConfig(epochs.graph_of, self._plan.window, _as_they_are, _ThreadError)
            self._run(None, Dispatcher(self._ends, self._plan.workers, making), info)
        for number in numbers:
            self._start_worker(number)

    def _start_worker(self, number: int) -> None:
        info = WorkerInfo(self._plan.workers, number)
        graph = worker_graph(self._plan.graph, info, self._plan.init_fn)
        asking = asking_of(graph)
        if self._ends is not None:
            asking.link = ThreadDispatchEnd(self._ends, number)
        epochs = WorkerEpochs(graph, self._plan.reset_fn, info)
        of_epoch = partial(_of_epoch, epochs, asking)
        making = LoopConfig(of_epoch, self._plan.window, _as_they_are, _ThreadError)
        self._links[number], there = pair(self._arrived, number)
        self._run(number, WorkerLoop(there, making, asking.leave), info)

    def _run(self, number: Number, loop: ProducerLoop, info: WorkerInfo) -> None:
        """Start the thread of a loop, which reports its end unless it was closed."""
        arrived = self._arrived  # a reference to this host would keep it alive, and with it the thread

        def run() -> None:
            set_worker_info(info)
            how = "has left"
            try:
                loop.run()
            except BaseException as error:  # the interpreter would print it, and the pool would not know
                how = f"was ended by {error!r:.500}"
            if not loop.gone:
                arrived.put((number, _end(number, how)))

        thread = threading.Thread(target=run, name=f"loader2 {_named(number)}", daemon=True)
        self._threads[number] = thread
        thread.start()

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, number: int, frame: ToProducer) -> None:
        self._links[number].send(frame)

    def wait(self, seconds: float | None) -> list[tuple[Number, ToConsumer]] | None:
        try:
            came = [self._arrived.get(timeout=seconds)]
        except Empty:
            return None
        came += [self._arrived.get() for _ in range(self._arrived.qsize())]
        return [(number, frame) for number, frame in came if frame is not None]

    def wake(self) -> None:
        self._arrived.put((None, None))

    def was_woken(self) -> None:
        """Nothing is to do: ``wait`` passes over a late one."""

    # -- what goes wrong, and ending -----------------------------------------------------------------------------------

    def give_up_dispatcher(self) -> list[tuple[Number, ToConsumer]]:
        return [(None, _end(None, "has left"))]

    def stacks_of(self, number: int) -> str:
        return stack_of(self._threads[number])

    def end(self, farewells: Sequence[tuple[int, ToProducer]]) -> None:
        for number, farewell in farewells:
            self._links[number].send(farewell)
        if self._ends is not None:
            self._ends.close()
        until = monotonic() + _PATIENCE
        for thread in self._threads.values():
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - monotonic()))
        self._links, self._threads, self._ends = {}, {}, None

    def close(self) -> None:
        """Nothing is to do: ``end`` has freed everything."""


def _end(number: Number, how: str) -> WorkerEnd:
    return WorkerEnd(number, f"{_named(number)} (a thread)", how)


def _named(number: Number) -> str:
    return "dispatcher" if number is None else f"worker {number}"


@dataclass(frozen=True, slots=True)
class _ThreadItems:
    """A chunk of elements, neither packed nor copied."""

    elements: list[Any]

    def unpack(self) -> list[Any]:
        return self.elements


@dataclass(frozen=True, slots=True)
class _ThreadError:
    """An error of a worker thread. The main thread raises a copy, because raising changes an error."""

    raised: BaseException

    def error(self) -> BaseException:
        return twin_of(self.raised)


def _as_they_are(elements: list[Any]) -> tuple[Any, int]:
    return _ThreadItems(list(elements)), 0  # the worker empties its own list


def _of_epoch(epochs: WorkerEpochs, asking: DispatchClient, order: Order) -> Pipe:
    asking.ordered(order)
    return epochs.graph_of(order)
