"""End a worker process together with its parent process, whatever the worker is waiting for.

A process that is killed cannot notify its workers, and a worker that waits for something else would outlive it. So a
thread of the worker waits for the end of the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def leave_with(parent: int, unless: int | None = None) -> threading.Thread:
    """End this process when the process ``parent`` ends, unless the descriptor ``unless`` becomes readable before."""
    try:
        pidfd = os.pidfd_open(parent)
    except ProcessLookupError:
        leave_at_once(1)

    def wait() -> None:
        gone = select.poll()
        for descriptor in (pidfd, unless):
            if descriptor is not None:
                gone.register(descriptor, select.POLLIN)
        if any(descriptor == pidfd for descriptor, _ in gone.poll()):  # any event: some kernels add POLLHUP
            leave_at_once(1)
        os.close(pidfd)

    thread = threading.Thread(target=wait, name="parent watch", daemon=True)
    thread.start()
    return thread


@contextmanager
def leaving_with(parent: int) -> Iterator[None]:
    """End this process together with ``parent`` while the block runs."""
    over, end = os.pipe()
    try:
        watch = leave_with(parent, unless=over)
        try:
            yield
        finally:
            os.write(end, b"x")
            watch.join()
    finally:
        os.close(over)
        os.close(end)


def leave_at_once(status: int) -> None:
    """End this process and its children, without any cleanup."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(status)
