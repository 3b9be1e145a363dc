"""The one way in which a pass over a stream is timed, here and in the interpreters of the peers.

Building the stream is not timed; opening it and taking every element of it is. Garbage left by earlier contenders is
collected before the clock starts, and the collector stays on while it runs, as it does for users.
"""

import gc
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TypeVar

S = TypeVar("S")


def exhaust(stream: Iterable[object]) -> None:
    """The consumer of every contender: an ordinary loop that does nothing with what it gets."""
    for _ in stream:
        pass


def seconds_of(build: Callable[[], S], consume: Callable[[S], object]) -> float:
    start, end = span_of(build, consume)
    return end - start


def span_of(build: Callable[[], S], consume: Callable[[S], object]) -> tuple[float, float]:
    """When it began and when it ended, by a clock that all processes of a machine share."""
    stream = build()
    gc.collect()
    start = perf_counter()
    consume(stream)
    return start, perf_counter()
