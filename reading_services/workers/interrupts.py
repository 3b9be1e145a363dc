"""Ctrl-C while processes are started or ended: it waits for that, so that none is left half begun or behind.

A program that is already ending because of Ctrl-C is not told a second time.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType


class CtrlCWaits:
    """A block in which Ctrl-C only calls ``hurry``; KeyboardInterrupt is raised behind it.

    Only Python's own handler is replaced, and only in the thread that it runs in.

    >>> try:
    ...     with CtrlCWaits(lambda: print("hurry")):
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("done")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    hurry
    done
    interrupted
    """

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self._hurry = hurry
        self._came = self._replaced = False

    def __enter__(self) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._replaced = True
            signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self._came = True
        self._hurry()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._came and not _is_ending():
            raise KeyboardInterrupt


def _is_ending() -> bool:
    """Whether the program ends anyhow: of Ctrl-C, or because its main thread has."""
    return isinstance(sys.exception(), KeyboardInterrupt) or not threading.main_thread().is_alive()
