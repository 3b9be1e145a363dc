"""Loading a state: when it may be done, by whom, and what comes of a loader that has refused one."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from datapipes.errors import StateError
from datapipes.iter import IterableWrapper
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import InProcessReadingService
from tests.loader2.graphs import Graph, buffers, every_graph, loader_of, states_of, what_follows


class Loader(DataLoader2[int]):
    """A user's subclass."""


def test_from_state_makes_what_it_was_asked_for() -> None:
    def negative(datapipe: Any) -> Any:
        return datapipe.map(lambda x: -x)

    loader = Loader(IterableWrapper(range(5)), negative, InProcessReadingService(prefetch_cnt=2))
    list(islice(iter(loader), 2))
    again = Loader.from_state(
        loader.state_dict(),
        InProcessReadingService(prefetch_cnt=2),
        datapipe=IterableWrapper(range(5)),
        datapipe_adapter_fn=negative,
    )
    assert type(again) is Loader
    assert list(again) == [-2, -3, -4]
    for each in (loader, again):
        each.shutdown()


def test_loading_comes_before_the_first_element_and_before_shutdown() -> None:
    state = DataLoader2(buffers()).state_dict()
    iterated, shut = DataLoader2(buffers()), DataLoader2(buffers())
    next(iter(iterated))
    shut.shutdown()
    for loader in (iterated, shut):
        with pytest.raises(
            RuntimeError, match=r"iterator has already been asked for one, or it was shut down; make a new Dat"
        ):
            loader.load_state_dict(state)


@every_graph
def test_an_iterator_that_has_given_nothing_forbids_no_loading(graph: Graph) -> None:
    for state, expected in states_of(graph):
        loader = DataLoader2(graph())
        unused = iter(loader)
        loader.load_state_dict(state)
        with pytest.raises(RuntimeError, match="or a state was loaded into it: use the newer one"):
            next(unused)
        assert what_follows(loader) == expected


@every_graph
def test_between_two_epochs_too(graph: Graph) -> None:
    state, expected = [*states_of(graph)][2]
    loader = DataLoader2(graph())
    for _ in loader:
        pass
    iter(loader)
    loader.load_state_dict(state)
    assert what_follows(loader) == expected


def test_an_epoch_may_end_at_its_length() -> None:
    graph = IterableWrapper(range(6)).shuffle().batch(2)
    loader = DataLoader2(graph)
    loader.seed(1)
    epochs = [list(loader), list(loader)]
    for ends_at_length, expected in ((False, []), (True, epochs[1])):
        loader.ends_at_length = ends_at_length
        loader.seed(1)
        elements = iter(loader)
        states = [loader.state_dict() for _ in range(3) if next(elements)]
        assert [state["status"] for state in states] == ["running", "running", "finished" if expected else "running"]
        again = DataLoader2.from_state(states[-1], datapipe=graph)
        assert (again.epoch, again.step) == (2 if not expected else 3, 3)
        assert list(again) == expected


@every_graph
def test_the_last_of_several_loaded_states_counts(graph: Graph) -> None:
    states = [*states_of(graph)]
    loader = DataLoader2(graph())
    for state, _ in states:
        loader.load_state_dict(state)
    assert loader.state_dict() == states[-1][0]
    loader.load_state_dict(states[1][0])
    assert what_follows(loader) == states[1][1]


@every_graph
def test_a_loader_that_has_refused_a_state_is_as_it_was_and_takes_another(graph: Graph) -> None:
    states = [*states_of(graph)]
    damaged = sealed({**states[2][0], "cells": dict.fromkeys(states[2][0]["cells"], "damaged")})
    loader = loader_of(graph)
    with pytest.raises(StateError, match=r"does not fit stage \d, "):
        loader.load_state_dict(damaged)
    assert what_follows(loader) == states[0][1][: len(states[0][1]) - len(states[-1][1])]
    loader = DataLoader2(graph())
    with pytest.raises(StateError, match=r"does not fit stage \d, "):
        loader.load_state_dict(damaged)
    loader.load_state_dict(states[2][0])
    assert what_follows(loader) == states[2][1]


def test_what_runs_ahead_may_be_another_number_after_loading_but_not_another_stage() -> None:
    def served(count: int) -> DataLoader2[int]:
        return DataLoader2(IterableWrapper(range(30)), reading_service=InProcessReadingService(prefetch_cnt=count))

    states = {}
    for count in (0, 2):
        with served(count) as loader:
            list(islice(iter(loader), 3))
            states[count] = loader.state_dict()
    with served(7) as loader:
        loader.load_state_dict(states[2])
        assert list(loader) == list(range(3, 30))
    with (
        served(0) as loader,
        pytest.raises(StateError, match=r"cells: there are positions for the stages \[1\], which"),
    ):
        loader.load_state_dict(states[2])
    with (
        served(2) as loader,
        pytest.raises(StateError, match=r"cells: .* no positions? for .*\b1\b.*, which keeps? one"),
    ):
        loader.load_state_dict(states[0])
