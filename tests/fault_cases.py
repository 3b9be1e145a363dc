"""What can go wrong with workers, one function a case; each runs as the main program of a process of its own.

``python -m tests.fault_cases NAME METHOD`` runs one. A case asserts what it expects and ends by itself; whoever starts
it (``tests.faults``) bounds its time and looks for what it left behind.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import WorkerInfo
from reading_services.workers.failures import WorkerDied, WorkerError, WorkerTimeout
from tests import fault_tools
from tests.fault_ends import (
    abandoned,
    everything_kept,
    few_descriptors,
    few_shared_memory,
    forgotten,
    interrupted,
    interrupted_at_the_start,
    interrupted_twice,
    larger_than_the_arena,
    many_epochs,
    never_shut_down,
    parent_killed,
    told,
    unguarded,
)
from tests.fault_tools import SECOND, gone, loader, pids, raised_by, same, service, within

# -- workers that die -----------------------------------------------------------------------------------------------


def killed() -> None:
    with loader(same, 10_000_000) as dl:
        it = iter(dl)
        assert next(it) == 0
        victim = pids(dl)[1]
        os.kill(victim, signal.SIGKILL)
        started = monotonic()
        _, error = raised_by(it)
        assert isinstance(error, WorkerDied), repr(error)
        assert f"worker 1 (process {victim})" in str(error), error
        assert "SIGKILL" in str(error), error
        within(5 * SECOND, started)
        assert [next(iter(dl)) for _ in range(2)] == [0, 0], "another epoch starts another worker"


def exits(x: int) -> int:
    if x == 500:
        os._exit(3)
    return x


def leaves() -> None:
    with loader(exits) as dl:
        given, error = raised_by(dl)
        assert isinstance(error, WorkerDied), repr(error)
        assert "exit code 3" in str(error), error
        assert given == list(range(len(given)))


def segfaults(x: int) -> int:
    if x == 500:
        signal.raise_signal(signal.SIGSEGV)
    return x


def crashes() -> None:
    with loader(segfaults) as dl:
        _, error = raised_by(dl)
        assert isinstance(error, WorkerDied), repr(error)
        assert "SIGSEGV" in str(error), error


# -- workers that hang ----------------------------------------------------------------------------------------------


def waits(x: int) -> int:
    if x == 500:
        threading.Event().wait(60)
    return x


def hangs() -> None:
    with loader(waits, timeout=1.0) as dl:
        given, error = raised_by(dl)
        assert isinstance(error, WorkerTimeout), repr(error)
        assert "in waits" in str(error), error
        assert given == list(range(len(given)))
        started = monotonic()
    within(4 * SECOND, started)


def stopped() -> None:
    dl = loader(same, 10_000_000)
    next(iter(dl))
    os.kill(pids(dl)[0], signal.SIGSTOP)
    stuck = pids(dl)[0]
    started = monotonic()
    dl.shutdown()
    within(4 * SECOND, started)
    assert gone(stuck)


# -- exceptions -----------------------------------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Unpicklable(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


AWKWARD: dict[str, tuple[Callable[[], BaseException], type[BaseException]]] = {
    "ValueError": (lambda: ValueError("plain"), ValueError),
    "two arguments": (lambda: TwoArguments(7, "seven"), TwoArguments),
    "KeyError": (lambda: KeyError("key"), KeyError),
    "SystemExit": (lambda: SystemExit(4), SystemExit),
    "StopIteration": (lambda: StopIteration("stray"), RuntimeError),
    "a group": (lambda: ExceptionGroup("several", [ValueError("one"), TwoArguments(2, "two")]), ExceptionGroup),
    "unpicklable": (lambda: Unpicklable("held a lock"), WorkerError),
    "UnicodeDecodeError": (lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), UnicodeDecodeError),
}


class Raises:
    """Raises one of these at an element."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, x: int) -> int:
        if x == 501:
            raise AWKWARD[self.kind][0]()
        return x


def raises() -> None:
    for kind, (make, expected) in AWKWARD.items():
        with loader(Raises(kind)) as dl:
            given, error = raised_by(dl)
            assert isinstance(error, expected), f"{kind}: {error!r}"
            assert given == list(range(501)), f"{kind}: {given[-3:]}"
            text = "".join(getattr(error, "__notes__", ())) + str(error)
            assert "worker 1 (process" in text, f"{kind}: {text}"
            assert "fault_cases.py" in str(error.__cause__), f"{kind}: no traceback from over there"
            if kind == "two arguments":
                assert isinstance(error, TwoArguments)
                assert error.code == make().code  # type: ignore[attr-defined]  # it is such a one
            it = iter(dl)
            assert [next(it) for _ in range(3)] == [0, 1, 2], f"{kind}: the next epoch"


def goes_on() -> None:
    """After an exception the element that follows comes next, as it does without workers."""
    with loader(Raises("ValueError"), 510) as dl:
        it = iter(dl)
        given: list[int] = []
        for _ in range(2):
            with suppress(ValueError):
                given.extend(it)
        assert given == [x for x in range(510) if x != 501], given[-12:]


# -- failures before the first element ------------------------------------------------------------------------------


def bad_init(datapipe: Any, info: WorkerInfo) -> Any:
    if info.worker_id == 1:
        raise LookupError("no such data set")
    return datapipe


def bad_reset(datapipe: Any, info: WorkerInfo, seeds: Any) -> Any:
    raise LookupError("no such epoch")


class Unloadable:
    def __init__(self) -> None:
        self.parent = os.getpid()

    def __reduce__(self) -> Any:
        return _cannot_load, (os.getpid(),)


def _cannot_load(pid: int) -> Any:
    raise ImportError("a module that is only at home")


def init_fails() -> None:
    for options, expected in (
        ({"worker_init_fn": bad_init}, "no such data set"),
        ({"worker_reset_fn": bad_reset}, "no such epoch"),
    ):
        with loader(same, **options) as dl:
            started = monotonic()
            given, error = raised_by(dl)
            assert isinstance(error, LookupError), repr(error)
            assert expected in str(error), error
            assert given == list(range(len(given)))
            within(10 * SECOND, started)


def cannot_be_loaded() -> None:
    if fault_tools.method == "fork":
        return  # nothing is pickled there
    graph = IterableWrapper(range(9)).sharding_filter()
    graph.map(same)
    dp: Any = IterableWrapper([Unloadable()], deepcopy=False).sharding_filter()
    with DataLoader2(dp, reading_service=service()) as dl:
        _, error = raised_by(dl)
        assert isinstance(error, ImportError), repr(error)
        assert "only at home" in str(error)


CASES: dict[str, tuple[Callable[[], None], float]] = {
    "a worker is killed": (killed, 20),
    "a worker calls os._exit": (leaves, 20),
    "a worker crashes": (crashes, 20),
    "a worker hangs": (hangs, 20),
    "a worker is stopped": (stopped, 20),
    "exceptions of awkward types": (raises, 60),
    "going on after an exception": (goes_on, 20),
    "init and reset functions that raise": (init_fails, 30),
    "a graph that cannot be loaded": (cannot_be_loaded, 20),
    "50 abandoned epochs": (abandoned, 30),
    "a loader that is dropped": (forgotten, 20),
    "a loader that nobody shuts down": (never_shut_down, 20),
    "200 epochs": (many_epochs, 60),
    "64 file descriptors": (few_descriptors, 30),
    "a tiny /dev/shm": (few_shared_memory, 30),
    "a program without a guard": (unguarded, 60),
    "everything is kept": (everything_kept, 30),
    "an element larger than the arena": (larger_than_the_arena, 20),
    "workers know which they are": (told, 20),
    "Ctrl-C": (interrupted, 20),
    "Ctrl-C at the start": (interrupted_at_the_start, 20),
    "Ctrl-C twice, and workers that are stuck": (interrupted_twice, 20),
    "the parent is killed": (parent_killed, 20),
}
"""Each with the seconds that it may take, by far."""


def main() -> None:
    name, fault_tools.method = sys.argv[1:]
    faulthandler.enable()
    case, seconds = CASES[name]
    faulthandler.dump_traceback_later(seconds, exit=True)
    case()


if __name__ == "__main__":
    from tests import fault_cases  # so that workers find these functions by the module's name

    fault_cases.main()
