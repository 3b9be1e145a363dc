"""The law of the end of an iteration: it is quiet, and no thread, file or process is left over."""

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
"""Prefixes of descriptors' targets that are not files of a pipe."""
GRACE = 30.0  # seconds; there is no event for a closed descriptor


def quiet_close(specimen: Specimen) -> None:
    """Check that leaving an iteration closes its files, ends its threads and processes at once, and prints nothing."""
    loader = specimen.loader(seed=SEED)
    length, again = len(taken(iter(loader))), taken(iter(loader), 1)
    loader.shutdown()
    native = structure.is_native(specimen.pipe())
    # A user's class may continue from the point where it was left.
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
    if not specimen.starts_processes and not _is_read_twice(specimen.pipe()):  # possibly in two threads
        in_one_thread = replace(specimen, build=partial(_build_in_one_thread, specimen.build))
        for k in sorted({1, length // 2, length}):
            with nothing_left(f"dropped, after {k} elements of a class that has to be closed where it was used"):
                _drop(in_one_thread, k)


def _is_read_twice(pipe: Pipe) -> bool:
    """Return whether a stage of a graph has more than one reader, as the input of a fork's children has."""
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
    """Tap whose source may only be used in one thread."""

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
    must(session() is None, "its session, with all that it holds, is left to the garbage collector")


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
    if follows is not None and k:  # an epoch without a taken element begins again
        must_equal(first, follows, f"the epoch after one that was left after {k} elements")


def _leave_in_a_cycle(specimen: Specimen, k: int) -> None:
    loader = specimen.loader(seed=SEED)
    iterator = iter(loader)
    taken(iterator, k)
    ring: list[Any] = [loader, iterator]
    ring.append(ring)


@contextmanager
def nothing_left(what: str, collect: bool = False) -> Iterator[None]:
    """Check that threads, processes and files of the block are gone after it, without the garbage collector's help."""
    if collect:
        gc.collect()  # earlier garbage is not the block's
        gc.freeze()  # older objects are not searched again, which would take a tenth of a second each time
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
        left = _still_open(files)  # before the garbage collector closes any
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        gc.enable()
    must(not said, f"{what}: {'; '.join(said)}")
    _must_be_none(what, "threads that run", [thread.name for thread in threading.enumerate() if thread not in threads])
    _must_be_none(what, "processes that run", [pid for pid in sorted(child_pids() - processes) if not ended(pid, 0)])
    _must_be_none(what, "open files", left)


def _must_be_none(what: str, kind: str, left: Sequence[object]) -> None:
    must(not left, f"{what}: {kind}: {', '.join(map(str, left))}")


def _still_open(before: Counter[str]) -> list[str]:
    """Return the files that are open and were not before, after a wait of at most ``GRACE`` seconds."""
    until = monotonic() + GRACE
    while (left := _open_files() - before) and monotonic() < until:
        threading.Event().wait(0.01)  # a library's own thread, such as pyarrow's, may close one soon
    return sorted(left.elements())


def child_pids() -> set[int]:
    """Return the children of this process, without the two that multiprocessing keeps until the process ends."""
    # active_children reaps ended ones. It also has those of a fork server, which are not this process's children.
    pids = {child.pid for child in multiprocessing.active_children() if child.pid is not None}
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/children") as children:
            pids.update(map(int, children.read().split()))  # another thread inherits those of an ended thread
    tracker, server = vars(resource_tracker._resource_tracker), vars(forkserver._forkserver)
    return pids - {tracker["_pid"], server["_forkserver_pid"]}


def ended(pid: int, seconds: float) -> bool:
    """Return whether a process ends within some seconds. An ended process that was not yet waited for has ended."""
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
    """Return the files that this process holds open, by their paths."""
    found: Counter[str] = Counter()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            found[target] += target.startswith("/") and not target.startswith(NO_FILES)
    return +found
