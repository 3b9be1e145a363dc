"""Checks that a graph can run in workers. They run when the loader is made, and their errors name the stage.

Elements are unknown before they are made: an element that cannot be sent raises an error in its place.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.description.structure import Pipe
from datapipes.errors import BadArgumentType, GraphError
from datapipes.graph.settings import apply_sharding
from datapipes.iter import IterableWrapper, ShardingRoundRobinDispatcher
from datapipes.messages.short import element_shown
from datapipes.messages.warnings import warn
from datapipes.messages.where import where
from datapipes.position.error_notes import FIRST_WORDS
from datapipes.position.user_classes import is_sharding
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from reading_services.workers.transport.packing import pickled

_DEEPEST = 20  # levels of an element that are searched


def needs_many_readers(graph: Pipe, workers: int) -> None:
    """Raise GraphError for a source that only one worker can read. Warn if each worker would give all elements."""
    if workers < 2:
        return
    apply_sharding(structure.unfold(graph), workers, 0, SHARDING_PRIORITIES.MULTIPROCESSING)  # it may raise an error
    stages = structure.walk(graph, inputs=_read_by_all)
    for stage in stages:
        if isinstance(stage, IterableWrapper) and _can_be_read_once(stage.iterable):
            raise GraphError(
                f"{printed(stage)} reads a {type(stage.iterable).__name__}, which can only be read once, and {workers} "
                "workers would each read it: wrap a list, or an object whose __iter__ starts anew"
            )
    if not any(is_sharding(stage) or isinstance(stage, ShardingRoundRobinDispatcher) for stage in stages):
        warn(
            f"{printed(stages[-1])} has no sharding_filter(): each of the {workers} workers gives all of them, "
            f"so every element comes {workers} times; put .sharding_filter() below the shuffle, before the expensive "
            "stages (a class that reads only its worker's shard shows it by having a method apply_sharding)"
        )


def _read_by_all(stage: Pipe) -> list[Pipe]:
    """Return the inputs of a stage that every worker reads. The dispatcher alone reads dispatched stages."""
    return [] if isinstance(stage, ShardingRoundRobinDispatcher) else structure.parents(stage)


def _can_be_read_once(data: object) -> bool:
    return isinstance(data, Iterator) and _problem(data, copy.deepcopy) is not None


def needs_pickling(graph: Pipe, **functions: Any) -> None:
    """Raise BadArgumentType if a worker that is not a fork cannot be sent the graph. Name the stage and attribute."""
    try:
        cloudpickle.dumps((graph, functions))
        return
    except Exception as error:
        reason = error
    for stage in structure.walk(graph):
        for name, value in structure.attributes(stage).items():
            if not next(structure.pipes_in(value), None) and (problem := _problem(value)) is not None:
                raise BadArgumentType(
                    f"{printed(stage)} cannot be sent to a worker, because of its {name}, {_named(value)}: {problem}"
                ) from problem
    for name, function in functions.items():
        if (problem := _problem(function)) is not None:
            raise BadArgumentType(f"{name} cannot be sent to a worker, {_named(function)}: {problem}") from problem
    raise BadArgumentType(f"{graph!r:.200} cannot be sent to a worker: {reason}") from reason


def note_unsendable(error: Exception, element: object, end: Pipe) -> None:
    """Note on an error of pickling an element from which stage it comes, and which part of it is the reason."""
    part, path = element, ""
    for _ in range(_DEEPEST):
        inner = next(((at, value) for at, value in _parts(part) if _problem(value, pickled) is not None), None)
        if inner is None:
            break
        path, part = path + inner[0], inner[1]
    error.__traceback__ = error.__context__ = None  # they show this library only
    error.add_note(
        f"{FIRST_WORDS}{printed(end)}, whose element cannot be sent out of this process, because of "
        f"{f'its {path}, ' if path else ''}a {type(part).__name__}\n"
        f"  on {element_shown(element)}\n"
        "  read open files in the worker, and leave objects that belong to one process out of elements"
    )


def _parts(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, dict):
        return ((f"[{key!r:.40}]", part) for key, part in value.items())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return ((f"[{i}]", part) for i, part in enumerate(value))
    return ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def portable(function: Callable[..., Any]) -> bytes:
    """Return a function as bytes that a worker can load."""
    try:
        data: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise BadArgumentType(
            f"{where(function)} has to run in the workers when an epoch starts, and cannot be sent to them: {error}"
        ) from error
    return data


def _problem(value: object, use: Callable[[Any], Any] = cloudpickle.dumps) -> Exception | None:
    try:
        use(value)
    except Exception as error:
        return error
    return None


def _named(value: object) -> str:
    return where(value) if callable(value) else f"a {type(value).__name__}"
