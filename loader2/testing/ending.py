"""The law of how an iteration ends: quietly when it is left; and what is left behind: threads, files, processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver, resource_tracker
from time import monotonic
from typing import Any
from weakref import ref

from datapipes.description import structure
from datapipes.graph import Pipe
from datapipes.iter import IterDataPipe
from loader2.testing.comparing import SEED, must, must_equal, positions, taken
from loader2.testing.specimen import Build, Specimen, Tap

NO_FILES = ("/dev/null", "/dev/pts/", "/dev/random", "/dev/urandom", "/memfd:", "/proc/")
"""Beginnings of what descriptors may be of, and is no file of anybody's."""
GRACE = 30.0  # seconds; nothing tells when a descriptor is closed


def quiet_close(specimen: Specimen) -> None:
    """Wherever an iteration is left, files are closed, threads and processes have ended at once; nobody says a word."""
    loader = specimen.loader(seed=SEED)
    length, again = len(taken(iter(loader))), taken(iter(loader), 1)
    loader.shutdown()
    native = structure.is_native(specimen.pipe())
    # Not where a class of a user's goes on from where it was left.
    follows = again if specimen.random in ("", "by seed") else None
    ways: dict[str, Callable[[Specimen, int], None]] = {
        "dropped": _drop,
        "shut down twice": _shut_down_twice,
        "begun again": partial(_begin_again, follows),
    }
    if native:
        ways |= {"its iterator dropped": _drop_iterator, "closed twice": _close_twice}
    names = list(ways)
    for number, k in enumerate(positions(specimen, length + 1)):
        some = [names[number % len(names)], names[(number + 2) % len(names)]]
        for how in names if specimen.thorough else some:
            with nothing_left(f"{how}, after {k} elements"):
                ways[how](specimen, k)
    with nothing_left("collected as garbage", collect=True):
        _leave_in_a_cycle(specimen, length // 2)
    if not specimen.starts_processes and not _is_read_twice(specimen.pipe()):  # in two threads, it may be
        in_one_thread = replace(specimen, build=partial(_build_in_one_thread, specimen.build))
        for k in sorted({1, length // 2, length}):
            with nothing_left(f"dropped, after {k} elements of a class that has to be closed where it was used"):
                _drop(in_one_thread, k)


def _is_read_twice(pipe: Pipe) -> bool:
    """Return whether a stage of a graph has more than one reader, as the source of a fork's children."""
    reads = Counter(id(source) for stage in structure.walk(pipe) for source in structure.parents(stage))
    return max(reads.values(), default=0) > 1


class _InOneThread(IterDataPipe[Any]):
    """The same elements, from a class that may only be used in one thread, as one with a connection to sqlite."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        thread = threading.current_thread()
        try:
            for element in self.source:
                yield element
                must(threading.current_thread() is thread, "a class is read in another thread than before")
        finally:
            must(threading.current_thread() is thread, "a class is closed in another thread than the one that read it")


class _TapInOneThread(Tap):
    """The source may only be used in one thread."""

    def __call__(self, source: Pipe) -> Pipe:
        return _InOneThread(source)


def _build_in_one_thread(build: Build, tap: Tap) -> Pipe:
    return build(_TapInOneThread())


def _drop(specimen: Specimen, k: int) -> None:
    loader = specimen.loader(seed=SEED)
    taken(iter(loader), k)


def _drop_iterator(specimen: Specimen, k: int) -> None:
    iterator = iter(specimen.pipe())
    taken(iterator, k)
    session = ref(iterator.session)
    del iterator
    must(session() is None, "its session, and all that it holds, is left to the garbage collector")


def _close_twice(specimen: Specimen, k: int) -> None:
    iterator = iter(specimen.pipe())
    taken(iterator, k)
    iterator.close()
    iterator.close()


def _shut_down_twice(specimen: Specimen, k: int) -> None:
    loader = specimen.loader(seed=SEED)
    taken(iter(loader), k)
    loader.shutdown()
    loader.shutdown()


def _begin_again(follows: list[str] | None, specimen: Specimen, k: int) -> None:
    loader = specimen.loader(seed=SEED)
    taken(iter(loader), k)
    first = taken(iter(loader), 1)
    if follows is not None and k:  # an epoch of which nothing was taken begins again
        must_equal(first, follows, f"the epoch behind one that was left after {k} elements")


def _leave_in_a_cycle(specimen: Specimen, k: int) -> None:
    loader = specimen.loader(seed=SEED)
    iterator = iter(loader)
    taken(iterator, k)
    ring: list[Any] = [loader, iterator]
    ring.append(ring)


@contextmanager
def nothing_left(what: str, collect: bool = False) -> Iterator[None]:
    """Whatever is started or opened within has ended afterwards, without the help of the garbage collector."""
    if collect:
        gc.collect()  # what others left for the collector is not ours
        gc.freeze()  # and what they keep need not be searched, now and the next time: it takes a tenth of a second
    said: list[str] = []
    threads, processes, files = set(threading.enumerate()), child_pids(), _open_files()
    hooks = (sys.unraisablehook, threading.excepthook)
    gc.disable()
    sys.unraisablehook = lambda args: said.append(f"{args.err_msg or 'ignored'}: {args.exc_value!r} in {args.object!r}")
    threading.excepthook = lambda args: said.append(f"in a thread: {args.exc_value!r}")
    try:
        with warnings.catch_warnings(action="error"):
            yield
            if collect:
                gc.collect()
        left = _still_open(files)  # and not what the garbage collector would close
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        gc.enable()
    must(not said, f"{what}: {'; '.join(said)}")
    _must_be_none(
        what, "threads that go on", [thread.name for thread in threading.enumerate() if thread not in threads]
    )
    _must_be_none(what, "processes that go on", [pid for pid in sorted(child_pids() - processes) if not ended(pid, 0)])
    _must_be_none(what, "files that are open", left)


def _must_be_none(what: str, kind: str, left: Sequence[object]) -> None:
    must(not left, f"{what}: {kind}: {', '.join(map(str, left))}")


def _still_open(before: Counter[str]) -> list[str]:
    """The files that are open, and were not before."""
    until = monotonic() + GRACE
    while (left := _open_files() - before) and monotonic() < until:
        threading.Event().wait(0.01)  # a library's own thread, such as pyarrow's, may be about to let go of one
    return sorted(left.elements())


def child_pids() -> set[int]:
    """The children of this process, without the two that multiprocessing keeps until the process ends."""
    # Reaps those that have ended, and knows those that a fork server started, whose parent is that server.
    pids = {child.pid for child in multiprocessing.active_children() if child.pid is not None}
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/children") as children:
            pids.update(map(int, children.read().split()))  # of a thread that has ended, another one has inherited them
    tracker, server = vars(resource_tracker._resource_tracker), vars(forkserver._forkserver)
    return pids - {tracker["_pid"], server["_forkserver_pid"]}


def ended(pid: int, seconds: float) -> bool:
    """Wait for the end of a process, at most so long; one that has ended and was not yet waited for has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


def _open_files() -> Counter[str]:
    """The files that this process holds open, by their paths."""
    found: Counter[str] = Counter()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that listed the others
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            found[target] += target.startswith("/") and not target.startswith(NO_FILES)
    return +found
