"""Fault cases of workers, one function a case; each runs in a main program.

``python -m tests.faults.cases METHOD NAME`` runs one. Without a name they are read, line by line, from standard input,
and what is wrong with each is written as a line. A case asserts what it expects and ends by itself; whoever starts it
(``tests.faults.table``) bounds its time and looks for what it left behind.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from datapipes.errors import WorkerDied, WorkerError, WorkerTimeout
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import WorkerInfo
from tests.faults import tools
from tests.faults.ends import (
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
from tests.faults.tools import SECOND, gone, loader, pids, raised_by, same, service, within

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
        threading.Event().wait(60)  # stuck
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
    "StopIteration": (lambda: StopIteration("stray"), RuntimeError),
    "a group": (lambda: ExceptionGroup("several", [ValueError("one"), TwoArguments(2, "two")]), ExceptionGroup),
    "unpicklable": (lambda: Unpicklable("held a lock"), WorkerError),
    "UnicodeDecodeError": (lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), UnicodeDecodeError),
    "SystemExit": (lambda: SystemExit(4), SystemExit),  # the last one: it costs no element, and so comes again
}


class Raises:
    """Raises the awkward errors, one after the other, at every second element from a worker's first one on."""

    def __call__(self, x: int) -> int:
        turn = x - FIRST
        if turn >= 0 and turn % 2 == 0 and turn // 2 < len(AWKWARD):
            raise list(AWKWARD.values())[turn // 2][0]()
        return x


FIRST = 501  # which is worker 1's, as every second one behind it


def raises() -> None:
    """In each epoch the error behind the last epoch's: what came before it has come, and another epoch begins."""
    with loader(Raises()) as dl:
        for turn, (kind, (make, expected)) in enumerate(AWKWARD.items()):
            it = iter(dl)
            for before in range(turn):
                given, _ = raised_by(it)
                assert given == ([FIRST + 2 * before - 1] if before else list(range(FIRST))), f"{kind}: {given[-3:]}"
            given, error = raised_by(it)
            assert isinstance(error, expected), f"{kind}: {error!r}"
            assert given == ([FIRST + 2 * turn - 1] if turn else list(range(FIRST))), f"{kind}: {given[-3:]}"
            text = "".join(getattr(error, "__notes__", ())) + str(error)
            assert "worker 1 (process" in text, f"{kind}: {text}"
            assert text.count("raised in stage") == isinstance(error, Exception), f"{kind}: {text}"
            assert "Gathered" not in text, f"{kind}: {text}"
            assert "faults/cases.py" in str(error.__cause__), f"{kind}: no traceback from over there"
            if kind == "two arguments":
                assert isinstance(error, TwoArguments)
                assert error.code == make().code  # type: ignore[attr-defined]  # it is such a one
            it = iter(dl)
            assert [next(it) for _ in range(3)] == [0, 1, 2], f"{kind}: the next epoch"


def one_error(x: int) -> int:
    if x == FIRST:
        raise ValueError("plain")
    return x


def goes_on() -> None:
    """After an exception the element that follows comes next, as it does without workers."""
    with loader(one_error, 510) as dl:
        it = iter(dl)
        given: list[int] = []
        for _ in range(2):
            with suppress(ValueError):
                given.extend(it)
        assert given == [x for x in range(510) if x != FIRST], given[-12:]


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
    if tools.method == "fork":
        return  # nothing is pickled there
    graph = IterableWrapper(range(9)).sharding_filter()
    graph.map(same)
    dp: Any = IterableWrapper([Unloadable()], deepcopy=False).sharding_filter()
    with DataLoader2(dp, reading_service=service()) as dl:
        _, error = raised_by(dl)
        assert isinstance(error, ImportError), repr(error)
        assert "only at home" in str(error)


CASES: dict[str, tuple[Callable[[], None], float]] = {
    "a worker is killed": (killed, 300),
    "a worker calls os._exit": (leaves, 300),
    "a worker crashes": (crashes, 300),
    "a worker hangs": (hangs, 300),
    "a worker is stopped": (stopped, 300),
    "exceptions of awkward types": (raises, 500),
    "going on after an exception": (goes_on, 300),
    "init and reset functions that raise": (init_fails, 300),
    "a graph that cannot be loaded": (cannot_be_loaded, 300),
    "50 abandoned epochs": (abandoned, 300),
    "a loader that is dropped": (forgotten, 300),
    "a loader without shutdown": (never_shut_down, 300),
    "200 epochs": (many_epochs, 500),
    "64 file descriptors": (few_descriptors, 300),
    "a tiny /dev/shm": (few_shared_memory, 300),
    "a program without a guard": (unguarded, 500),
    "everything is kept": (everything_kept, 300),
    "an element larger than the arena": (larger_than_the_arena, 300),
    "workers know which they are": (told, 300),
    "Ctrl-C": (interrupted, 300),
    "Ctrl-C at the start": (interrupted_at_the_start, 300),
    "Ctrl-C twice, and workers that are stuck": (interrupted_twice, 300),
    "the parent is killed": (parent_killed, 300),
}
"""Each with the seconds that it may take, by far."""


ALONE = frozenset(
    {
        *("a loader without shutdown", "64 file descriptors", "a tiny /dev/shm", "the parent is killed"),
        *("Ctrl-C", "Ctrl-C at the start", "Ctrl-C twice, and workers that are stuck"),
    }
)
"""Those that need a program of their own, because they end it or limit it."""


WHILE_STARTING = frozenset(
    {
        *("a worker is killed", "a graph that cannot be loaded", "a program without a guard"),
        *("Ctrl-C at the start", "the parent is killed"),
    }
)
"""Those that can end otherwise where a worker is long in starting: it, or its replacement, imports everything anew."""


def main() -> None:
    tools.method, *alone = sys.argv[1:]
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start deaf to it
    if alone != ["Ctrl-C at the start"]:  # which is about workers that are still importing
        multiprocessing.set_forkserver_preload([__name__])  # its server imports once, for the workers of all cases
    if alone:
        run(*alone)
        return
    for line in sys.stdin:
        problem = ""
        try:
            run(line.strip())
        except BaseException as error:  # passed to the process that asked for this case
            problem = "".join(traceback.format_exception(error))
        print(json.dumps(problem), flush=True)


def run(name: str) -> None:
    """Run a case, within its time."""
    case, seconds = CASES[name]
    gc.collect()  # what the case before left is not this one's
    faulthandler.dump_traceback_later(seconds, exit=True)
    case()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    from tests.faults import cases  # so that workers find these functions by the module's name

    cases.main()
