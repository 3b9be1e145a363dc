"""Random access to streams: their length, and a function from a position to its element.

Such a stream needs no buffer saved and no other shard's elements made: whoever knows a position can have its element,
in any order, in any process. A position counts the elements that the stream was to give: one that cannot be made keeps
its position, so what the others are does not depend on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from datapipes.description import structure


class Indexed:
    """``at(i)`` is element ``i`` of a stream of ``length`` elements. It is made anew at every call.

    Where it takes time to find the length out, it is given as a function, which is called when somebody asks. A stream
    of the numbers of a range says so by ``numbers``.
    """

    __slots__ = ("_length", "at", "numbers")

    def __init__(self, length: int | Callable[[], int], at: Callable[[int], Any], numbers: range | None = None) -> None:
        self._length = length
        self.at = at
        self.numbers = numbers

    @property
    def known_length(self) -> int | None:
        """The number of elements; None if it takes time to find out, or if there is no end."""
        return None if callable(self._length) or self._length >= sys.maxsize else self._length

    @property
    def length(self) -> int:
        """The number of elements."""
        return self._length() if callable(self._length) else self._length

    def giving(self, at: Callable[[int], Any]) -> Indexed:
        """Another stream with one element for each of this one."""
        return Indexed(self._length, at)


def indexed(pipe: structure.Pipe) -> Indexed | None:
    """Random access to a stream; None where that cannot be done, or only from too far away."""
    if not structure.is_native(pipe) or pipe.on_error != "raise":
        return None  # which elements a tolerant stage has is known only once they are made
    try:
        found: Indexed | None = pipe._indexed()
    except RecursionError:
        return None
    return found


def range_of(pipe: structure.Pipe) -> range | None:
    """Return the range whose numbers a stream gives; None if there is none."""
    found = indexed(pipe)
    return None if found is None else found.numbers


def all_indexed(pipes: Sequence[structure.Pipe]) -> list[Indexed] | None:
    """Random access to several streams; None if one of them has none."""
    found = [each for each in map(indexed, pipes) if each is not None]
    return found if len(found) == len(pipes) else None


def through(pipe: structure.Pipe) -> Indexed | None:
    """Random access to a stage that makes one element of each by a step, or hands on its input.

    One that commutes, and changes what it takes by other means than a step, says itself how it is read.
    """
    step, source = pipe._step(), only_source(pipe)
    passes_on = pipe._commutes if step is None else step.kind == "map"
    above = indexed(source) if passes_on and source is not None else None
    return above if step is None or above is None else above.giving(partial(pipe._made_of, step.fn, above.at))


def only_source(pipe: structure.Pipe) -> structure.Pipe | None:
    """The one stream that a stage reads; None if it reads none, or several."""
    streams = [parent for parent in structure.occurrences(pipe) if structure.is_stream(parent)]
    return streams[0] if len(streams) == 1 else None


def reread(pipe: structure.Pipe, positions: Sequence[int]) -> list[Any] | None:
    """The elements of a stream at these positions; None where it cannot be read by position."""
    found = indexed(pipe)
    return None if found is None else list(map(found.at, positions))
