"""Cost of resuming in a random order, against reading up to there: about the buffer, and not the past.

A position is saved after so many elements, and loaded by a new iterator; both sides end with one element more.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any

from benchmarks.table import Row, Table

MOST = 0.6
"""of the time of reading, where the buffer is as large as what was read;"""
MOST_OF_FAR = 0.1
"""and where what was read is far more than the buffer."""


def tables(rounds: int) -> Iterator[Table]:
    yield Table(
        f"Going on in a random order, best of {rounds}",
        ("stream", "after", "reading: ms", "going on: ms", "ratio"),
        [
            _row("range(2e6).shuffle(1e6)", lambda: _buffered(2_000_000, 1_000_000), 900_000, MOST, rounds),
            _row("range(1e7).shuffle(1e4)", lambda: _buffered(10_000_000, 10_000), 5_000_000, MOST_OF_FAR, rounds),
            _row("shuffled map of 1e7", lambda: _shuffled(10_000_000), 1_000_000, MOST_OF_FAR, rounds),
            _row("shuffled map of 1e12", lambda: _shuffled(10**12), 1_000_000, MOST_OF_FAR, rounds),
        ],
        ["required: going on takes at most so much of the time that reading up to there does"],
    )


def _buffered(length: int, buffer_size: int) -> Any:
    from datapipes.iter import IterableWrapper

    return IterableWrapper(range(length)).shuffle(buffer_size=buffer_size)


def _shuffled(length: int) -> Any:
    from datapipes.map import SequenceWrapper

    return SequenceWrapper(range(length)).shuffle()


def _row(name: str, build: Callable[[], Any], after: int, most: float, rounds: int) -> Row:
    try:
        reading, going_on = (min(each) for each in zip(*[_pass(build, after) for _ in range(rounds)], strict=True))
    except Exception as error:  # the row says what failed; the others still come
        return Row((name,), "", False, f"not measured: {type(error).__name__}: {error}")
    ratio = going_on / reading
    figures = (f"{after:,}", f"{reading * 1e3:.1f}", f"{going_on * 1e3:.1f}", f"{ratio:.3f}")
    return Row((name, *figures), f"<= {most:g}", ratio <= most)


def _pass(build: Callable[[], Any], after: int) -> tuple[float, float]:
    """How many seconds reading up to an element takes, and how many going on there."""
    gc.collect()
    begin = perf_counter()
    read: Any = iter(build())
    deque(islice(read, after), maxlen=0)
    state = read.state_dict()
    expected = next(read)
    reading = perf_counter() - begin
    del read
    gc.collect()
    begin = perf_counter()
    again: Any = iter(build())
    again.load_state_dict(state)
    found = next(again)
    going_on = perf_counter() - begin
    if found != expected:
        raise ValueError(f"element {after} is {expected}, and {found} after going on")
    return reading, going_on
