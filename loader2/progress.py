"""Progress of an epoch while it is iterated: tqdm's bar in a terminal or notebook, or a line now and then in a log.

A thread reads the count of elements at intervals. Elements are counted anyway, so they cost nothing more. An unknown
length is estimated from the completion of the source. The display ends with the epoch, with an error, and when the
epoch is left. After an error it continues with the next element.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from threading import Event, RLock, Thread, current_thread
from time import monotonic
from typing import Any, ClassVar, Protocol, TextIO

from datapipes.errors import LengthUnknown
from datapipes.messages.interrupts import CtrlCWaits
from datapipes.position.cells import CountCell
from datapipes.position.completion import StreamCompletion, fraction_done
from datapipes.position.session import Session


class Display(Protocol):
    """A display of an epoch's progress."""

    @property
    def every(self) -> float:
        """Seconds between two updates."""

    def show(self, step: int, total: int | None, notes: str) -> None:
        """Show the number of elements, the total if it is known, and further notes."""

    def close(self) -> None:
        """End the display. Its last content stays."""


class Progress:
    """The progress display of one epoch, as a context manager that can be entered again."""

    def __init__(self, title: str, given: CountCell, session: Session, total: int | None) -> None:
        self._title = title
        self._given = given
        self._session = session
        self._total = total
        self._display: Display | None = None
        self._thread: Thread | None = None
        self._over = Event()
        self._share = StreamCompletion(session) if total is None else None
        self._process = os.getpid()

    def __enter__(self) -> None:
        self.close()
        self._display = display = displayed(self._title, self._given.given(), self._total)
        if display is None:
            return
        self._over = over = Event()
        self._session.on_stop = self.close
        self._thread = Thread(target=self._watch, args=(display, over), name="loader2 progress", daemon=True)
        with CtrlCWaits():
            self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None and self._session.ended:
            self._total, self._share = self._total or self._given.given(), None  # the length is known now
        self.close()

    def close(self) -> None:
        """Show the progress a last time, and end the display."""
        display, self._display = self._display, None
        self._session.on_stop = None
        if display is None or os.getpid() != self._process:  # a forked process has neither the thread nor the line
            return
        with CtrlCWaits():  # an interruption here could keep the lock that the thread needs
            self._over.set()
        if self._thread is not None and self._thread is not current_thread():  # the thread may collect this as garbage
            self._thread.join()
        self._show(display)
        with suppress(OSError, ValueError):
            display.close()

    def _watch(self, display: Display, over: Event) -> None:
        while not over.wait(display.every):
            self._show(display)

    def _show(self, display: Display) -> None:
        step, total, notes = self._given.given(), self._total, []
        if self._share is not None and (share := fraction_done(self._share.part())) is not None:
            total = max(step, round(step / share))
            notes.append("length estimated")
        if errors := sum(self._session.errors().values()):
            notes.append(f"{errors} error{'s'[: errors != 1]} let pass")
        with suppress(OSError, ValueError):  # standard error is closed
            display.show(step, total, ", ".join(notes))


def length_if_known(loader: Any) -> int | None:
    """Return the number of elements of an epoch, or None if it is unknown."""
    try:
        return len(loader)
    except LengthUnknown:
        return None


def displayed(title: str, step: int, total: int | None) -> Display | None:
    """Return the display for where this program runs: a notebook, a terminal, or a log.

    Return None if the program has no standard error, as under ``pythonw`` and in some daemons.
    """
    from tqdm import auto

    in_notebook = any(kind.__module__ == "tqdm.notebook" for kind in auto.tqdm.__mro__)
    if not in_notebook and (sys.stderr is None or sys.stderr.closed):
        return None
    if in_notebook or sys.stderr.isatty():
        return Bar(auto.tqdm, title, step, total)
    return LogLines(sys.stderr, title, step)


class Bar:
    """A bar of tqdm, in a terminal or a notebook."""

    every: ClassVar[float] = 0.25

    def __init__(self, tqdm: Any, title: str, step: int, total: int | None) -> None:
        # Without tqdm's own thread, and without its lock for processes: only this process writes the bar.
        kind: Any = type("Bar", (tqdm,), {"monitor_interval": 0, "_lock": RLock()})
        self._bar = kind(
            desc=title,
            total=total,
            initial=step,
            unit=" elements",
            file=sys.stderr,
            dynamic_ncols=True,
            mininterval=0,
            miniters=0,
        )

    def show(self, step: int, total: int | None, notes: str) -> None:
        self._bar.total = total
        self._bar.set_postfix_str(notes, refresh=False)
        self._bar.update(step - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class LogLines:
    """Lines of a log: one at intervals, and one at the end."""

    every: ClassVar[float] = 30.0

    def __init__(self, stream: TextIO, title: str, step: int) -> None:
        self._stream, self._title = stream, title
        self._first, self._began = step, monotonic()

    def show(self, step: int, total: int | None, notes: str) -> None:
        line = line_of(self._title, step, total, step - self._first, monotonic() - self._began, notes)
        print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """Do nothing: each line is complete."""


def line_of(title: str, step: int, total: int | None, made: int, seconds: float, notes: str) -> str:
    """Return a line with the progress of an epoch.

    >>> line_of("epoch 3", 1500, 6000, 1000, 20.0, "2 errors let pass")
    'epoch 3: 1,500 of 6,000 elements (25 %), 50.0 elements/s, 01:30 left, 2 errors let pass'
    >>> line_of("epoch 0", 12, None, 12, 4.0, "")
    'epoch 0: 12 elements, 3.0 elements/s'
    """
    from tqdm import tqdm

    speed = made / seconds if seconds else 0.0
    parts = [
        f"{step:,} elements" if total is None else f"{step:,} of {total:,} elements ({100 * step // (total or 1)} %)"
    ]
    parts += [f"{speed:,.1f} elements/s"]
    parts += [f"{tqdm.format_interval((total - step) / speed)} left"] if total and speed and total > step else []
    return f"{title}: {', '.join([*parts, *filter(None, [notes])])}"
