"""A loader that was restored goes on exactly where the other one was, and saving changes nothing."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
import torch

from datapipes import allow
from datapipes.errors import UnsavableElement
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from tests.loader2.graphs import Graph, buffers, every_graph, loader_of, states_of, what_follows
from tests.specimens.specimen import Countable


@every_graph
def test_every_position_by_pickle_and_by_torch_with_weights_only(graph: Graph) -> None:
    for state, expected in states_of(graph):
        file = io.BytesIO()
        torch.save({"model": torch.ones(2), "loader": state}, file)
        file.seek(0)
        pickled = pickle.loads(pickle.dumps(state))
        for loaded in (pickled, copy.deepcopy(state), torch.load(file, weights_only=True)["loader"]):
            assert loaded == state
            assert what_follows(loader_of(graph, loaded)) == expected


@every_graph
def test_saving_right_after_loading_gives_an_equal_state(graph: Graph) -> None:
    for state, expected in states_of(graph):
        loader = loader_of(graph, state)
        assert loader.state_dict() == state
        if state["status"] == "running":
            iter(loader)
            assert loader.state_dict() == state
        assert what_follows(loader) == expected


@every_graph
def test_a_state_belongs_to_nobody(graph: Graph) -> None:
    """One state starts any number of loaders, which do not change it."""
    states = [*states_of(graph)]
    state, expected = states[len(states) // 2]
    before = copy.deepcopy(state)
    assert [what_follows(loader_of(graph, state)) for _ in range(3)] == [expected] * 3
    assert state == before


def test_a_state_before_the_first_epoch_holds_the_seed_that_waits() -> None:
    loader = DataLoader2(buffers())
    empty = loader.state_dict()
    assert (empty["status"], empty["seed"], empty["epoch"], empty["pending"]) == ("new", None, 0, None)
    loader.seed(3)
    assert sealed({**loader.state_dict(), "pending": None}) == empty
    assert loader.state_dict()["pending"] == 3
    assert list(loader_of(buffers, loader.state_dict())) == list(loader)


def test_the_fields_of_a_state() -> None:
    loader = DataLoader2(IterableWrapper(range(9)).batch(2))
    loader.seed(5)
    next(iter(loader))
    assert loader.state_dict() == {
        "version": 2,
        "status": "running",
        "seed": 5,
        "epoch": 0,
        "drawn": False,
        "begun": 0,
        "step": 1,
        "number": 0,
        "pending": None,
        "stages": ("0 IterableWrapper", "1 Batcher"),
        "sources": {0: [9, "38833be702c8bf625888e1cf97b5f095de62cde59175d913e5c88f9056065ce29af3c185"]},
        "cells": {0: 2, 1: None},
        "service": None,
        "buffered": False,
        "origins": {},
        "checksum": 425708120,
    }


def test_after_the_last_element_the_epoch_is_still_under_way() -> None:
    loader = DataLoader2(IterableWrapper(range(3)))
    iterator = iter(loader)
    list(islice(iterator, 3))
    again = DataLoader2.from_state(loader.state_dict(), datapipe=IterableWrapper(range(3)))
    assert [list(again), list(again)] == [[], [0, 1, 2]]
    assert next(iterator, "the end") == "the end"
    assert loader.state_dict()["status"] == "finished"


def test_functions_are_not_called_again_for_what_was_delivered() -> None:
    calls: list[int] = []

    def noted(element: int) -> int:
        calls.append(element)
        return element

    def graph() -> IterDataPipe[Any]:
        return IterableWrapper(range(10)).map(noted).batch(2).map(lambda batch: [noted(x) for x in batch])

    loader = DataLoader2(graph())
    list(islice(iter(loader), 3))
    state = loader.state_dict()
    calls.clear()
    assert list(DataLoader2.from_state(state, datapipe=graph())) == [[6, 7], [8, 9]]
    assert calls == [6, 7, 6, 7, 8, 9, 8, 9]


# -- what cannot be saved ----------------------------------------------------------------------------------------------


def test_a_position_that_a_shutdown_has_taken_away_is_not_made_up() -> None:
    with DataLoader2(buffers()) as loader:
        next(iter(loader))
    with pytest.raises(
        RuntimeError, match=r"in the middle of an epoch, and its position is gone: call state_dict\(\) be"
    ):
        loader.state_dict()
    with DataLoader2(buffers()) as finished:
        list(finished)
        state = finished.state_dict()
    assert finished.state_dict() == state


def test_buffered_elements_that_are_no_data_are_named_with_their_stage() -> None:
    locks = [("name", threading.Lock()) for _ in range(6)]
    loader = DataLoader2(IterableWrapper(iter(locks), deepcopy=False).shuffle(buffer_size=3))
    iterator = iter(loader)
    with pytest.warns(UserWarning, match=r"buffered by \.shuffle\(buffer_size=3\).*until then state_dict\(\) raises"):
        next(iterator)
    with pytest.raises(
        UnsavableElement, match=r"buffered by \.shuffle\(buffer_size=3\): elements\[0\]\[1\], .*_thread"
    ):
        loader.state_dict()
    assert len(list(iterator)) == 5
    assert loader.state_dict()["status"] == "finished"


@dataclass
class Point:
    x: int


def test_buffered_elements_of_a_users_class_are_saved_once_it_is_allowed() -> None:
    def graph() -> IterDataPipe[Point]:
        return IterableWrapper(Countable(*range(8))).map(Point).shuffle(buffer_size=4)

    loader = loader_of(graph)
    iterator = iter(loader)
    with pytest.warns(UserWarning, match=r"datapipes\.allow\([\w.]*Point\)"):
        next(iterator)
    with pytest.raises(UnsavableElement, match=r"datapipes\.allow\([\w.]*Point\)"):
        loader.state_dict()
    allow(Point)
    assert list(loader_of(graph, loader.state_dict())) == list(iterator)
