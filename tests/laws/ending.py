"""Laws about how an iteration ends: quietly when it is left, and not at all because of one exception."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from datapipes.description import structure
from tests.laws import position
from tests.laws.position import SEED, must, must_equal, positions, taken
from tests.specimens.specimen import Specimen, everything


def quiet_close(specimen: Specimen) -> None:
    """Wherever an iteration is left, files are closed and threads have ended at once, and nobody says a word."""
    length = len(taken(iter(specimen.loader(seed=SEED))))
    native = structure.is_native(specimen.pipe())
    ways = [_drop, _shut_down_twice, _begin_again, *([_drop_iterator, _close_twice] if native else [])]
    for number, k in enumerate(positions(specimen, length + 1)):
        some = [ways[number % len(ways)], ways[(number + 2) % len(ways)]]
        for leave in ways if position.thorough else some:
            with nothing_left(f"{leave.__name__.strip('_')}, after {k} elements"):
                leave(specimen, k)
    with nothing_left("collected as garbage", collect=True):
        _leave_in_a_cycle(specimen, length // 2)


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


def _begin_again(specimen: Specimen, k: int) -> None:
    loader = specimen.loader(seed=SEED)
    taken(iter(loader), k)
    taken(iter(loader), 1)


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
        gc.freeze()  # and what they keep need not be searched, now and the next time
    said: list[str] = []
    threads, hooks = set(threading.enumerate()), (sys.unraisablehook, threading.excepthook)
    before = _open_files()
    gc.disable()
    sys.unraisablehook = lambda args: said.append(f"{args.err_msg or 'ignored'}: {args.exc_value!r} in {args.object!r}")
    threading.excepthook = lambda args: said.append(f"in a thread: {args.exc_value!r}")
    try:
        with warnings.catch_warnings(action="error"):
            yield
            if collect:
                gc.collect()
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        gc.enable()
    must(not said, f"{what}: {'; '.join(said)}")
    left = [thread.name for thread in threading.enumerate() if thread not in threads]
    must(not left, f"{what}: threads that go on: {left}")
    must_equal(_open_files(), before, f"{what}: files that are open")


def _open_files() -> Counter[str]:
    """The specimens' files that this process holds open."""
    found: Counter[str] = Counter()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue  # the one that listed the others
        found[target] += target.startswith(str(everything()))
    return +found
