"""async_map_batches: coroutines of a batch side by side, in a loop and a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from datapipes.errors import BadArgument
from datapipes.iter import FlatMapper, IterableWrapper, LengthSetter
from tests.datapipes.iter.mishaps import outcomes

BOUND = 300  # seconds, for what takes none


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


async def tenfold(x: int) -> int:
    await asyncio.sleep(0)
    return 10 * x


async def no_threes(x: int) -> int:
    if x % 3 == 0:
        raise ValueError(f"{x} is bad")
    return x


@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
@pytest.mark.parametrize("max_concurrency", [1, 3, 32])
def test_the_results_in_order(batch_size: int, max_concurrency: int) -> None:
    dp = numbers(7).async_map_batches(tenfold, batch_size, max_concurrency=max_concurrency)
    assert list(dp) == list(dp) == [0, 10, 20, 30, 40, 50, 60]


def test_what_it_is_made_of() -> None:
    sized = numbers(5).async_map_batches(tenfold, 2)
    assert isinstance(sized, LengthSetter)
    assert len(sized) == 5
    unsized = numbers(5).filter(lambda x: x > 1).async_map_batches(tenfold, 2)
    assert isinstance(unsized, FlatMapper)
    with pytest.raises(TypeError, match="length relies on the output"):
        len(unsized)
    assert list(unsized) == [20, 30, 40]
    assert isinstance(numbers(5).filter(bool).header(9).async_map_batches(tenfold, 2), FlatMapper), "9 is a guess"
    lists = numbers(5).async_map_batches(tenfold, 2, flatten=False)
    assert len(lists) == 3
    assert [(type(batch), batch) for batch in lists] == [(list, [0, 10]), (list, [20, 30]), (list, [40])]


def test_columns() -> None:
    rows = IterableWrapper([(1, 2), (3, 4)])
    assert list(rows.async_map_batches(tenfold, 2, input_col=1)) == [(1, 20), (3, 40)]
    assert list(rows.async_map_batches(tenfold, 2, input_col=0, output_col=-1)) == [(1, 2, 10), (3, 4, 30)]

    async def added(x: int, y: int) -> int:
        return x + y

    dicts = IterableWrapper([{"x": 1, "y": 2}])
    assert list(dicts.async_map_batches(added, 2, ["x", "y"], "sum")) == [{"x": 1, "y": 2, "sum": 3}]


def test_arguments() -> None:
    for fn in (abs, lambda x: x, 5):
        with pytest.raises(BadArgument, match="expects a coroutine function"):
            numbers(1).async_map_batches(fn, 2)  # type: ignore[arg-type]  # that is what is refused
    with pytest.raises(BadArgument, match="Batch size is required to be larger than 0"):
        numbers(1).async_map_batches(tenfold, 0)
    with pytest.raises(BadArgument, match="max_concurrency must be larger than 0"):
        numbers(1).async_map_batches(tenfold, 1, max_concurrency=0)
    with pytest.raises(BadArgument, match="`output_col` must be None"):
        numbers(1).async_map_batches(tenfold, 1, output_col=0)

    class Callable:
        async def __call__(self, x: int) -> int:
            return await tenfold(x)

    for good in (partial(tenfold), Callable()):
        assert list(numbers(2).async_map_batches(good, 2)) == [0, 10]


def test_how_many_at_once() -> None:
    at_work, most = 0, 0

    async def noted(x: int) -> int:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        for _ in range(5):
            await asyncio.sleep(0)
        at_work -= 1
        return x

    assert list(numbers(20).async_map_batches(noted, 10, max_concurrency=4)) == list(range(20))
    assert most == 4


def test_within_a_running_loop() -> None:
    async def loaded() -> list[int]:
        return list(numbers(5).async_map_batches(tenfold, 2))

    assert asyncio.run(loaded()) == [0, 10, 20, 30, 40]


def test_one_loop_for_an_iteration_exceptions_included() -> None:
    loops = []

    async def noted(x: int) -> int:
        loops.append((asyncio.get_running_loop(), threading.current_thread()))
        if x == 2:
            raise ValueError("2 is bad")
        return x

    before = set(threading.enumerate())
    assert outcomes(numbers(6).async_map_batches(noted, 1)) == [0, 1, "ValueError: 2 is bad", 3, 4, 5]
    assert len(set(loops)) == 1
    ((loop, thread),) = set(loops)
    assert loop.is_closed()
    assert thread is not threading.current_thread()
    assert set(threading.enumerate()) == before


def test_an_exception_costs_its_batch_and_stops_the_others() -> None:
    ended = []

    async def waiting(x: int) -> int:
        if x == 3:
            raise ValueError("3 is bad")
        if x == 2:
            try:
                await asyncio.sleep(10 * BOUND)
            finally:
                ended.append(x)
        return x

    assert outcomes(numbers(6).async_map_batches(waiting, 2)) == [0, 1, "ValueError: 3 is bad", 4, 5]
    assert ended == [2]


def test_what_becomes_of_errors() -> None:
    tried: dict[int, int] = {}

    async def second_time(x: int) -> int:
        tried[x] = tried.get(x, 0) + 1
        if x == 1 and tried[x] < 2:
            raise OSError("busy")
        return x

    skipping = numbers(7).async_map_batches(no_threes, 3, on_error="skip")
    with pytest.warns(UserWarning, match="goes on after ValueError: 0 is bad"):
        assert list(skipping) == [1, 2, 4, 5]
    assert isinstance(skipping, FlatMapper), "its length is not known"
    with pytest.warns(UserWarning, match="goes on after"):
        assert list(numbers(5).async_map_batches(no_threes, 2, on_error=lambda error, x: -x)) == [0, 1, 2, -3, 4]
    with pytest.warns(UserWarning, match="goes on after OSError: busy"):
        assert list(numbers(3).async_map_batches(second_time, 3, on_error="retry(1)")) == [0, 1, 2]


def test_a_coroutine_that_was_cancelled_is_an_error() -> None:
    async def cancelled(x: int) -> int:
        if x == 1:
            raise asyncio.CancelledError
        return x

    message = "RuntimeError: the coroutine of this element was cancelled"
    assert outcomes(numbers(4).async_map_batches(cancelled, 2)) == [message, 2, 3]


def test_tasks_left_behind_end_with_the_iteration() -> None:
    ended = threading.Event()
    tasks = []

    async def lingering() -> None:
        try:
            await asyncio.sleep(10 * BOUND)
        finally:
            ended.set()

    async def starting(x: int) -> int:
        tasks.append(asyncio.create_task(lingering()))
        await asyncio.sleep(0)
        return x

    it: Any = iter(numbers(4).async_map_batches(starting, 1))
    assert next(it) == 0
    it.close()
    assert ended.is_set()
