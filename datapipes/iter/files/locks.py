"""File locks between processes, and between threads of one process, that end with their owner.

A lock is a file that is locked with ``flock``: the kernel releases it when its owner does, or dies. The owner removes
the file while it still holds the lock, so that nothing is left behind. A process that has locked a removed file opens
the new one at its path. A killed owner leaves an unlocked file, which the next owner takes over at once. A forked child
closes inherited locks, so that it does not hold its parent's.

``flock`` can only wait without a timeout, and a thread that waits in it cannot be woken. So waiting here tries again
after pauses that grow from 1 to 50 milliseconds: the time is bounded, and closing an iteration ends it.

Written by hand because filelock, which torch installs, leaves its files behind. It has neither shared locks nor locks
on existing files, which temporary files and bounded caches need.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from time import monotonic

from datapipes.errors import GraphError, LockTimeout
from datapipes.messages.interrupts import CtrlCWaits

_SHORTEST, _LONGEST = 0.001, 0.05  # seconds between two attempts
_LONGEST_NAME = 200  # bytes; file systems allow 255 in all

_held: dict[int, tuple[str, threading.Thread]] = {}  # by descriptor: the path, and the thread that took it
_guards_forks = False


def beside(path: str, suffix: str) -> str:
    """Return the path of a hidden file that belongs to another one, in the same folder.

    >>> beside("data/a.csv", ".loader2-lock")
    'data/.a.csv.loader2-lock'
    """
    folder, name = os.path.split(path)
    raw = os.fsencode(name)
    if len(raw) > _LONGEST_NAME:
        name = blake2b(raw, digest_size=16).hexdigest()
    return os.path.join(folder, f".{name}{suffix}")


def lock_of(path: str) -> str:
    """Return the path of the lock file of a path."""
    return beside(path, ".loader2-lock")


def take(path: str) -> int | None:
    """Open or make a file and lock it. Return its descriptor, or None if another owner has the lock."""
    while True:
        descriptor = _open_and_lock(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, fcntl.LOCK_EX)
        if descriptor is None or is_at(_held[descriptor][0], descriptor):
            return descriptor
        _close(descriptor)  # its owner removed it after it was opened here and before it was locked


def keep(path: str, shared: bool) -> int | None:
    """Lock an existing file, shared or alone. Return its descriptor, or None if that is impossible."""
    descriptor = None
    with suppress(FileNotFoundError):
        descriptor = _open_and_lock(path, os.O_RDONLY | os.O_NONBLOCK, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        if descriptor is None or os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return descriptor
    if descriptor is not None:
        _close(descriptor)  # the file was removed or replaced meanwhile
    return None


def _open_and_lock(path: str, flags: int, kind: int) -> int | None:
    if not _guards_forks:
        _guard_forks()
    path = os.path.abspath(path)
    descriptor = os.open(path, flags, 0o666)
    _held[descriptor] = (path, threading.current_thread())  # the number may later be that of another file
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        _close(descriptor)
        return None
    except BaseException:
        _close(descriptor)
        raise
    return descriptor


def is_at(path: str, descriptor: int) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def let_go(descriptor: int, remove: bool = False) -> None:
    """Unlock and close a descriptor from ``take``, and optionally remove its file. Do nothing in a forked child."""
    if descriptor in _held:
        if remove:
            with suppress(FileNotFoundError):
                os.unlink(_held[descriptor][0])
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # explicit: a child being forked may not have closed its copy yet
        _close(descriptor)


def is_ours(descriptor: int) -> bool:
    """Return whether this process took the lock; a child that was forked later did not."""
    return descriptor in _held


@contextmanager
def locked(path: str, timeout: float, stopped: Callable[[], bool] = bool, why: str = "") -> Iterator[None]:
    """Hold the lock of a path while the block runs. The path's folder must exist, the file need not.

    Waiting ends with ``LockTimeout`` after ``timeout`` seconds, and with GeneratorExit once ``stopped()`` is true.
    """
    lock = lock_of(path)
    if (os.path.abspath(lock), threading.current_thread()) in list(_held.values()):
        raise GraphError(f"{why}{path!r} would wait for itself: this thread already works on this path")
    taken: list[int] = []
    try:
        _wait_for(lock, path, timeout, stopped, why, taken)
        yield
    finally:
        with CtrlCWaits():
            for descriptor in taken:
                let_go(descriptor, remove=True)


def sweep(file: str) -> None:
    """Remove a lock, or another file that is locked while in use, if its owner was killed.

    A file that this user may not remove stays.
    """
    with suppress(OSError):
        if os.path.lexists(file) and (descriptor := take(file)) is not None:
            let_go(descriptor, remove=True)


def _wait_for(lock: str, path: str, timeout: float, stopped: Callable[[], bool], why: str, taken: list[int]) -> None:
    """Append the lock's descriptor to ``taken``, before an interruption that arrived meanwhile is raised."""
    until, pause, never = monotonic() + timeout, _SHORTEST, threading.Event()
    while True:
        with CtrlCWaits():
            if (descriptor := take(lock)) is not None:
                taken.append(descriptor)
        if taken:
            return
        if stopped():
            raise GeneratorExit
        left = until - monotonic()
        if left <= 0:
            raise LockTimeout(
                f"{why}{path!r} is locked by another process or thread, and was not released within {timeout} seconds; "
                "wait longer (timeout=...), or find out what the owner does"
            )
        never.wait(min(pause, left))
        pause = min(2 * pause, _LONGEST)


def _close(descriptor: int) -> None:
    del _held[descriptor]
    os.close(descriptor)


def _guard_forks() -> None:
    global _guards_forks
    _guards_forks = True
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    for descriptor in list(_held):
        _close(descriptor)
