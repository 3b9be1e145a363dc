"""Progress of long work on one file, on stderr: hashing, saving and caching, downloading.

``show_work`` is the one switch, off by default. It is an environment variable, so a program can be started with it. A
pool of workers sends it to its processes, because a fork server or another machine has an older environment. The output
consists of whole lines, because several processes may write to one terminal. A file that takes less time than the
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
from datapipes.messages.switches import SHOW_WORK

T = TypeVar("T")


def show_work(every: float | None = 10.0) -> None:
    """Print the progress of each file that takes long to be hashed, saved, cached or downloaded, on stderr.

    It applies to this process, and to workers that start afterwards. ``LOADER2_SHOW_WORK=10`` in the environment of a
    program has the same effect.

    Args:
        every: The number of seconds between two lines. ``None``: print nothing, the default of the library.

    >>> show_work(every=60)
    >>> show_work(None)
    """
    if every is None:
        os.environ.pop(SHOW_WORK, None)
    elif type(every) in (int, float) and every >= 0:
        os.environ[SHOW_WORK] = str(every)
    else:
        raise BadArgument(f"show_work(every={every!r}): expected seconds, 0 or more, or None")


class LongWork:
    """Progress of the work on one file. ``of`` is its size in bytes, if it is known."""

    def __init__(self, doing: str, name: object, every: float, of: int | None = None) -> None:
        self._what = f"{doing} {name if isinstance(name, str) else shortened(name)}"
        self._every = every
        self._of = of
        self._done = 0
        self._began = self._last_line = monotonic()

    def add(self, count: int) -> None:
        """Count this many bytes, or characters, as done."""
        self._done += count
        if (now := monotonic()) - self._last_line >= self._every:
            self._last_line = now
            if sys.stderr is not None:  # if it is None, ``print`` would write to standard output
                print(self._line(now - self._began), file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        from tqdm import tqdm

        done, speed = tqdm.format_sizeof(self._done, "B"), self._done / seconds if seconds else 0
        of = f" of {tqdm.format_sizeof(self._of, 'B')} ({100 * self._done // self._of} %)" if self._of else ""
        left = f", {tqdm.format_interval((self._of - self._done) / speed)} left" if self._of and speed else ""
        return f"{self._what}: {done}{of}, {tqdm.format_sizeof(speed, 'B/s')}{left}"


def long_work(doing: str, name: object, of: int | None = None) -> LongWork | None:
    """Return the progress of the work on a file, or None if ``show_work`` is off."""
    every = os.environ.get(SHOW_WORK)
    if every is None:
        return None
    try:
        return LongWork(doing, name, float(every), of)
    except ValueError:
        raise BadArgument(f"{SHOW_WORK}={every!r}: expected seconds, 0 or more") from None


def with_progress(doing: str, name: object, pieces: Iterable[T]) -> Iterator[T]:
    """Yield the pieces of a file, and print the progress if ``show_work`` is on."""
    work = long_work(doing, name)
    return iter(pieces) if work is None else _counted(pieces, work)


def _counted(pieces: Iterable[Any], work: LongWork) -> Iterator[Any]:
    for piece in pieces:
        yield piece
        work.add(len(piece))
