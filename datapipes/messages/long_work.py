"""Long work on one file, told on stderr while it goes on: hashing, saving and caching, downloading.

``show_work`` is the one switch, off at first. It is a variable of the environment: a program can be run with it. A pool
of workers sends it to its processes: a fork server, or another machine, has the environment of an earlier time. The
output is whole lines, because several processes may write to one terminal. A file that takes less time than the
interval prints nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any, TypeVar

from datapipes.errors import BadArgument
from datapipes.messages.short import shortened

SWITCH = "LOADER2_SHOW_WORK"

T = TypeVar("T")


def show_work(every: float | None = 10.0) -> None:
    """Tell on stderr how far a file is that is hashed, saved, cached or downloaded for long.

    It holds for this process, and for workers that start afterwards. ``LOADER2_SHOW_WORK=10`` in the environment of a
    program does the same.

    Args:
        every: After how many seconds there is a line, and another one. ``None``: nothing is told, as at first.

    >>> show_work(every=60)
    >>> show_work(None)
    """
    if every is None:
        os.environ.pop(SWITCH, None)
    elif type(every) in (int, float) and every >= 0:
        os.environ[SWITCH] = str(every)
    else:
        raise BadArgument(f"show_work(every={every!r}): expected seconds, 0 or more, or None")


def current_switches() -> dict[str, str]:
    """Return the switch as variables of the environment, for worker processes that do not inherit this one's."""
    return {SWITCH: os.environ[SWITCH]} if SWITCH in os.environ else {}


class LongWork:
    """One file that is worked on; ``of`` is its size in bytes, if that is known."""

    def __init__(self, doing: str, name: object, every: float, of: int | None = None) -> None:
        self._what = f"{doing} {name if isinstance(name, str) else shortened(name)}"
        self._every = every
        self._of = of
        self._done = 0
        self._began = self._told = monotonic()

    def add(self, count: int) -> None:
        """Count so many bytes, or characters, as done."""
        self._done += count
        if (now := monotonic()) - self._told >= self._every:
            self._told = now
            if sys.stderr is not None:  # where it is None, ``print`` would write to standard output
                print(self._line(now - self._began), file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        from tqdm import tqdm

        done, speed = tqdm.format_sizeof(self._done, "B"), self._done / seconds if seconds else 0
        of = f" of {tqdm.format_sizeof(self._of, 'B')} ({100 * self._done // self._of} %)" if self._of else ""
        left = f", {tqdm.format_interval((self._of - self._done) / speed)} left" if self._of and speed else ""
        return f"{self._what}: {done}{of}, {tqdm.format_sizeof(speed, 'B/s')}{left}"


def long_work(doing: str, name: object, of: int | None = None) -> LongWork | None:
    """What counts the work on a file; None if nobody wants to be told."""
    every = os.environ.get(SWITCH)
    if every is None:
        return None
    try:
        return LongWork(doing, name, float(every), of)
    except ValueError:
        raise BadArgument(f"{SWITCH}={every!r}: expected seconds, 0 or more") from None


def told(doing: str, name: object, pieces: Iterable[T]) -> Iterator[T]:
    """The pieces of a file, handed on and told of if that is wanted."""
    work = long_work(doing, name)
    return iter(pieces) if work is None else _counted(pieces, work)


def _counted(pieces: Iterable[Any], work: LongWork) -> Iterator[Any]:
    for piece in pieces:
        yield piece
        work.add(len(piece))
