"""The main functions of worker and dispatcher processes, around the worker's loop.

A worker leaves after a farewell, when its link breaks, and when the main process is gone, which a thread waits for.
Ctrl-C at a terminal reaches all processes. The main process decides its effect, and workers ignore it. SIGTERM and
SIGHUP end a worker, and the program's handlers of them do not run in it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pickle
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from datapipes.description.structure import Pipe
from datapipes.memory.batches import batches_from
from datapipes.position import global_draws
from datapipes.position.parent_watch import leave_with
from datapipes.position.seeds import derive
from reading_services.interface.service import WorkerInfo, set_worker_info
from reading_services.workers.call_record import CallRecord
from reading_services.workers.dispatched import asking_of
from reading_services.workers.dispatcher import Dispatcher
from reading_services.workers.failures import Failure
from reading_services.workers.generators import Generators
from reading_services.workers.process.members import leave_inherited_server
from reading_services.workers.process.signals import hear_ends, replace_handlers
from reading_services.workers.transport.packing import LazyPickle, pickled
from reading_services.workers.transport.process import (
    BlockingConsumerEnd,
    PipeConsumerEnd,
    PipeProducerEnd,
    PipeProducerEnds,
    SharedBytes,
    SharedFd,
)
from reading_services.workers.transport.protocol import EndReason, Window, WorkerEnd
from reading_services.workers.worker import LoopConfig, Order, WorkerEpochs, WorkerLoop, worker_graph

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # in glibc's malloc.h
_KEPT = 1 << 25
"""Bytes of freed memory that a worker keeps: the elements of a chunk and of the next one."""


@dataclass
class WorkerJob:
    """The arguments of a worker process."""

    link: PipeProducerEnd
    info: WorkerInfo
    graph: Any
    """``worker_job`` of the pool's spec, or its pickle, in ``SharedBytes`` on this machine."""
    window: Window
    stacks: SharedFd
    """A file for the stacks of all threads, written when the parent asks for them."""
    record: SharedFd
    """A file for the record of its work."""
    parent: int
    dispatch: PipeConsumerEnd | None = None
    """The link with the dispatcher, if there is one."""
    place: str = ""
    """Its machine, for errors, if that is not the one of the main process."""


def work(job: WorkerJob) -> None:
    """Run a worker's process: its main function."""
    settle(job.parent, job.stacks)
    set_worker_info(job.info)
    where = f"worker {job.info.worker_id} (process {os.getpid()}{job.place})"
    try:
        graph, init_fn, reset_fn = _opened(job.graph)
        hear_ends()
        graph = worker_graph(graph, job.info, init_fn)
        asking = asking_of(graph)
        asking.link = None if job.dispatch is None else BlockingConsumerEnd(job.dispatch)
    except BaseException as error:
        job.link.send(could_not_start(job.info.worker_id, where, error))
        return
    epochs = WorkerEpochs(graph, reset_fn, job.info)
    generators = Generators()
    global_draws.watch(generators)
    batches_from(job.link.writer.reserve)

    def of_epoch(order: Order) -> Pipe:
        generators.seed(order.seed)
        asking.ordered(order)
        return epochs.graph_of(order)

    failure = partial(Failure.of, where=where)
    record = CallRecord(job.record.fd)
    making = LoopConfig(of_epoch, job.window, packed, failure, generators, LazyPickle.of, record)
    asking.wait_for_start()
    WorkerLoop(job.link, making, asking.leave).run()


@dataclass
class DispatcherJob:
    """The arguments of the dispatcher's process."""

    link: PipeProducerEnd
    """The link with the main process."""
    links: list[PipeProducerEnd]
    """The links with the workers."""
    graph: Any
    """``dispatcher_job`` of the pool's spec, or its pickle as above."""
    window: Window
    stacks: SharedFd
    record: SharedFd
    parent: int
    place: str = ""


def dispatch(job: DispatcherJob) -> None:
    """Run the dispatcher's process: its main function."""
    settle(job.parent, job.stacks)
    where = f"the dispatcher (process {os.getpid()}{job.place})"
    try:
        graph, reset_fn = _opened(job.graph)
        hear_ends()
    except BaseException as error:
        job.link.send(could_not_start(None, where, error))
        return
    epochs = WorkerEpochs(graph, reset_fn, WorkerInfo(len(job.links), 0))
    generators = Generators()
    global_draws.watch(generators)

    def of_epoch(order: Order) -> Pipe:
        generators.seed(derive("dispatcher", *order.run.key))
        return epochs.graph_of(order)

    failure = partial(Failure.of, where=where)
    record = CallRecord(job.record.fd)
    making = LoopConfig(of_epoch, job.window, packed, failure, generators, LazyPickle.of, record)
    Dispatcher(PipeProducerEnds(job.links), len(job.links), making).run()


def could_not_start(number: int | None, where: str, error: BaseException) -> WorkerEnd:
    """Return the frame for a worker that could not start."""
    failure = Failure.of(error, f"{where}, while it was starting")
    return WorkerEnd(number, where, "could not start", EndReason.COULD_NOT_START, failure)


def _opened(job: Any) -> tuple[Any, ...]:
    """Load a job of the pool's spec, inherited or pickled: set its environment, and return the rest."""
    switches, *rest = _unpickled(job)
    os.environ.update(switches)
    return tuple(rest)


def _unpickled(job: Any) -> Any:
    if not isinstance(job, SharedBytes):
        return job if isinstance(job, tuple) else pickle.loads(job)
    try:
        with job.read() as data:
            return pickle.loads(data)
    finally:
        job.close()


def settle(parent: int, stacks: SharedFd, on_interrupt: Any = signal.SIG_IGN, on_end: Any = signal.SIG_DFL) -> None:
    """Set up a process of a service, before anything else. SIGTERM and SIGHUP stay blocked until ``hear_ends``."""
    replace_handlers(on_interrupt, on_end)
    keep_freed_memory()
    gc.freeze()  # a full collection would write to all that is inherited, and so copy each page of it
    faulthandler.register(signal.SIGUSR1, file=stacks.fd, all_threads=True)
    faulthandler.enable(stacks.fd)
    leave_with(parent)
    leave_inherited_server()
    torch.set_num_threads(1)


def keep_freed_memory() -> None:
    """Have the allocator keep freed memory for the next elements, unless the environment configures it.

    The elements of a chunk are freed together. By default glibc would return their memory to the system and request it
    again, with a page fault for every 4 KiB: more time than many elements take to be made.
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    with suppress(AttributeError):  # of another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)


def packed(elements: list[Any]) -> tuple[Any, int]:
    """Return a chunk of elements as the body of a frame, and its size in bytes."""
    data, buffers = pickled(elements)
    return (data, buffers), len(data) + sum(buffer.nbytes for buffer in buffers)
