"""A rank that dies, fails, stalls, differs or leaves: the others get an error that says which and why.

Ranks tell how long they waited; the bounds are those that are promised, far above what it takes. What a stream does
about bad news, in any order of events, is in the tests of ``datapipes.ranks``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    PrefetchTimeoutError,
    RankDied,
    RankFailed,
    RankLeft,
    RanksDiffer,
)
from tests.many_ranks import on_ranks

MANY = 100_000


def loader(graph: Pipe, timeout: float = 1800) -> DataLoader2[Any]:
    return DataLoader2(graph, reading_service=DistributedReadingService(timeout))


def known(fn: Callable[[int], int]) -> Pipe:
    return IterableWrapper(range(MANY)).sharding_filter().map(fn)


def unknown(fn: Callable[[int], int]) -> Pipe:
    return known(fn).filter(is_any)


def is_any(x: int) -> bool:
    return True


def same(x: int) -> int:
    return x


def error_of(elements: Any) -> tuple[BaseException, int, float]:
    """The error that iterating raised, after how many elements, and after how many seconds without one."""
    count, last = 0, monotonic()
    try:
        for _ in elements:
            count, last = count + 1, monotonic()
    except RuntimeError as error:
        return error, count, monotonic() - last
    except ValueError as error:
        return error, count, monotonic() - last
    raise AssertionError(f"no error after {count} elements")


@pytest.mark.parametrize("graph", [known, unknown])
def test_an_error_in_a_rank_is_an_error_in_all(graph: Callable[..., Pipe]) -> None:
    def run(rank: int) -> Any:
        def fn(x: int) -> int:
            if x == 2 * 700 + 1:
                raise ValueError(f"bad row {x}")
            return x

        with loader(graph(fn)) as dl:
            dl.seed(1)
            error, count, waited = error_of(dl)
            after = next(iter(dl))  # the next epoch is whole
            return type(error), str(error), getattr(error, "traceback", ""), count, waited, after

    other, raising = on_ranks(2, run)
    assert raising[:2] == (ValueError, "bad row 1401")
    assert raising[3] == 700
    assert other[0] is RankFailed
    assert other[1] == "rank 1 failed: ValueError: bad row 1401"
    assert "in fn" in other[2]
    assert "bad row" in other[2]
    assert other[4] < 2
    assert (other[5], raising[5]) == (0, 1)
    if graph is unknown:
        assert other[3] <= 700


@pytest.mark.parametrize("graph", [known, unknown])
@pytest.mark.parametrize("dies", [0, 1])
def test_a_rank_that_is_killed_is_named(graph: Callable[..., Pipe], dies: int) -> None:
    def run(rank: int) -> Any:
        def fn(x: int) -> int:
            if rank == dies and x > 2000:
                os.kill(os.getpid(), signal.SIGKILL)
            return x

        error, _, waited = error_of(loader(graph(fn)))
        return type(error), str(error), waited

    for kind, text, waited in on_ranks(3, run, dying=frozenset({dies})):
        assert kind is RankDied
        assert f"rank {dies} has died" in text
        assert waited < 5


@pytest.mark.parametrize(("graph", "stalls"), [(known, 1), (unknown, 0)])
def test_a_rank_that_stalls_is_named(graph: Callable[..., Pipe], stalls: int) -> None:
    def run(rank: int) -> Any:
        def fn(x: int) -> int:
            if x == 2000 + stalls:
                threading.Event().wait(3)  # longer than the timeout
            return x

        dl = loader(graph(fn), timeout=1)
        error, *_ = error_of(dl)
        dl.shutdown()
        return type(error), str(error), getattr(error, "timeout", None)

    ranks = on_ranks(2, run)
    kind, text, timeout = ranks[1 - stalls]
    assert kind is PrefetchTimeoutError
    assert timeout == 1
    assert text == f"Fail to fetch data within 1 seconds, waiting for rank {stalls}"
    assert ranks[stalls][0] is RankFailed


@pytest.mark.parametrize("graph", [known, unknown])
def test_a_rank_that_is_stopped_is_named_even_if_nobody_waits_for_it(graph: Callable[..., Pipe]) -> None:
    context = multiprocessing.get_context("fork")
    stopped = context.Value("i", 0)

    def run(rank: int) -> Any:
        def fn(x: int) -> int:
            if x == 3 * 40 + 1:
                stopped.value = os.getpid()
                os.kill(os.getpid(), signal.SIGSTOP)
            return x

        dl, step = loader(graph(fn), timeout=1), threading.Event()
        error, count, _ = error_of(step.wait(0.05 if rank == 0 else 0) or x for x in dl)  # a step, as of training
        if rank == 0:
            os.kill(stopped.value, signal.SIGCONT)
        return type(error), str(error), count

    (kind, text, count), (kind_when_it_goes_on, told, _), (kind_of_another, text_of_another, _) = on_ranks(3, run)
    assert count < 1000, "it was in the middle of what it may hand on"
    assert PrefetchTimeoutError in (kind, kind_of_another), "who finds it out tells the others"
    assert kind_when_it_goes_on is RankFailed, told
    for each in (text, told, text_of_another):
        assert each.endswith("Fail to fetch data within 1 seconds, waiting for rank 1")


def test_a_rank_whose_steps_take_long_is_heard() -> None:
    def run(rank: int) -> int:
        with loader(IterableWrapper(range(8)).sharding_filter(), timeout=1) as dl:
            count = 0
            for count, _ in enumerate(dl, 1):
                if count == 2:
                    threading.Event().wait(2.5)  # a step that takes long
            return count

    assert on_ranks(2, run) == [4, 4]


def test_a_rank_that_does_not_begin_is_named() -> None:
    def run(rank: int) -> Any:
        dl = loader(known(same), timeout=1)
        iterator = iter(dl) if rank == 0 else None
        return None if iterator is None else next(iterator)

    with pytest.raises(AssertionError, match=r"PrefetchTimeoutError: .* waiting for rank 1, which has not begun"):
        on_ranks(2, run)


def test_other_graphs_are_found_out() -> None:
    def run(rank: int) -> str:
        graph = IterableWrapper(range(100)).sharding_filter().batch(8 if rank == 1 else 4)
        with pytest.raises(RanksDiffer) as found:
            iter(loader(graph))
        return str(found.value)

    for text in on_ranks(3, run):
        assert "graph: ranks 0, 2 have" in text
        assert ".batch(4); rank 1 has" in text


def test_other_policies_are_found_out() -> None:
    def run(rank: int) -> str:
        service = DistributedReadingService(20, uneven="drop" if rank else "pad")
        with pytest.raises(RanksDiffer) as found:
            iter(DataLoader2(known(same), reading_service=service))
        return str(found.value)

    for text in on_ranks(2, run):
        assert "services: rank 0 has DistributedReadingService(timeout=20, uneven='pad'); rank 1 has" in text


def test_a_rank_that_resumes_alone_is_found_out() -> None:
    def run(rank: int) -> str:
        with loader(known(same)) as dl:
            next(iter(dl))
            state = dl.state_dict()
        again = loader(known(same))
        begins = (lambda: again.load_state_dict(state)) if rank == 0 else (lambda: iter(again))
        with pytest.raises(RanksDiffer) as found:
            begins()
        return str(found.value)

    for text in on_ranks(2, run):
        assert "start: rank 0 has a saved position in epoch 0 of seed" in text
        assert "rank 1 has the beginning of an epoch" in text


@pytest.mark.parametrize("graph", [known, unknown])
def test_a_rank_that_leaves_its_epoch_is_named(graph: Callable[..., Pipe]) -> None:
    def run(rank: int) -> Any:
        dl = loader(graph(same))
        if rank == 0:
            error, count, waited = error_of(dl)
            return type(error), str(error), count, waited
        iterator = iter(dl)
        for _ in range(10):
            next(iterator)
        dl.shutdown()
        return None

    (kind, text, count, waited), _ = on_ranks(2, run)
    assert kind is RankLeft
    assert "rank 1 has left the epoch after 10 elements" in text
    assert count >= 10
    assert waited < 5


@pytest.mark.parametrize("first", [0, 1])
def test_shutting_down_in_any_order(first: int) -> None:
    def run(rank: int) -> int:
        count = 0
        for _ in range(3):
            dl = loader(known(same))
            count += len(list(zip(range(20), dl, strict=False)))
            if rank == first:
                dl.shutdown()
            del dl
        return count + len([t for t in threading.enumerate() if t.name.startswith("ranks")])

    assert on_ranks(3, run) == [60, 60, 60]
