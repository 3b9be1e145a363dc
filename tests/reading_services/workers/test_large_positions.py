"""Positions larger than a pipe: sent after exceptions without a wait, and otherwise only if the consumer saves."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any

import pytest

from datapipes.graph import Pipe
from datapipes.position.position_history import SnapshotBudget
from loader2 import DataLoader2
from reading_services import ReadingServiceInterface
from tests.reading_services.workers.in_turn import SEED, numbers, processes, threads

LENGTH = 60
BUFFERED = 8


def made(size: int, x: int) -> tuple[int, bytes]:
    """An element of a size, or an exception."""
    if x % 7 == 3:
        raise ValueError(f"{x}, for a try")
    return x, bytes(size)


def in_workers(size: int) -> Pipe:
    return numbers(LENGTH).shuffle().sharding_filter().map(partial(made, size)).shuffle(buffer_size=BUFFERED)


def in_the_dispatcher(size: int) -> Pipe:
    above = numbers(LENGTH).map(partial(made, size)).shuffle(buffer_size=BUFFERED)
    return above.sharding_round_robin_dispatch().map(same)


def same(x: Any) -> Any:
    return x


def in_a_list(size: int, x: int) -> list[tuple[int, bytes]]:
    return [(x, x.to_bytes(2) + bytes(size))]


def numbers_of(elements: Iterable[tuple[int, bytes]]) -> list[int]:
    return [x for x, _ in elements]


def given(graph: Pipe, service: ReadingServiceInterface) -> list[int]:
    """Return the numbers of all elements of two epochs. Continue after each exception."""
    found: list[int] = []
    with DataLoader2(graph, reading_service=service) as loader:
        loader.seed(SEED)
        for _ in range(2):
            iterator = iter(loader)
            while True:
                try:
                    found.extend(number for number, _ in iterator)
                    break
                except ValueError:
                    continue
    return found


@pytest.mark.parametrize("size", [0, 1 << 10, 1 << 14, 1 << 17])
@pytest.mark.parametrize("graph", [in_workers, in_the_dispatcher])
def test_going_on_after_exceptions_however_large_the_positions(graph: Any, size: int) -> None:
    expected = sorted(2 * [x for x in range(LENGTH) if x % 7 != 3])
    for service in (processes(2), threads(2)):
        assert sorted(given(graph(size), service)) == expected


@pytest.mark.parametrize("graph", [in_workers, in_the_dispatcher])
def test_workers_that_inherit_nothing(graph: Any) -> None:
    expected = sorted(2 * [x for x in range(LENGTH) if x % 7 != 3])
    assert sorted(given(graph(1 << 14), processes(2, multiprocessing_context="forkserver"))) == expected


def test_positions_of_64_mebibytes() -> None:
    graph = numbers(10).sharding_filter().map(partial(made, 1 << 25)).shuffle(buffer_size=2)
    assert sorted(given(graph, processes(2))) == sorted(2 * [x for x in range(10) if x != 3])


@pytest.mark.parametrize("make", [processes, threads])
def test_what_waits_is_told_where_somebody_saves(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: True)
    rows = numbers(400).sharding_filter().flatmap(partial(in_a_list, 1 << 18))  # which cannot be sought
    graph = rows.shuffle(buffer_size=BUFFERED)
    with DataLoader2(graph, reading_service=make(2)) as loader:
        loader.seed(SEED)
        iterator = iter(loader)
        states = []
        for _ in range(2):
            numbers_of(islice(iterator, 100))
            states.append(loader.state_dict())
        left = numbers_of(iterator)
    for state, size, skipped in ((states[0], 0, 100), (states[1], 2 * BUFFERED << 18, 0)):
        assert size <= len(pickle.dumps(state)) < size + (1 << 20)
        with DataLoader2(graph, reading_service=make(2)) as loader:
            loader.load_state_dict(state)
            assert numbers_of(loader)[skipped:] == left
