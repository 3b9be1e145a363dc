"""A state whose fields are wrong, or that belongs to something else, is refused at once, and the error says why."""

from __future__ import annotations

import pickle
from typing import Any

import numpy
import pytest
import torch

from datapipes.errors import StateError
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.loader2.graphs import Graph, State, as_0_1_0, buffers, states_of

HUGE = 10**5000  # too long to be printed


def running(graph: Graph = buffers, after: int = 4) -> State:
    """A state in the middle of an epoch."""
    return states_of(graph)[after][0]


def refuse(state: Any, match: str, graph: Graph = buffers) -> None:
    """A state must be refused by load_state_dict, and the loader be as if nothing had happened."""
    loader = DataLoader2(graph())
    with pytest.raises(StateError, match=match):
        loader.load_state_dict(state)
    assert loader.state_dict()["status"] == "new"


# -- the fields of a loader's state ------------------------------------------------------------------------------------

PLAIN: list[Any] = [None, True, -1, 2**64, HUGE, 1.5, "x", b"x", [1], {"a": 1}, torch.ones(2), numpy.ones(2), object()]


def wrong(*fine: Any) -> list[Any]:
    return [value for value in PLAIN if not any(value is each for each in fine)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (field, value)
        for field, values in {
            "version": [*wrong(), 0, 3, 1.0],
            "status": [*wrong(), "paused", ["running"]],
            "seed": wrong(),
            "epoch": wrong(),
            "pending": wrong(PLAIN[0]),
            "stages": [*wrong(), ["0 IterableWrapper", 1], {"0 IterableWrapper"}, "0 IterableWrapper"],
            "cells": [*wrong(), {"0": 1}, {True: 1}, {0.0: 1}, [], ()],
            "service": [*wrong(PLAIN[0], PLAIN[7]), bytearray(b"x")],
            "buffered": wrong(PLAIN[1]),
            "origins": [*wrong(), {"0": {}}, {0: 1}, {0: {1: 1}}, {0: {"rng": "1"}}],
            "checksum": wrong(),
        }.items()
        for value in values
    ],
    ids=lambda value: value if type(value) is str else type(value).__name__,
)
def test_every_field_is_checked_and_named(field: str, value: Any) -> None:
    refuse({**running(), field: value}, f"^{field}: ")


@pytest.mark.parametrize("state", [None, 1, "state", b"state", [], [("version", 1)], torch.ones(1)], ids=repr)
def test_what_is_no_dict_is_no_state(state: Any) -> None:
    refuse(state, r"^a state is a dict, as state_dict\(\) returned it; found ")


def test_missing_and_unknown_fields_are_named() -> None:
    new = running()
    for state in (new, as_0_1_0(new)):
        for field in state:
            refuse({name: state[name] for name in state if name != field}, rf"fields of the state: .*\b{field} is miss")
        refuse({**state, "zeal": 1, 7: 2}, "fields of the state: 'zeal' is unknown, 7 is unknown; load what")
    state = new
    refuse({}, "version is missing, status is missing, .* service is missing")
    refuse({**state, HUGE: 1}, r"a number of \d+ bits is unknown")


def test_fields_must_agree() -> None:
    state, new = running(), DataLoader2(buffers()).state_dict()
    refuse({**state, "seed": None}, "^seed: expected an unsigned 64-bit number, found None")
    refuse({**state, "status": "finished"}, "^cells: expected none in a state that is finished, found dict of length 4")
    refuse({**state, "status": "new"}, "^seed: expected None, because no epoch has begun, found 3")
    refuse({**new, "status": "running"}, "^seed: expected an unsigned")
    refuse({**new, "seed": 1}, "^seed: expected None")


def test_a_state_of_another_version_is_refused_whatever_its_fields() -> None:
    refuse({"version": 3, "place": "elsewhere"}, "^version: this library reads versions 1 and 2, the state has 3$")


def test_a_state_of_the_version_without_checksums_is_loaded() -> None:
    state = running()
    loader, old = DataLoader2.from_state(state, datapipe=buffers()), as_0_1_0(state)
    assert list(DataLoader2.from_state(old, datapipe=buffers())) == list(loader)
    refuse({**state, "version": 1}, "fields of the state: 'number' is unknown, .* 'checksum' is unknown")


@pytest.mark.parametrize("progress", [b"", pickle.dumps([1])])
def test_a_state_of_torchdata_is_recognised(progress: bytes) -> None:
    state = {
        "serialized_datapipe": pickle.dumps([1, 2, 3]),
        "reading_service_state": progress or None,
        "randomness_state": (7, False, pickle.dumps(1), pickle.dumps(2)),
    }
    refuse(state, r"state of torchdata's DataLoader2, .* start the epoch anew, with dl\.seed\(epoch\)")


def test_a_state_of_an_iterator_is_not_that_of_a_loader() -> None:
    iterator: Any = iter(IterableWrapper(range(3)))
    next(iterator)
    refuse(iterator.state_dict(), "status is missing, drawn is missing, .* step is missing, pending is missing")


# -- the graph ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "differs"),
    [
        (lambda: IterableWrapper(range(9)).map(abs).batch(2), r"\+1 \.map\(\), \+2 \.batch\(\)"),
        (lambda: IterableWrapper(range(9)), r"-1 \.batch\(\)"),
        (lambda: IterableWrapper(range(9)).shuffle(), r"-1 \.batch\(\), \+1 \.shuffle\(\)"),
        (lambda: IterableWrapper(range(9)).batch(2).zip(IterableWrapper("ab")), r"\+2 IterableWrapper, \+3 \.zip\(\)"),
    ],
)
def test_a_state_of_another_graph_says_what_differs(graph: Graph, differs: str) -> None:
    def batches() -> IterDataPipe[Any]:
        return IterableWrapper(range(9)).batch(2)

    refuse(running(batches, 1), f"^stages: the state was saved from another graph .*{differs}", graph)


def test_a_state_of_the_same_stages_in_another_order_is_refused() -> None:
    state = running()
    refuse(sealed({**state, "stages": state["stages"][::-1]}), "^stages: .* the same stages in another order")


def test_places_that_hold_no_position_here_or_have_none_in_the_state_are_named() -> None:
    state = running()
    cells: dict[int, Any] = state["cells"]
    more = sealed({**state, "cells": {**cells, 99: 1}})
    refuse(more, r"^cells: there are positions for the stages \[99\], which keep none")
    for place in cells:
        fewer = {other: cell for other, cell in cells.items() if other != place}
        refuse(sealed({**state, "cells": fewer}), rf"^cells: .* no positions? for .*\b{place}\b.*, which keeps? one")


def test_a_position_past_the_end_of_the_data_is_refused() -> None:
    state = running(lambda: IterableWrapper(range(9)))
    for past in (10, 2**62):
        refuse(
            sealed({**state, "cells": {0: past}}),
            rf"{past} elements were taken, but there are only 9",
            lambda: IterableWrapper(range(9)),
        )
