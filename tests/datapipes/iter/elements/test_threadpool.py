"""threadpool_map: calls in threads, results in order, errors in their places, and no thread left."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper, ThreadPoolMapper
from tests.datapipes.iter.mishaps import STRAY_STOP, failing_at, outcomes, stopping_at

BOUND = 300  # seconds, for what takes none


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


class Source:
    """Numbers, counted as they are taken."""

    def __init__(self) -> None:
        self.taken = 0
        self.threads: set[threading.Thread] = set()

    def __iter__(self) -> Iterator[int]:
        for i in range(100):
            self.taken += 1
            self.threads.add(threading.current_thread())
            yield i


@pytest.mark.parametrize("scheduled_tasks", [1, 3, 128])
@pytest.mark.parametrize("max_workers", [1, 4, None])
def test_the_results_in_order(scheduled_tasks: int, max_workers: int | None) -> None:
    dp = numbers(50).threadpool_map(lambda x: -x, scheduled_tasks=scheduled_tasks, max_workers=max_workers)
    assert isinstance(dp, ThreadPoolMapper)
    assert list(dp) == list(dp) == [-x for x in range(50)]
    assert len(dp) == 50


def test_the_order_is_kept_whichever_is_ready_first() -> None:
    second = threading.Event()

    def first_waits(x: int) -> int:
        if x == 0:
            assert second.wait(BOUND)
        elif x == 1:
            second.set()
        return x

    assert list(numbers(3).threadpool_map(first_waits, max_workers=2)) == [0, 1, 2]


def test_who_takes_and_who_calls() -> None:
    source, called = Source(), set()

    def note(x: int) -> int:
        called.add(threading.current_thread())
        return x

    it = iter(IterableWrapper(source, deepcopy=False).threadpool_map(note, scheduled_tasks=5, max_workers=2))
    for given in range(10):
        assert next(it) == given
        assert source.taken == 6 + given
    assert list(it) == list(range(10, 100))
    assert source.threads == {threading.current_thread()}
    assert threading.current_thread() not in called
    assert len(called) <= 2


def test_columns() -> None:
    rows = IterableWrapper([{"x": 1, "y": 2}, {"x": 3, "y": 4}])
    assert list(rows.threadpool_map(lambda x, y: x * y, ["x", "y"], "z")) == [
        {"x": 1, "y": 2, "z": 2},
        {"x": 3, "y": 4, "z": 12},
    ]
    pairs: Any = IterableWrapper([(1, 2)])
    assert [*pairs.threadpool_map(str, input_col=0, output_col=-1)] == [(1, 2, "1")]


def test_arguments() -> None:
    for name in ("scheduled_tasks", "max_workers"):
        with pytest.raises(BadArgument, match=rf"'{name}' is required to be a positive integer, in \.threadpool_map"):
            ThreadPoolMapper(numbers(1), str, **{name: 0})  # type: ignore[arg-type]  # none of them is on_error
    with pytest.raises(BadArgumentType, match=r"A callable function is expected by threadpool_map\(\)"):
        numbers(1).threadpool_map(5)  # type: ignore[arg-type]  # that is what is refused
    with pytest.raises(ValueError, match="required by input_col"):
        numbers(1).threadpool_map(lambda x: x, input_col=[0, 1])
    dp = numbers(3).threadpool_map(str, initargs=1)
    assert repr(dp) == "IterableWrapper(range(0, 3)).threadpool_map(str, initargs=1)"
    it = iter(numbers(3).threadpool_map(str, initializer=1))
    for _ in range(2):  # and no element is lost by that
        with pytest.raises(TypeError, match="initializer must be a callable"):
            next(it)


def test_the_pool_gets_its_options() -> None:
    names = numbers(3).threadpool_map(lambda _: threading.current_thread().name, thread_name_prefix="fetching")
    assert all(name.startswith("fetching") for name in names)


def test_many_errors_in_a_row() -> None:
    expected = [f"ValueError: {x} is bad" if x % 3 else x for x in range(9)]
    assert outcomes(numbers(9).threadpool_map(failing_at(1, 2, 4, 5, 7, 8), scheduled_tasks=4)) == expected


def test_a_stray_stop_is_no_end() -> None:
    assert outcomes(numbers(4).threadpool_map(stopping_at(1))) == [0, STRAY_STOP, 2, 3]


def test_an_error_says_where_it_comes_from() -> None:
    with pytest.raises(ValueError, match="3 is bad") as caught:
        list(numbers(5).threadpool_map(failing_at(3)))
    (note,) = caught.value.__notes__
    assert "raised in stage .threadpool_map(<" in note
    assert "after it had given 3 elements" in note


def test_what_becomes_of_errors() -> None:
    tried: dict[int, int] = {}

    def third_time(x: int) -> int:
        tried[x] = tried.get(x, 0) + 1
        if x % 4 == 1 and tried[x] < 3:
            raise OSError(f"{x} is busy")
        return x

    with pytest.warns(UserWarning, match="goes on after OSError: 1 is busy"):
        assert list(numbers(8).threadpool_map(third_time, on_error="retry(2)")) == list(range(8))
    with pytest.warns(UserWarning, match="goes on after ValueError"):
        assert list(numbers(5).threadpool_map(failing_at(2), on_error="skip")) == [0, 1, 3, 4]
    with pytest.warns(UserWarning, match="goes on after ValueError"):
        assert list(numbers(4).threadpool_map(failing_at(2), on_error=lambda error, x: -x)) == [0, 1, -2, 3]
    # What is raised above is not this stage's to leave out.
    assert outcomes(numbers(3).map(failing_at(1)).threadpool_map(str, on_error="skip")) == [
        "0",
        "ValueError: 1 is bad",
        "2",
    ]


def test_closing_waits_for_the_running_calls_and_makes_no_others() -> None:
    go, called = threading.Event(), []
    running = threading.Semaphore(0)

    def wait(x: int) -> int:
        called.append(x)
        if x > 0:
            running.release()
            assert go.wait(BOUND)
        return x

    before = set(threading.enumerate())
    it: Any = iter(numbers(100).threadpool_map(wait, scheduled_tasks=20, max_workers=2))
    assert next(it) == 0
    for _ in range(2):
        assert running.acquire(timeout=BOUND)
    timer = threading.Timer(0.05, go.set)
    timer.start()
    it.close()
    timer.join()
    assert go.is_set()
    assert sorted(called) == [0, 1, 2]
    assert set(threading.enumerate()) == before


def test_who_is_interrupted_leaves_no_calls_to_be_made() -> None:
    go, asked, made = threading.Event(), threading.Event(), threading.Event()

    def call(x: int) -> int:
        if x == 1:
            assert asked.wait(BOUND)
            go.wait(0.1)  # until it is waited for
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert go.wait(BOUND)
        elif x > 1:
            made.set()
        return x

    it: Any = iter(numbers(9).threadpool_map(call, scheduled_tasks=5, max_workers=1))
    assert next(it) == 0
    asked.set()
    with pytest.raises(KeyboardInterrupt):
        next(it)
    go.set()
    assert not made.wait(0.1)  # Python makes the calls that are left when it ends
    assert list(it) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_threads_end_with_the_stream() -> None:
    before = set(threading.enumerate())
    it = iter(numbers(5).threadpool_map(str).concat(IterableWrapper("ab")))
    assert [next(it) for _ in range(6)] == ["0", "1", "2", "3", "4", "a"]
    assert set(threading.enumerate()) == before
    assert list(it) == ["b"]


def test_an_iterator_may_be_collected_in_a_thread_of_its_own() -> None:
    abandoned, collected = threading.Event(), threading.Event()

    def collect(x: int) -> int:
        if x == 1:
            assert abandoned.wait(BOUND)
            gc.collect()
            collected.set()
        return x

    def leave() -> None:
        it = iter(numbers(100).threadpool_map(collect, max_workers=1, scheduled_tasks=2))
        assert next(it) == 0
        ring: list[Any] = [it]
        ring.append(ring)

    before = set(threading.enumerate())
    gc.disable()
    try:
        leave()
        abandoned.set()
        assert collected.wait(BOUND)
        for thread in set(threading.enumerate()) - before:
            thread.join(BOUND)
            assert not thread.is_alive()
    finally:
        gc.enable()
