"""The processes of a pool, one by one: started without Ctrl-C, asked for stack traces, and ended."""

from __future__ import annotations

import errno
import multiprocessing.process
import os
import resource
import select
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import current_process, forkserver, parent_process, resource_tracker
from time import monotonic
from typing import Any, Final
from weakref import WeakKeyDictionary

from datapipes.errors import WorkerDied
from reading_services.workers.call_record import CallRecord
from reading_services.workers.process.memory import ended_by_the_kernel, why_killed
from reading_services.workers.process.signals import ENDING, held_back
from reading_services.workers.transport import process

_ASKED, _TERMINATED, _KILLED = 1.0, 1.0, 2.0  # seconds that a process has to leave, after each step
_PATIENCE = 1.0  # seconds for a process that has closed its link to be gone
_TO_WRITE = 0.5  # seconds for a worker to write its stacks
_NAMED = "loader2"

STARTS_WORKERS: Final = 113
"""The exit code of a process that was about to start workers of its own while it imported the program's file."""

UNGUARDED: Final = (
    "this program's file is imported by each process that spawn or forkserver starts, and importing it iterates a "
    'loader with workers; put what does so below `if __name__ == "__main__":`'
)


@dataclass
class PoolProcess:
    """One process of the pool."""

    named: str
    process: Any
    stacks: int

    @property
    def has_ended(self) -> bool:
        return self.process.exitcode is not None

    def __str__(self) -> str:
        return f"{self.named} (process {self.process.pid})"


@dataclass
class StartedMember(PoolProcess):
    """The process of a worker or of the dispatcher, with its link."""

    number: int | None
    record: CallRecord
    link: process.PipeConsumerEnd
    is_over: bool = False
    """Whether its end was reported."""


def begin(context: Any, main: Any, job: Any, name: str, daemon: bool = True) -> Any:
    """Start a process. A process that starts others must be no daemon: then only its owner ends it.

    A process that is started by spawn or forkserver imports the program's file. If that starts workers again, outside
    of ``if __name__ == "__main__"``, the process exits at once, and the loader in the main process says why.

    A process that is still importing would die of Ctrl-C with a traceback of its own, and would run the program's
    handlers of SIGTERM and SIGHUP: it starts with these signals blocked. The tracker, which spawn and forkserver need,
    is started first, because its start lets Ctrl-C in again.
    """
    if getattr(current_process(), "_inheriting", False):  # multiprocessing sets it while such a process imports
        if current_process().name.startswith(_NAMED) or parent_process() is None:  # the server that forks them
            os._exit(STARTS_WORKERS)
        raise RuntimeError(UNGUARDED)
    if context.get_start_method() != "fork":
        leave_inherited_server()
        resource_tracker.ensure_running()
    with held_back(signal.SIGINT):
        if context.get_start_method() == "forkserver":
            forkserver.ensure_running()
        begun = context.Process(target=main, args=(job,), name=f"{_NAMED} {name}", daemon=daemon)
        ended_before = ended_by_the_kernel()
        try:
            with _one_at_a_time[0], held_back(*ENDING):
                begun.start()
        except (ConnectionError, EOFError):
            if _server_starts_workers():
                raise WorkerDied(UNGUARDED) from None
            raise
    _begun[begun] = ended_before
    return begun


FILES_OF_A_WORKER: Final = 7
"""Descriptors in the main process for each worker: of its link, its stacks and its process."""


def why_not_started(error: OSError, workers: int) -> str | None:
    """Return why the system did not let a worker start, and what to write. None: it is no limit of the system."""
    what = os.strerror(error.errno or 0)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"{what} to start {workers} workers: each needs {FILES_OF_A_WORKER} files in this process, which may have "
            f"{most} of them (`ulimit -n`). Raise that limit, as by `ulimit -n {max(4096, 4 * most)}`, or start fewer "
            "workers"
        )
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        limit = "no limit" if most == resource.RLIM_INFINITY else str(most)
        return (
            f"{what}: the system starts no further process for {workers} workers. Look at the number of processes and "
            f"threads of this user (`ulimit -u`: {limit}), at pids.max of the container's cgroup and at the memory, or "
            "start fewer workers"
        )
    return None


def _server_starts_workers() -> bool:
    """Return whether the fork server has left because the program's file, which it imports, starts workers."""
    pid = vars(forkserver)["_forkserver"]._forkserver_pid
    if pid is None:
        return False
    server = os.pidfd_open(pid)
    try:
        if not select.select([server], [], [], _KILLED)[0]:
            return False
        left = os.waitid(os.P_PIDFD, server, os.WEXITED | os.WNOWAIT)  # multiprocessing takes it in itself
        return left is not None and left.si_status == STARTS_WORKERS
    finally:
        os.close(server)


_begun: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()  # and how many had run out of memory before
_one_at_a_time = [threading.RLock()]  # filelock, which comes with torch, refuses a fork while another thread forks


def _disown() -> None:
    """Disown the processes in a fork: multiprocessing would end them when the fork exits."""
    _one_at_a_time[0] = threading.RLock()  # a thread that is not there may have had it
    vars(multiprocessing.process)["_children"].difference_update(_begun)


os.register_at_fork(after_in_child=_disown)


def leave_inherited_server() -> None:
    """Forget a fork server that is no child of this process: multiprocessing cannot ask whether it runs, and fails.

    The next process that is started by forkserver starts a server for this process.
    """
    server = vars(forkserver)["_forkserver"]
    if server._forkserver_pid is None:
        return
    try:
        os.waitid(os.P_PID, server._forkserver_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        os.close(server._forkserver_alive_fd)
        preload = server._preload_modules
        server.__init__()
        server._preload_modules = preload


def end(members: Sequence[PoolProcess]) -> None:
    """Wait for processes that have got their farewell, and end those that do not leave."""
    for step, seconds in ((None, _ASKED), ("terminate", _TERMINATED), ("kill", _KILLED)):
        until = monotonic() + seconds
        for member in members:
            if step is not None and not member.has_ended:
                getattr(member.process, step)()
        for member in members:
            member.process.join(max(0.0, until - monotonic()))
    for member in members:
        os.close(member.stacks)
        if member.has_ended:
            member.process.close()


def kill(members: Sequence[PoolProcess]) -> None:
    """Kill processes at once, without waiting for their end."""
    for member in members:
        with suppress(OSError, ValueError):  # it has ended, or was closed, meanwhile
            member.process.kill()


def how_it_ended(process: Any) -> str:
    """Return the exit code or signal of a process, or that it has closed its link, for the message of an error."""
    if process.exitcode is None:
        process.join(_PATIENCE)
    code = process.exitcode
    return "closed its link" if code is None else exit_in_words(code, _begun.get(process))


def exit_in_words(code: int, ended_before: int | None = None) -> str:
    """Return the exit code or signal of a process as text, with the reason of a SIGKILL if it is known."""
    if code >= 0:
        return f"left with exit code {code}"
    because = why_killed(ended_before) if code == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{because}"


def file_for_stacks() -> int:
    """Return a file for the stacks of a process. It has no name, and is freed when no process has it open."""
    return os.memfd_create("stacks", os.MFD_CLOEXEC)


def stacks_at_crash(member: PoolProcess) -> str:
    """Return the stack traces of all threads of a process at its crash. Return "" if it has not crashed."""
    return os.pread(member.stacks, 1 << 14, 0).decode(errors="replace").strip()


def stacks_of(member: PoolProcess) -> str:
    """Return the stack traces of all threads of a process, which it writes at SIGUSR1."""
    written = partial(os.fstat, member.stacks)
    before = size = written().st_size
    os.kill(member.process.pid, signal.SIGUSR1)
    until = monotonic() + _TO_WRITE
    pause = threading.Event()
    while monotonic() < until and (size == before or size != written().st_size):
        size = written().st_size
        pause.wait(0.02)
    return os.pread(member.stacks, 1 << 16, before).decode(errors="replace") or "(it did not answer)"
