"""Check that a graph can run in workers, when the loader is made: what cannot is named there, not found later.

Only what its elements are is not known before they are made; one that cannot be sent is an error in its place.
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
from datapipes.parts.sharding import SHARDING_PRIORITIES
from datapipes.position.blame import FIRST_WORDS
from datapipes.position.user_classes import is_sharding
from reading_services.workers.transport.packing import pickled

_DEEPEST = 20  # levels of an element that are looked at


def needs_many_readers(graph: Pipe, workers: int) -> None:
    """Refuse sources that only one can read; warn of a graph whose elements everybody would give."""
    if workers < 2:
        return
    apply_sharding(structure.unfold(graph), workers, 0, SHARDING_PRIORITIES.MULTIPROCESSING)  # which may refuse it
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
            f"so every element comes {workers} times; put .sharding_filter() behind the shuffle, before the expensive "
            "stages (a class that takes its worker's part by itself says so by having a method apply_sharding)"
        )


def _read_by_all(stage: Pipe) -> list[Pipe]:
    """The stages above a stage that every worker reads: what is dispatched is read by one process for all."""
    return [] if isinstance(stage, ShardingRoundRobinDispatcher) else structure.parents(stage)


def _can_be_read_once(data: object) -> bool:
    return isinstance(data, Iterator) and _problem(data, copy.deepcopy) is not None


def needs_pickling(graph: Pipe, **functions: Any) -> None:
    """Refuse what cannot be sent to a worker that is not a fork, naming the stage and the attribute."""
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
    """Note on an error of pickling an element which stage it comes from, and what in it is the reason."""
    part, path = element, ""
    for _ in range(_DEEPEST):
        inner = next(((at, value) for at, value in _parts(part) if _problem(value, pickled) is not None), None)
        if inner is None:
            break
        path, part = path + inner[0], inner[1]
    error.__traceback__ = error.__context__ = None  # they show nothing but this library
    error.add_note(
        f"{FIRST_WORDS}{printed(end)}, whose element cannot be sent out of this process, because of "
        f"{f'its {path}, ' if path else ''}a {type(part).__name__}\n"
        f"  on {element_shown(element)}\n"
        "  read open files before that, and leave out of elements what belongs to one process"
    )


def _parts(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, dict):
        return ((f"[{key!r:.40}]", part) for key, part in value.items())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return ((f"[{i}]", part) for i, part in enumerate(value))
    return ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def portable(function: Callable[..., Any]) -> bytes:
    """A function as bytes that a worker can read."""
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
