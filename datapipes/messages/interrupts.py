"""Ctrl-C: the traceback ends in the user's code, and some work of the library is completed first.

The frames of a user's function are shown. Those of an import, the opening of a graph or a wait for workers would only
fill the terminal. Work that must not stop half-way, such as starting threads and processes, delays the
KeyboardInterrupt. A program that is already ending because of Ctrl-C gets no second one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any

import torch

_signal: Any = import_module("_signal")  # its functions take 1 us, those of ``signal``, which make enums, 7 us
_SIGINT = int(_signal.SIGINT)

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("datapipes", "reading_services", "loader2")
_OURS = tuple(os.path.join(folder, "") for folder in (*map(_ROOT.joinpath, _PACKAGES), Path(torch.__file__).parent))
_PYTHONS = os.path.join(Path(os.__file__).parent, "")
_OF_OTHERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class ShortInterrupts:
    """A block of the library's own work. A KeyboardInterrupt does not show its frames."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            cut(error)


def cut(interrupt: KeyboardInterrupt) -> None:
    """Remove all frames below the last frame of the user's code. Frames below an import do not count as user's code."""
    last, at = None, interrupt.__traceback__
    while at is not None and not at.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
        last = at if _is_users(at.tb_frame) else last
        at = at.tb_next
    if last is None:
        interrupt.__traceback__ = None
    else:
        last.tb_next = None


def _is_users(frame: FrameType) -> bool:
    file, package = frame.f_code.co_filename, str(frame.f_globals.get("__name__")).partition(".")[0]
    if file.startswith((*_OURS, "<loop of ", "<frozen ")):  # compiled by us, or by Python
        return False
    if file == "<string>" and package.startswith((*_PACKAGES, "namedtuple_")):  # a constructor that Python generated
        return False
    return not file.startswith(_PYTHONS) or any(folder in file for folder in _OF_OTHERS)


class CtrlCWaits:
    """A block in which Ctrl-C only calls ``hurry``. KeyboardInterrupt is raised after the block.

    Only Python's own handler is replaced, and only in the main thread.

    >>> import signal
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
        if in_main and _signal.getsignal(_SIGINT) is _signal.default_int_handler:
            self._replaced = True
            _signal.signal(_SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self._came = True
        self._hurry()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._replaced:
            _signal.signal(_SIGINT, _signal.default_int_handler)
        if self._came and not _is_ending():
            raise KeyboardInterrupt from None


def wait_for(future: Future[Any], timeout: float | None = None) -> bool:
    """Wait until a future is done. Return False if it is not done after ``timeout`` seconds.

    An interruption of ``Future.result`` could keep the lock that the future's thread needs.
    """
    done: SimpleQueue[Future[Any]] = SimpleQueue()
    with CtrlCWaits():
        future.add_done_callback(done.put)
    try:
        done.get(timeout=timeout)
    except Empty:
        return False
    return True


def _is_ending() -> bool:
    """Return whether the program is ending already: by Ctrl-C, or because its main thread has ended."""
    return isinstance(sys.exception(), KeyboardInterrupt) or not threading.main_thread().is_alive()
