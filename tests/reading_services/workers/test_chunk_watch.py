"""What is there of a chunk is sent while its next element takes long; nothing else changes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services.workers import chunk_watch
from reading_services.workers.chunk_watch import ChunkWatch
from tests.naive_graphs import Source, Stepped
from tests.reading_services.workers.in_turn import Service, processes, threads
from tests.reading_services.workers.test_random_graphs_in_workers import check

LONG = 60.0
SERVICES = pytest.mark.parametrize("service", [partial(processes, multiprocessing_context="fork"), threads])
PLACED = pytest.mark.parametrize("placed", ["shard", "dispatch"])


def placed_as(placed: str, fn: Callable[[int], Any]) -> Pipe:
    source = IterableWrapper(range(200))
    if placed == "dispatch":
        return source.map(fn).sharding_round_robin_dispatch()
    return source.sharding_filter().map(fn)


@SERVICES
@PLACED
def test_elements_do_not_wait_for_one_that_takes_long(service: Service, placed: str) -> None:
    gate = multiprocessing.get_context("fork").Event()

    def waits(x: int) -> int:
        assert x < 150 or gate.wait(LONG)
        return x

    with DataLoader2(placed_as(placed, waits), reading_service=service(2)) as loader:
        iterator = iter(loader)
        found = [next(iterator) for _ in range(150)]
        state = pickle.dumps(loader.state_dict())
        gate.set()
        assert found + list(iterator) == list(range(200))
    with DataLoader2(placed_as(placed, waits), reading_service=service(2)) as loader:
        loader.load_state_dict(pickle.loads(state))
        assert list(loader) == list(range(150, 200))


class Unsendable:
    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


@PLACED
def test_what_cannot_be_sent_is_an_error_in_its_place(placed: str) -> None:
    gate = multiprocessing.get_context("fork").Event()

    def waits(x: int) -> Any:
        assert x < 150 or gate.wait(LONG)
        return Unsendable() if x == 141 else x

    found: list[object] = []
    with DataLoader2(placed_as(placed, waits), reading_service=processes(2)) as loader:
        iterator = iter(loader)
        while len(found) < 200:
            if len(found) == 140:
                gate.set()
            try:
                found.append(next(iterator))
            except TypeError:
                found.append("TypeError")
    assert found == [*range(141), "TypeError", *range(142, 200)]


@pytest.mark.filterwarnings("ignore:.*it is replaced and goes on")
@pytest.mark.parametrize("on_death", ["raise", "skip"])
def test_a_death_behind_what_was_sent(on_death: str, tmp_path: Any) -> None:
    gate = multiprocessing.get_context("fork").Event()

    def dies(x: int) -> int:
        if x == 150 and (on_death == "skip" or not (tmp_path / "died").exists()):
            assert gate.wait(LONG)
            (tmp_path / "died").touch()
            os._exit(7)
        return x

    service = processes(2, restart=4, on_death=on_death)
    with DataLoader2(placed_as("shard", dies), reading_service=service) as loader:
        iterator = iter(loader)
        found = [next(iterator) for _ in range(150)]
        gate.set()
        found += iterator
        assert sorted(found) == [x for x in range(200) if x != 150 or on_death == "raise"]
        assert sum(loader.errors.values()) == (on_death == "skip")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is sent early, at any moment."""
    monkeypatch.setattr(chunk_watch, "_TICK", 0.0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@SERVICES
@PLACED
@pytest.mark.usefixtures("impatient")
@pytest.mark.filterwarnings("ignore:.* goes on after")
def test_at_any_moment(service: Service, placed: str) -> None:
    def bad(x: int) -> int:
        if x % 331 == 330:
            raise ValueError(x)
        return x

    source = IterableWrapper(range(5000))
    pipe: Pipe = source.map(bad, on_error="skip").sharding_round_robin_dispatch()
    pipe = source.sharding_filter().map(bad, on_error="skip") if placed == "shard" else pipe
    left = [x for x in range(5000) if x % 331 != 330]
    with DataLoader2(pipe, reading_service=service(1)) as loader:
        iterator = iter(loader)
        for k in range(0, len(left), 97):
            found = [next(iterator) for _ in range(min(97, len(left) - k))]
            assert found == left[k : k + 97]
            state = loader.state_dict()
            if k % 10 == 0:
                with DataLoader2(pipe, reading_service=service(1)) as resumed:
                    resumed.load_state_dict(state)
                    assert list(resumed) == left[k + 97 :]
        assert next(iterator, None) is None
        assert list(loader.errors.values()) == [15]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("where", ["sharded", "dispatched"])
@pytest.mark.parametrize("workers", [1, 2, 3])
@SERVICES
def test_graphs_are_resumed_anywhere(service: Service, where: str, workers: int) -> None:
    steps = (("shuffle", 3), ("map", 1), ("batch", 2))
    for saved in (0.0, 0.3, 0.8):
        check(service, Stepped(Source(0, 12, "list"), steps), 7, workers, where, saved)


def test_a_list_is_cut_while_it_grows() -> None:
    sent: list[int] = []
    came = threading.Semaphore(0)

    def send(chunk: list[int]) -> int:
        there = chunk[:]
        del chunk[: len(there)]
        sent.extend(there)
        came.release(len(there))
        return len(there)

    def slowly() -> Iterator[int]:
        for x in range(7):
            yield x
            if x % 2:
                for _ in range(len(sent), x + 1):
                    assert came.acquire(timeout=LONG)

    watch = ChunkWatch(send)
    for _ in range(2):
        chunk: list[int] = []
        watch.open(chunk)
        chunk.extend(slowly())
        early = watch.close()
        assert (sent + chunk, early) == (list(range(7)), len(sent))
        assert early >= 6
        sent.clear()
        while came.acquire(blocking=False):
            pass
    watch.end()


def test_an_error_in_sending_is_raised_when_the_chunk_is_closed() -> None:
    met = threading.Event()

    def send(chunk: list[int]) -> int:
        met.set()
        raise BrokenPipeError("gone")

    watch = ChunkWatch(send)
    watch.open([1])
    assert met.wait(LONG)
    with pytest.raises(BrokenPipeError, match="gone"):
        watch.close()
    watch.open([])
    assert watch.close() == 0
    watch.end()
