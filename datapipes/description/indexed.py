"""Random access to streams: their length, and a function from a position to its element.

Such a stream needs no saved buffer, and a shard need not make the elements of other shards: any element can be made by
its position, in any order, in any process. An element that cannot be made keeps its position, so the positions of the
other elements do not depend on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from datapipes.description import structure


class Indexed:
    """Random access to a stream of ``length`` elements: ``at(i)`` makes element ``i``, again at every call.

    If the length takes time to find out, it is given as a function, which is called on demand. ``numbers`` is the range
    if the stream consists of the numbers of a range.
    """

    __slots__ = ("_length", "at", "numbers")

    def __init__(self, length: int | Callable[[], int], at: Callable[[int], Any], numbers: range | None = None) -> None:
        self._length = length
        self.at = at
        self.numbers = numbers

    @property
    def known_length(self) -> int | None:
        """Number of elements. None if it takes time to find out, or if the stream has no end."""
        return None if callable(self._length) or self._length >= sys.maxsize else self._length

    @property
    def length(self) -> int:
        """Number of elements."""
        return self._length() if callable(self._length) else self._length

    def giving(self, at: Callable[[int], Any]) -> Indexed:
        """Return another stream with one element for each of this one."""
        return Indexed(self._length, at)


def indexed(pipe: structure.Pipe) -> Indexed | None:
    """Return random access to a stream. Return None if it has none, or if the graph is too deep to find out."""
    if not structure.is_native(pipe) or pipe.on_error != "raise":
        return None  # the elements of a tolerant stage are known only after they are made
    try:
        found: Indexed | None = pipe._indexed()
    except RecursionError:
        return None
    return found


def range_of(pipe: structure.Pipe) -> range | None:
    """Return the range whose numbers a stream consists of, or None if there is no such range."""
    found = indexed(pipe)
    return None if found is None else found.numbers


def all_indexed(pipes: Sequence[structure.Pipe]) -> list[Indexed] | None:
    """Return random access to several streams, or None if one of them has none."""
    found = [each for each in map(indexed, pipes) if each is not None]
    return found if len(found) == len(pipes) else None


def through(pipe: structure.Pipe) -> Indexed | None:
    """Return random access to a stage that makes one element of each by a step, or hands on its input.

    A stage that commutes and changes elements without a step needs its own ``_indexed``.
    """
    step, source = pipe._step(), only_source(pipe)
    passes_on = pipe._commutes if step is None else step.kind == "map"
    above = indexed(source) if passes_on and source is not None else None
    return above if step is None or above is None else above.giving(partial(pipe._made_of, step.fn, above.at))


def only_source(pipe: structure.Pipe) -> structure.Pipe | None:
    """Return the one stream that a stage reads, or None if it reads none or several."""
    streams = [parent for parent in structure.occurrences(pipe) if structure.is_stream(parent)]
    return streams[0] if len(streams) == 1 else None


def reread(pipe: structure.Pipe, positions: Sequence[int]) -> list[Any] | None:
    """Return the elements of a stream at these positions, or None if it cannot be read by position."""
    found = indexed(pipe)
    return None if found is None else list(map(found.at, positions))
