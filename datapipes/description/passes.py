"""Number of plain iterations of a pipe that has a pinned seed, or counts its epochs, called passes.

The order of a pipe with a pinned seed follows from the seed and from the number of the pass since ``set_seed``. So no
two passes are alike, and setting the same seed again repeats them. An attribute ``epoch`` of a user's class rises with
the passes. A loader uses the number of its epoch instead.

The counts are kept here, by pipe, because iterating changes no pipe: no attribute, repr, pickle or copy contains them.
A copy counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from multiprocessing.context import get_spawning_popen
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from datapipes.description import structure
from datapipes.description.user_code import counted_epoch
from datapipes.description.user_iter import PINNED

_counted: MutableMapping[structure.Pipe, int | None] = WeakIdKeyDictionary()
"""Number of passes of each pipe. None: ``set_seed`` was called, and no pass has begun since."""

_epochs: MutableMapping[structure.Pipe, int | None] = WeakIdKeyDictionary()
"""The attribute ``epoch`` that these passes count on from: from another one they start over."""


def start_over(pipe: structure.Pipe) -> None:
    """Count the passes of a pipe from 0 again, because its seed was set."""
    _counted[pipe] = None


def count(graph: structure.Pipe) -> None:
    """Count a pass over a graph at each of its stages with a pinned seed or a counted epoch."""
    for stage in filter(_is_counted, structure.walk(graph)):
        epoch = counted_epoch(stage)
        is_set_anew = _epochs.setdefault(stage, epoch) != epoch
        _epochs[stage] = epoch
        _counted[stage] = 1 if is_set_anew else (_counted.get(stage) or 0) + 1


def numbers(graph: structure.Pipe) -> dict[int, int]:
    """Return the number of the latest pass of each counted stage, by its place in the unfolded graph."""
    if not _counted or not any(stage in _counted for stage in structure.walk(graph)):
        return {}
    latest = {structure.place_of(copy): _counted.get(stage) for stage, copy in structure.unfolded(graph)}
    return {place: number - 1 for place, number in latest.items() if number is not None}


def go_on(graph: structure.Pipe, numbers: Mapping[int, int]) -> None:
    """Continue to count from saved numbers of passes."""
    if any(map(_is_counted, structure.walk(graph))):
        for stage, copy in structure.unfolded(graph):
            if _is_counted(stage):
                _counted[stage] = numbers.get(structure.place_of(copy), 0) + 1


def settle(graph: structure.Pipe, epoch: int) -> None:
    """Count a loader's epochs from ``epoch`` on, at the stages whose seed was set since the last call."""
    for stage in structure.walk(graph) if _counted else ():
        if _counted.get(stage, 0) is None:
            _counted[stage] = 1 - epoch


def telling(pipe: structure.Pipe, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Wrap the pickle reduction of a pipe, so that a process that is started with it continues to count."""
    if get_spawning_popen() is None or (passes := _counted.get(pipe)) is None:
        return reduced
    make, arguments, *rest = reduced
    return _made, (passes, make, arguments), *rest


def _made(passes: int, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    pipe = make(*arguments)
    _counted[pipe] = passes
    return pipe


def _is_counted(stage: structure.Pipe) -> bool:
    if structure.is_native(stage) or structure.draws_by_number(stage):
        return vars(stage).get("_seed") is not None
    return PINNED in vars(stage) or counted_epoch(stage) is not None
