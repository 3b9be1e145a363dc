"""The loading process of an accessor: it iterates a dataset for its owner, as many elements ahead as there are slots.

An opening of the protocol is a run of epochs. The end of an epoch is a message of no elements; behind it the next epoch
follows at once, but never one that is two ahead of the consumer's. Where nothing is to be loaded unasked, the opening
ends there. Each element is a message of its own, so that credit counts slots. With the very first goes what all are
like.

It leaves at once and quietly on Ctrl-C, which reaches all processes at a terminal, and on SIGTERM, and takes along the
workers that a loader has started here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from datapipes.memory.batches import batches_from
from datapipes.position.orphans import leave_at_once
from datapipes.position.seeds import derive
from reading_services.ipu.host.parcels import Parcel
from reading_services.ipu.host.sources import EpochSource
from reading_services.ipu.host.uniform import Uniform, element_of
from reading_services.ipu.names.custom_types import registerCustomArgParser
from reading_services.ipu.names.messages import logger
from reading_services.workers.failures import Failure
from reading_services.workers.generators import seed_all
from reading_services.workers.process.main import packed, settle
from reading_services.workers.transport.process import ProducerEnd, SharedFd
from reading_services.workers.transport.protocol import START, Failed, Open, Producer, ToProducer, Window

_NO_MORE: Final = object()


class EmptyDataset(ValueError):
    """A dataset without a first element."""


@dataclass
class FeedJob:
    """The arguments that the process is started with."""

    link: ProducerEnd
    source: Any
    """``(source, parsers of custom types)``, or the parcel of it where nothing is inherited."""
    window: Window
    load_indefinitely: bool
    seed: int
    stacks: SharedFd
    parent: int
    start_method: str
    """How a loader starts its workers where this process was started, and so here."""


def feed(job: FeedJob) -> None:
    """The main function of the process."""
    settle(job.parent, job.stacks, _leave)
    signal.signal(signal.SIGTERM, _leave)
    multiprocessing.set_start_method(job.start_method, force=True)
    logger.debug("AsynchronousDataAccessor worker process: %d", os.getpid())
    where = f"the accessor's process {os.getpid()}"
    try:
        source, parsers = job.source.open() if isinstance(job.source, Parcel) else job.source
        for kind, parser in parsers.items():
            registerCustomArgParser(kind, parser)
    except Exception as error:
        traceback.print_exception(error)
        job.link.send(Failed(START, Failure.of(error, f"{where}, while it was starting")))
        return
    batches_from(job.link.allocate)
    Feeder(job.link, source, job.window, job.load_indefinitely, job.seed, where).run()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach: one that is still importing would say so with a traceback."""
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def _leave(number: int, frame: Any) -> None:
    leave_at_once(0)


class Feeder:
    """The loop of the loading process."""

    def __init__(
        self, link: ProducerEnd, source: EpochSource, window: Window, load_indefinitely: bool, seed: int, where: str
    ) -> None:
        self._link = link
        self._source = source
        self._producer = Producer(window)
        self._load_indefinitely = load_indefinitely
        self._seed = seed
        self._where = where
        self._epoch = 0
        self._elements: Iterator[Any] | None = None
        self._uniform: Uniform | None = None

    def run(self) -> None:
        """Serve until the consumer says that it is enough, or is gone."""
        try:
            while not self._producer.gone:
                frame = self._link.receive(wait=not (self._may_begin or self._may_make))
                if frame is not None:
                    self._receive(frame)
                elif self._producer.opening is not None:
                    self._go_on()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # nobody is interested any more
        finally:
            self._elements = None  # a loader ends its workers with it

    @property
    def _may_begin(self) -> bool:
        """Whether the next epoch may be begun: there is none, and at most one end that the consumer has not reached."""
        return self._producer.opening is not None and self._elements is None and self._producer.under_way.count(0) < 2

    @property
    def _may_make(self) -> bool:
        return self._elements is not None and self._producer.may_send

    def _receive(self, frame: ToProducer) -> None:
        self._producer.receive(frame)
        if isinstance(frame, Open):
            self._elements = None
            self._epoch = frame.order

    def _go_on(self) -> None:
        try:
            if self._elements is None:
                seed_all(derive("accessor", self._seed, self._epoch))
                with _deaf_to_interrupts():  # workers that it starts stay so, and go when this process does
                    self._elements = self._source.epoch(self._epoch)
            else:
                self._make()
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            self._fail(error)

    def _make(self) -> None:
        """Send the next element, or the end of the epoch."""
        elements: Any = self._elements
        made = next(elements, _NO_MORE)
        if made is _NO_MORE:
            self._end()
            return
        element = element_of(made)
        del made  # nobody but the message may have an element that is handed over in the memory it was made in
        like = None
        if self._uniform is None:
            self._uniform = Uniform(element, self._source.rows_vary)
            like = self._uniform.like
        chunk: list[Any] = [like, self._uniform.tensors(element)]
        del element
        body, size = packed(chunk)
        chunk.clear()
        self._link.send(self._producer.items(1, size, body))

    def _end(self) -> None:
        self._elements = None
        if self._uniform is None:
            raise EmptyDataset("The Dataset is empty")
        if self._load_indefinitely:
            self._epoch += 1
            body, size = packed([])
            self._link.send(self._producer.items(0, size, body))
        else:
            self._link.send(self._producer.end())

    def _fail(self, error: Exception) -> None:
        self._elements = None
        if self._uniform is None:
            traceback.print_exception(error)
        self._link.send(self._producer.failed(Failure.of(error, self._where)))
