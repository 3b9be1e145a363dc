"""Fixtures of every test: no thread or child process is left behind, and the same thing is found twice.

A thread or a child process that a test started must have ended when the test has. Those that are ending have thirty
seconds; the fixture waits for their end itself. A failure names what remains: a thread with the line at which it
stands, a process with its command. The process is then killed so that it cannot hold up the tests after it.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing, suppress
from multiprocessing import active_children
from pathlib import Path
from time import monotonic

import fsspec.asyn
import pytest
import torch
from hypothesis import settings

from loader2.testing.ending import child_pids, ended
from tests.preloaded import Preloaded
from tests.specimens import server

GRACE = 30.0

# Programs; what they import takes each worker of pytest some seconds.
collect_ignore = ["loader2/in_hugging_face.py", "loader2/in_lightning.py"]

# A shell starts what is to run in the background deaf to Ctrl-C, and so would be all that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a shared machine may be slow, and speed is shown by benchmarks. No chance: each run repeats the last.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

# One thread for an operation of torch, here and in all that tests start: its threads wait by spinning, which takes the
# processors from the tests beside it.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
multiprocessing.set_forkserver_preload(["reading_services"])  # which its forks would import one by one


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Preloaded]:
    """A process that forks programs that have torch imported already."""
    with closing(Preloaded(Path(__file__).resolve().parents[1])) as interpreter:
        yield interpreter


def pytest_collection_finish() -> None:
    """Hide all that was imported and collected from the garbage collector: half a second a time, and more in a fork."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nobody_is_left_behind() -> Iterator[None]:
    """Fail the test that leaves a thread or a child process alive, naming each."""
    threads, children = set(threading.enumerate()), set(child_pids())
    yield
    deadline = monotonic() + GRACE
    for thread in own_threads(threads):
        thread.join(max(0.0, deadline - monotonic()))
    left = [describe_thread(thread) for thread in own_threads(threads)]
    for pid in sorted(child_pids() - children):
        if not ended(pid, max(0.0, deadline - monotonic())):
            left.append(describe_process(pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if left:
        pytest.fail("this test left behind (close or join what it starts):\n" + "\n".join(left), pytrace=False)


def own_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """The living threads that are neither among those `before` nor kept by a library for the whole process."""
    return [t for t in threading.enumerate() if t not in before and not serves_the_process(t)]


def serves_the_process(thread: threading.Thread) -> bool:
    """Whether a library started this thread once and for all, so that no test could end it."""
    if thread.name in ("fsspecIO", "obstore"):  # the event loop of fsspec's file systems; calls into obstore
        return True
    if thread.name == server.NAME:  # serves the remote specimens
        return True
    if thread.name.startswith("asyncio_"):  # where that loop looks up the names of hosts
        executor = getattr(fsspec.asyn.loop[0], "_default_executor", None)
        return thread in getattr(executor, "_threads", ())
    return type(thread).__module__ == "tqdm._monitor"  # refreshes the bars that stand still


def describe_thread(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    where = "".join(traceback.format_stack(frame)[-3:]) if frame else "  ended while this was written"
    return f"thread {thread.name!r}\n{where.rstrip()}"


def describe_process(pid: int) -> str:
    name = next((child.name for child in active_children() if child.pid == pid), "not of multiprocessing")
    with suppress(OSError):  # it has ended after all
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"process {pid} ({name}): {command.strip()[:200]}"
    return f"process {pid} ({name})"
