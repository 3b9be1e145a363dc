"""Positions larger than a pipe: after exceptions workers and home tell each other long things, and nobody waits."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from datapipes.graph import Pipe
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


def given(graph: Pipe, service: ReadingServiceInterface) -> list[int]:
    """The numbers of all elements, by somebody who goes on after each exception, in two epochs."""
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


@pytest.mark.timeout(120)
def test_positions_of_64_mebibytes() -> None:
    graph = numbers(10).sharding_filter().map(partial(made, 1 << 25)).shuffle(buffer_size=2)
    assert sorted(given(graph, processes(2))) == sorted(2 * [x for x in range(10) if x != 3])
