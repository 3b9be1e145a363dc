"""Pickling and copying of pipes: as Python does it, but sources first where a graph is deep.

Python pickles what an object holds inside that object, so a chain of pipes would nest as deep as it is long. The pipe
that pickling begins with therefore names all stages above it, sources first. When Python gets to a stage, everything
that the stage holds has been pickled before, and is referred to. Nothing else differs: each stage is pickled once, by
its own ``__getstate__`` if it has one, and what two pipes share is shared afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from datapipes.description import structure

_SHALLOW = 100
"""Up to how many stages a graph is pickled just as Python would."""


class _Above:
    """The stages above the pipe that pickling began with. Lives as long as the pickler, which remembers what it saw."""

    def __init__(self, stages: list[structure.Pipe]) -> None:
        self.stages = stages
        self.ids = set(map(id, stages))

    def __reduce__(self) -> Any:
        return list, (self.stages,)


class _Pickling(threading.local):
    def __init__(self) -> None:
        self.under_way: WeakSet[_Above] = WeakSet()


_here = _Pickling()


def sources_first(pipe: structure.Pipe, reduced: tuple[Any, ...], usual: Callable[[structure.Pipe], bool]) -> Any:
    """Reduce a pipe, given Python's own reduction; ``usual``: whether a pipe is pickled with its attributes."""
    if not usual(pipe) or any(id(pipe) in above.ids for above in _here.under_way):
        return reduced
    stages = structure.walk_by(lambda stage: structure.parents(stage) if usual(stage) else [], pipe)
    if len(stages) <= _SHALLOW:
        return reduced
    above = _Above(stages[:-1])
    _here.under_way.add(above)
    make, arguments, *rest = reduced
    return _after, (above, make, arguments), *rest


def _after(above: object, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Make a pipe after the stages above it, which have been unpickled by now."""
    return make(*arguments)
