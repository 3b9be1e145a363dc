"""Number of plain iterations of a pipe with a pinned seed since its ``set_seed``, called passes.

The order of such a pipe follows from its seed and from the number of the pass. So no two passes are alike, and setting
the same seed again repeats them. A loader uses the number of its epoch instead.

The counts are kept here, by pipe, because iterating changes no pipe: no attribute, repr, pickle or copy contains them.
A copy counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from multiprocessing.context import get_spawning_popen
from typing import Any
from weakref import finalize

from datapipes.description import structure
from datapipes.description.user_iter import PINNED

_counted: dict[int, int | None] = {}
"""Number of passes by the id of the pipe. None: ``set_seed`` was called, and no pass has begun since."""


def start_over(pipe: structure.Pipe) -> None:
    """Count the passes of a pipe from 0 again, because its seed was set."""
    _note(pipe, None)


def count(graph: structure.Pipe) -> None:
    """Count a pass over a graph at each of its stages with a pinned seed."""
    for stage in filter(_is_pinned, structure.walk(graph)):
        _note(stage, (_counted.get(id(stage)) or 0) + 1)


def numbers(graph: structure.Pipe) -> dict[int, int]:
    """Return the number of the latest pass of each pinned stage, by its place in the unfolded graph."""
    if not any(id(stage) in _counted for stage in (structure.walk(graph) if _counted else ())):
        return {}
    latest = {structure.place_of(copy): _counted.get(id(stage)) for stage, copy in structure.unfolded(graph)}
    return {place: number - 1 for place, number in latest.items() if number is not None}


def go_on(graph: structure.Pipe, numbers: Mapping[int, int]) -> None:
    """Continue to count from saved numbers of passes."""
    if any(map(_is_pinned, structure.walk(graph))):
        for stage, copy in structure.unfolded(graph):
            if _is_pinned(stage):
                _note(stage, numbers.get(structure.place_of(copy), 0) + 1)


def settle(graph: structure.Pipe, epoch: int) -> None:
    """Count a loader's epochs from ``epoch`` on, at the stages whose seed was set since the last call."""
    for stage in structure.walk(graph) if _counted else ():
        if _counted.get(id(stage), 0) is None:
            _note(stage, 1 - epoch)


def telling(pipe: structure.Pipe, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Wrap the pickle reduction of a pipe, so that a process that is started with it continues to count."""
    if get_spawning_popen() is None or (passes := _counted.get(id(pipe))) is None:
        return reduced
    make, arguments, *rest = reduced
    return _made, (passes, make, arguments), *rest


def _made(passes: int, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    pipe = make(*arguments)
    _note(pipe, passes)
    return pipe


def _is_pinned(stage: structure.Pipe) -> bool:
    return vars(stage).get("_seed") is not None if structure.is_native(stage) else PINNED in vars(stage)


def _note(pipe: structure.Pipe, passes: int | None) -> None:
    if id(pipe) not in _counted:
        finalize(pipe, _counted.pop, id(pipe), None).atexit = False
    _counted[id(pipe)] = passes
