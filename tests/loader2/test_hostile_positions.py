"""Whatever the positions in a state hold, loading them runs no code: they fit, or the error says where they do not."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from datapipes.description.printing import stage as printed
from datapipes.errors import StateError
from datapipes.graph import walk
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from loader2.state import UnsafeState
from tests.loader2.graphs import GRAPHS, Graph, State, buffers, every_graph, laps, loader_of, states_of
from tests.specimens.specimen import Countable

HUGE = 10**5000  # too long to be printed


class Resumable(IterDataPipe[int]):
    """A user's class that says what it remembers."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe
        self.sums: dict[str, int] = {"total": 0}

    def __iter__(self) -> Iterator[int]:
        for element in self.source_datapipe:
            self.sums["total"] += element
            yield self.sums["total"]

    def state_dict(self) -> dict[str, int]:
        return dict(self.sums)

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.sums = dict(state)


def sums() -> IterDataPipe[int]:
    return Resumable(IterableWrapper(range(9)))


def running(graph: Graph = buffers, after: int = 4) -> State:
    """A state in the middle of an epoch."""
    return states_of(graph)[after][0]


# -- hostile values at every depth -------------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Values of a state, and their places, containers included."""
    yield path, value
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if type(value) is list else ():
        yield from leaves(inner, (*path, key))


def replaced(state: State, path: tuple[Any, ...], value: Any, sealing: bool = True) -> State:
    """A copy of a state with another value at one place, and the checksum that belongs to it."""
    other = copy.deepcopy(state)
    holder: Any = other
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return sealed(other) if sealing else other


def named(path: tuple[Any, ...]) -> str:
    return "cells" + "".join(f"[{key!r}]" for key in path[1:])


@every_graph
def test_what_no_stage_saves_is_refused_at_every_depth_and_its_place_is_named(graph: Graph) -> None:
    hostile = [object(), {1, 2}, torch.ones(2), numpy.int64(1), HUGE, -HUGE, 2**63, [HUGE], {HUGE: 1}, print]
    for state, _ in states_of(graph)[:4]:
        for path, _ in leaves(state["cells"], ("cells",)):
            for value in hostile:
                reason = reason_to_refuse(graph, replaced(state, path, value, sealing=False))
                assert reason.startswith((named(path), "cells: expected")), (path, value)


def test_lists_in_lists_have_an_end() -> None:
    endless: list[Any] = []
    endless.append(endless)
    reason = reason_to_refuse(buffers, replaced(running(), ("cells", 1), endless, sealing=False))
    assert reason.startswith("cells[1][0][0][0][0]")
    assert reason.endswith(": expected at most 100 levels, found list of length 1")
    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]  # two to the power of 60 values, if all of them are read
    reason = reason_to_refuse(buffers, replaced(running(), ("cells", 1), shared, sealing=False))
    assert reason.startswith("cells: expected at most 2000000 values, a shared one counted each time")


@every_graph
def test_plain_values_of_the_wrong_kind_are_refused_by_loading_or_fit(graph: Graph) -> None:
    """Nothing but a StateError comes out of loading; a value that fits, as another count does, is as good as any."""
    stages = [printed(stage) for stage in walk(graph())]
    plain: list[Any] = [
        None,
        True,
        -1,
        0,
        10**6,
        2**63 - 1,
        math.nan,
        "",
        "start",
        b"",
        b"x",
        [],
        [1],
        [[]],
        {},
        {1: 1},
        {"x": 1},
    ]
    for state, _ in states_of(graph)[:4]:
        for path, value in leaves(state["cells"], ("cells",)):
            reasons = [*filter(None, (reason_to_refuse(graph, replaced(state, path, other)) for other in plain))]
            if graph is not laps:  # a cycle looks at the position within its lap when it gets there
                assert len(reasons) >= len(plain) // 2, (path, value)
            for reason in reasons:
                assert reason.startswith("cells") or any(stage in reason for stage in stages), reason


def reason_to_refuse(graph: Graph, state: State) -> str:
    """The error of a loader that refuses a state; nothing if it takes it."""
    try:
        DataLoader2(graph()).load_state_dict(state)
    except StateError as error:
        return str(error)
    return ""


# -- crafted bytes -----------------------------------------------------------------------------------------------------


class MakesAFolder:
    """Unpickling this runs a function."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (self.path,)


def crafted(path: Path) -> Iterator[bytes]:
    """Pickles that make a folder when they are loaded by pickle."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for value in (MakesAFolder(path), [MakesAFolder(path)], {"x": (1, MakesAFolder(path))}):
            yield pickle.dumps(value, protocol)


def fields_of_bytes() -> list[tuple[Graph, State, tuple[Any, ...]]]:
    """Every field of bytes in the states of the example graphs."""
    graphs = [*GRAPHS, sums, lambda: IterableWrapper(Countable(*range(9))).flatmap(lambda x: [x] * 3).prefetch(2)]
    found: dict[tuple[int, Any], tuple[Graph, State, tuple[Any, ...]]] = {}
    for number, graph in enumerate(graphs):
        for state, _ in states_of(graph):
            for path, value in leaves(state["cells"], ("cells",)):
                if type(value) is bytes and "inside" not in path:  # a lap of a cycle is opened when it is reached
                    found.setdefault((number, path), (graph, state, path))
    return list(found.values())


def test_crafted_bytes_run_nothing_in_any_field(tmp_path: Path) -> None:
    fields = fields_of_bytes()
    assert len(fields) >= 6
    folder = tmp_path / "made by a pickle"
    for number, payload in enumerate(crafted(folder)):
        if number == 0:
            pickle.loads(payload)
            assert folder.exists(), "the payload is harmless, and proves nothing"
            folder.rmdir()
        for graph, state, path in fields:
            with pytest.raises(StateError, match=rf"does not fit stage {path[1]}, "):
                DataLoader2(graph()).load_state_dict(replaced(state, path, payload))
            assert not folder.exists()


def test_truncated_and_extended_bytes_are_refused_in_every_field() -> None:
    for graph, state, path in fields_of_bytes():
        holder: Any = state
        for key in path:
            holder = holder[key]
        damaged = [holder[:length] for length in range(len(holder))] + [holder + b"N", holder + holder]
        for data in damaged:
            with pytest.raises(StateError, match=rf"stage {path[1]}, .* damaged, or not written by this library"):
                DataLoader2(graph()).load_state_dict(replaced(state, path, data))


def test_a_refusal_tells_unsafe_bytes_from_those_that_do_not_fit(tmp_path: Path) -> None:
    state = running(sums, 2)
    payload = next(crafted(tmp_path / "folder"))
    with pytest.raises(StateError) as error:
        loader_of(sums, replaced(state, ("cells", 1), payload))
    assert isinstance(error.value.__cause__, UnsafeState)
