"""A member of a pool, a process on some machine of a cluster: it connects to the main process and becomes a worker.

It opens two connections: one for frames, and one for heartbeats, which show each side whether the other one is alive.
This process exits when the main process is silent for too long. By then the main process has given it up and reads no
frame of it any more.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pickle
import platform
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

import torch

import reading_services
from datapipes.errors import WorkerError
from datapipes.position.parent_watch import leave_at_once
from reading_services.interface.service import WorkerInfo
from reading_services.workers.process.main import DispatcherJob, WorkerJob, could_not_start, dispatch, work
from reading_services.workers.process.signals import hold_back_ends
from reading_services.workers.transport import arena
from reading_services.workers.transport.listener import (
    BEATS,
    Address,
    Listener,
    beat,
    both_ends,
    call,
    give_memory,
    heard,
    take_memory,
)
from reading_services.workers.transport.process import PipeConsumerEnd, PipeProducerEnd, SharedFd
from reading_services.workers.transport.protocol import Window

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class MemberTask:
    """Task that the main process gives a member."""

    number: int
    """The worker's number. The dispatcher ignores it."""
    workers: int
    graph: bytes
    window: Window
    modules: dict[str, str]
    """Digests of the files that define the graph's functions and classes."""
    arena_bytes: int
    dispatcher: Address | None = None
    """The address of the dispatcher, if there is one."""


@cache
def versions() -> dict[str, str]:
    """Return the versions that have to be the same on all machines."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "torch": torch.__version__.split("+")[0],
        "loader2": _own_version(),
    }


def _own_version() -> str:
    """Return the installed version with a digest of the files: two checkouts may have the same version."""
    root, found = Path(reading_services.__file__).parents[1], hashlib.blake2b(digest_size=4)
    for package in ("datapipes", "reading_services"):
        for file in sorted((root / package).rglob("*.py")):
            found.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    try:
        version = importlib.metadata.version("loader2")
    except importlib.metadata.PackageNotFoundError:
        version = "of a folder"
    return f"{version} ({found.hexdigest()})"


def digest_of(module: str) -> str:
    """Return a digest of a module's file. Return "none" if there is no such file."""
    try:
        found = sys.modules.get(module)
        spec = importlib.util.find_spec(module) if found is None else found.__spec__
        file = None if spec is None else spec.origin
        if file is None or not os.path.isfile(file):
            return "none" if spec is None else ""
        with open(file, "rb") as opened:
            return hashlib.blake2b(opened.read(), digest_size=16).hexdigest()
    except (ImportError, ValueError, OSError):
        return "none"


def main() -> None:
    """Run the process: its identity comes by standard input, and its task over the connection."""
    hold_back_ends()  # until ``work`` or ``dispatch`` has opened the graph
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    spec = json.load(sys.stdin)
    if os.getppid() != spec["agent"]:
        leave_at_once(1)
    main_process, machine = spec["main_process"], spec["machine"]
    listens = Listener(spec["host"], machine) if spec["deals"] else None
    says = {"member": spec["member"], "has": versions(), "where": spec["where"]}
    stacks = SharedFd(spec["stacks"])
    sys.excepthook = partial(_write_down, stacks.fd)
    _hold(call(main_process, machine, {**says, "line": "life"}), spec["silence"], stacks.fd)
    link = producer_end(
        call(main_process, machine, {**says, "line": "messages", "listens": listens and listens.address})
    )
    message = link.control.get(wait=True)
    task: MemberTask = pickle.loads(message or b"")
    del message
    place = f" on {spec['where']}"
    if others := [name for name, digest in task.modules.items() if digest_of(name) != digest]:
        error = WorkerError(_OTHER_CODE.format(where=spec["where"], modules=", ".join(others)))
        link.send(could_not_start(None if spec["deals"] else task.number, f"{spec['name']}{place}", error))
        return
    record = SharedFd(spec["record"])
    if listens is not None:
        links = _met(listens, task)
        dispatch(DispatcherJob(link, links, task.graph, task.window, stacks, record, os.getppid(), place))
        return
    info = WorkerInfo(task.workers, task.number)
    dealt = None
    if task.dispatcher is not None:
        dealt = consumer_end(call(task.dispatcher, machine, {"number": task.number}), task.arena_bytes)
    work(WorkerJob(link, info, task.graph, task.window, stacks, record, os.getppid(), dealt, place))


_OTHER_CODE = (
    "{where} has other files than the main process for {modules}: install the same there, or send them along "
    "(runtime_env={{'working_dir': ...}} or {{'py_modules': [...]}})"
)


def producer_end(line: socket.socket) -> PipeProducerEnd:
    """Return the producer's end of a connection."""
    memory = take_memory(line)
    control, elements = both_ends(line)
    return PipeProducerEnd(control, elements, None if memory is None else SharedFd(memory))


def consumer_end(line: socket.socket, arena_bytes: int) -> PipeConsumerEnd:
    """Return the consumer's end of a connection. It shares memory with a producer on the same machine."""
    memory = None
    if line.family == socket.AF_UNIX:
        memory = arena.create(arena_bytes)
        try:
            give_memory(line, memory)
        except OSError:
            os.close(memory)
            raise
    elements, control = both_ends(line)
    end = PipeConsumerEnd(control, elements, None if memory is None else SharedFd(memory))
    if memory is not None:
        end.open_memory()
        os.close(memory)
    return end


def _met(listens: Listener, task: MemberTask) -> list[PipeProducerEnd]:
    """Return the links with all workers, when each has connected."""
    came: dict[int, PipeProducerEnd] = {}
    all_have = os.eventfd(0, os.EFD_CLOEXEC)

    def let_in(said: dict[str, Any], line: socket.socket) -> None:
        came[said["number"]] = producer_end(line)
        if len(came) == task.workers:
            os.eventfd_write(all_have, 1)

    while (caller := listens.next_caller(all_have)) is not None:
        listens.greet_beside(caller, let_in)
    os.close(all_have)
    listens.close()
    return [came[number] for number in range(task.workers)]


def _write_down(file: int, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write an exception that ends this process to the file that its agent reads, and to stderr."""
    os.write(file, "".join(traceback.format_exception(kind, error, trace)).encode())
    sys.__excepthook__(kind, error, trace)


def _hold(line: socket.socket, seconds: float, file: int) -> None:
    """Send heartbeats in a thread. Exit when the main process is gone, or silent for this many seconds."""

    def watch() -> None:
        last = monotonic()
        while beat(line):
            if (sign := heard(line, seconds / BEATS)) is None:
                break
            last = monotonic() if sign else last
            if monotonic() - last > seconds:
                os.write(file, f"the main process has sent no heartbeat for {seconds:g} seconds".encode())
                leave_at_once(1)
        os.write(file, b"the main process has closed the connection for heartbeats")
        leave_at_once(1)

    threading.Thread(target=watch, name="signs of life", daemon=True).start()
