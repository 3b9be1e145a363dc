"""Signal handlers of a program: set in a block, set by unpickling, and seen where a graph runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

HANDLED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


def of_the_program(number: int, frame: FrameType | None) -> None:
    """Handle a signal as a program does that saves a checkpoint."""
    raise AssertionError(f"the program's handler of signal {number} runs in process {os.getpid()}")


@contextmanager
def program_handles(handler: Any = of_the_program) -> Iterator[None]:
    """Handle these signals in this program, as long as the block takes."""
    before = [signal.signal(number, handler) for number in HANDLED]
    try:
        yield
    finally:
        for number, was in zip(HANDLED, before, strict=True):
            signal.signal(number, was)


class Dispositions:
    """Tell for each element what the process does that makes it; unpickling it elsewhere sets the program's handlers.

    So does unpickling a function whose module sets handlers when it is imported.
    """

    def __init__(self) -> None:
        self.home = os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if os.getpid() != self.home:
            for number in HANDLED:
                signal.signal(number, of_the_program)

    def __call__(self, x: object) -> tuple[str, ...]:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return tuple(_disposition(number) if number not in blocked else "blocked" for number in HANDLED)


def _disposition(number: signal.Signals) -> str:
    handler = signal.getsignal(number)
    return handler.name if isinstance(handler, signal.Handlers) else getattr(handler, "__name__", repr(handler))
