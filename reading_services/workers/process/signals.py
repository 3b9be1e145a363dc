"""Signals of the library's processes: held back while a process starts, and handled by the library from then on.

A forked process inherits the program's handlers, and a spawned one runs those that the program's modules set when they
are imported. A handler that saves a checkpoint would write this process's stale copy of the model over the program's.
So SIGTERM and SIGHUP are blocked from before the process starts until it has opened its graph, and end it from then on.
A fork server is started without the block, which all that it ever starts would inherit: its forks block them first.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""The signals that tell a process to end."""


@contextmanager
def held_back(*numbers: signal.Signals) -> Iterator[None]:
    """Block signals for this thread, and for the processes that it starts, as long as the block takes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hold_back_ends() -> None:
    """Block the signals that end this process, up to ``hear_ends``."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def replace_handlers(on_interrupt: Any, on_end: Any) -> None:
    """Replace the program's handlers before any user code runs, and hear Ctrl-C.

    SIGUSR2, which tells a program to save, is ignored where the program handles it: its default would end this process.
    """
    hold_back_ends()
    signal.set_wakeup_fd(-1)  # the program's event loop would read from it what this process is told
    if callable(signal.getsignal(signal.SIGUSR2)):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    _end_by(on_end)
    signal.signal(signal.SIGINT, on_interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def hear_ends(on_end: Any = signal.SIG_DFL) -> None:
    """Replace the handlers of modules that were imported meanwhile, and hear the signals that end this process."""
    _end_by(on_end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _end_by(handler: Any) -> None:
    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # what nohup ignores stays ignored
            signal.signal(number, handler)
