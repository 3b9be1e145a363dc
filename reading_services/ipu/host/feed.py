"""The loading process of an accessor, seen by its owner: it is started, received from, and ended.

Waiting for a frame also ends when the process ends. The frames that it sent before come first. Closing escalates:
a frame that asks the process to exit, then SIGTERM, then SIGKILL. The interpreter closes it at its exit at the latest.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from contextlib import suppress
from multiprocessing import forkserver
from typing import Any

from datapipes.errors import WorkerDied
from datapipes.position.forks import OwnerProcess
from reading_services.ipu.host.feeding import FeedJob, Parcel, feed
from reading_services.ipu.host.sources import EpochSource
from reading_services.ipu.names.custom_types import registered
from reading_services.ipu.names.enums import SharingStrategy
from reading_services.workers.process.members import (
    STARTS_WORKERS,
    UNGUARDED,
    PoolProcess,
    begin,
    end,
    file_for_stacks,
    how_it_ended,
)
from reading_services.workers.restarts import BEFORE_ITS_FIRST
from reading_services.workers.transport import process
from reading_services.workers.transport.pipes import Poller
from reading_services.workers.transport.protocol import Close, ToConsumer, ToProducer, Window

_METHODS = {
    SharingStrategy.SharedMemory: "spawn",
    SharingStrategy.FileSystem: "spawn",
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
}


class Feed:
    """One loading process of an accessor."""

    def __init__(
        self, source: EpochSource, strategy: SharingStrategy, window: Window, load_indefinitely: bool, seed: int
    ) -> None:
        method = _METHODS[strategy]
        context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            _preload()
        sent = source, registered()
        parcel = None if method == "fork" else _parcel(sent, on_disk=strategy == SharingStrategy.FileSystem)
        link = process.Pair(context, _room())
        stacks = file_for_stacks()
        job = FeedJob(
            link.producer,
            parcel or sent,
            window,
            load_indefinitely,
            seed,
            process.SharedFd(stacks),
            os.getpid(),
            multiprocessing.get_start_method(),
        )
        begun = begin(context, feed, job, "accessor", daemon=False)  # a loader's workers are children of it
        self._member = PoolProcess("the accessor's process", begun, stacks)
        self._link = link.consumer
        link.producer_started()
        link.consumer_is_here()
        self._death = _death_of(begun)
        self._poller = Poller([self._link.elements.fileno(), self._death], [self._link.control])
        self._origin = OwnerProcess()
        self._lock = threading.Lock()
        self._has_spoken = False
        self.closed = False
        if parcel is not None:
            self._fill(parcel)

    def _fill(self, parcel: Parcel) -> None:
        try:
            parcel.fill()
        except BaseException:
            self.close(Close())
            raise
        finally:
            parcel.close()

    @property
    def pid(self) -> int:
        """The process id."""
        pid: int = self._member.process.pid
        return pid

    def send(self, frame: ToProducer) -> None:
        """Send a frame. If the process has ended, the next ``receive`` raises."""
        self._origin.must_be_here("the accessor's process and elements")
        with suppress(OSError):
            self._link.send(frame)

    def receive(self, wait: bool = True) -> ToConsumer | None:
        """Return the next frame, or None if ``wait`` is False and there is none. Raise WorkerDied after the last."""
        self._origin.must_be_here("the accessor's process and elements")
        while True:
            found = self._poller.wait(None if wait else 0)
            if not found:
                return None
            gone = self._death in found
            try:
                if (frame := self._link.receive()) is not None:
                    self._has_spoken = True
                    return frame
            except (EOFError, OSError):
                gone = True
            if not gone:
                continue
            if self.closed:
                raise WorkerDied(f"{self._member} was ended by another thread")
            how = how_it_ended(self._member.process)
            if self._member.process.exitcode == STARTS_WORKERS:
                raise WorkerDied(UNGUARDED)
            when = "in the middle of its work" if self._has_spoken else BEFORE_ITS_FIRST
            raise WorkerDied(f"{self._member} {how}, {when}")

    def close(self, farewell: ToProducer) -> None:
        """End the process. A second call does nothing."""
        with self._lock:
            if self.closed or not self._origin.is_here:
                return
            self.closed = True
        self.send(farewell)
        self._link.close()
        end([self._member])
        os.close(self._death)


def _parcel(sent: Any, on_disk: bool) -> Parcel:
    try:
        return Parcel(sent, on_disk)
    except Exception as error:
        error.add_note("  a dataset is pickled for the accessor's process, except with SharingStrategy.Fork")
        raise


def _death_of(begun: Any) -> int:
    """Return a descriptor that is readable when a process has ended. Its sentinel would wait for its children, too."""
    try:
        return os.pidfd_open(begun.pid)
    except ProcessLookupError:  # it has ended, and the fork server has reaped it
        return os.dup(begun.sentinel)


def _room() -> int:
    """Return the bytes that elements may take, sent and kept ones together. Memory is only used once it is written."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _preload() -> None:
    """Preload the fork server with the modules that every process of an accessor needs, unless it has them."""
    server: Any = vars(forkserver)["_forkserver"]  # only this object has the earlier preloads
    if feed.__module__ not in server._preload_modules:
        multiprocessing.set_forkserver_preload([*server._preload_modules, feed.__module__])
