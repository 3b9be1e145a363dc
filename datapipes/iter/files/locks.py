"""File locks between processes, and between threads of one, that die with their owner.

A lock is a file that is locked with ``flock``: the kernel lets go of it when its owner does, or dies, however that
happens. Whoever held a lock removes its file while still holding it, so nothing is left behind; whoever then gets hold
of a file that is no longer the one at its path opens the new one. What a killed owner left is an unlocked file, which
the next one takes over at once. A forked child closes what it inherits, so that it does not keep its parent's locks.

``flock`` can wait, but without an end, and nothing can wake a thread that waits in it. So who waits here asks again,
after pauses that grow from one to fifty milliseconds: the time is bounded, and closing an iteration ends it.

filelock, which comes with torch, will not do: it leaves its files where they are, and it has no locks on a file that is
there already, shared ones or not, as temporary files and those of a bounded cache have.
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
    """The path of a hidden file that belongs to another one, in the same folder.

    >>> beside("data/a.csv", ".loader2-lock")
    'data/.a.csv.loader2-lock'
    """
    folder, name = os.path.split(path)
    raw = os.fsencode(name)
    if len(raw) > _LONGEST_NAME:
        name = blake2b(raw, digest_size=16).hexdigest()
    return os.path.join(folder, f".{name}{suffix}")


def lock_of(path: str) -> str:
    """The lock file of a path."""
    return beside(path, ".loader2-lock")


def take(path: str) -> int | None:
    """Open a file, made if it is missing, and lock it: its descriptor, or None where somebody else has it."""
    while True:
        descriptor = _open_and_lock(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, fcntl.LOCK_EX)
        if descriptor is None or is_at(_held[descriptor][0], descriptor):
            return descriptor
        _close(descriptor)  # its owner removed it between our opening and our locking


def keep(path: str, shared: bool) -> int | None:
    """Lock a file that is there, together with others or alone: its descriptor, or None if that cannot be."""
    descriptor = None
    with suppress(FileNotFoundError):
        descriptor = _open_and_lock(path, os.O_RDONLY | os.O_NONBLOCK, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        if descriptor is None or os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return descriptor
    if descriptor is not None:
        _close(descriptor)  # it was removed or replaced meanwhile
    return None


def _open_and_lock(path: str, flags: int, kind: int) -> int | None:
    if not _guards_forks:
        _guard_forks()
    path = os.path.abspath(path)
    descriptor = os.open(path, flags, 0o666)
    _held[descriptor] = (path, threading.current_thread())  # its number may be that of another one later
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
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def let_go(descriptor: int, remove: bool = False) -> None:
    """Unlock and close what ``take`` gave, and remove its file if asked to; in a forked child, nothing."""
    if descriptor in _held:
        if remove:
            with suppress(FileNotFoundError):
                os.unlink(_held[descriptor][0])
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also for a child that is being forked and has not closed it yet
        _close(descriptor)


def is_ours(descriptor: int) -> bool:
    """Whether this process took it; a child that was forked meanwhile did not."""
    return descriptor in _held


@contextmanager
def locked(path: str, timeout: float, stopped: Callable[[], bool] = bool, why: str = "") -> Iterator[None]:
    """Hold the lock of a path (of a file that need not exist) while the block runs; its folder must exist.

    Waiting for somebody else ends after ``timeout`` seconds with ``LockTimeout``, or, once ``stopped()`` is true, as a
    generator ends that is closed.
    """
    lock = lock_of(path)
    if (os.path.abspath(lock), threading.current_thread()) in list(_held.values()):
        raise GraphError(f"{why}{path!r} would wait for itself: this thread is at work on that very path already")
    taken: list[int] = []
    try:
        _wait_for(lock, path, timeout, stopped, why, taken)
        yield
    finally:
        with CtrlCWaits():
            for descriptor in taken:
                let_go(descriptor, remove=True)


def sweep(file: str) -> None:
    """Remove a lock, or another file that is locked while it is in use, if its owner was killed.

    Who may not remove it, in somebody else's folder, leaves it there.
    """
    with suppress(OSError):
        if os.path.lexists(file) and (descriptor := take(file)) is not None:
            let_go(descriptor, remove=True)


def _wait_for(lock: str, path: str, timeout: float, stopped: Callable[[], bool], why: str, taken: list[int]) -> None:
    """Append the descriptor of the lock to ``taken``, before an interruption is raised that came meanwhile."""
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
