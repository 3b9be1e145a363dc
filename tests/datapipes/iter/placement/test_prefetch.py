"""prefetch changes when elements are made, and nothing else; its thread ends with the iteration."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from datapipes import iterate
from datapipes.errors import BadArgument
from datapipes.iter import IterableWrapper, IterDataPipe, Prefetcher
from datapipes.messages import daemon_threads
from datapipes.operator_support import ahead
from datapipes.position.opening import Opening
from tests.datapipes.iter.mishaps import STRAY_STOP, failing_at, outcomes, stopping_at


def numbers(count: int) -> IterableWrapper[int]:
    return IterableWrapper(range(count))


@pytest.mark.parametrize("buffer_size", [1, 3, 100])
def test_the_same_elements(buffer_size: int) -> None:
    dp = numbers(20).prefetch(buffer_size)
    assert isinstance(dp, Prefetcher)
    assert list(dp) == list(dp) == list(range(20))
    assert len(dp) == 20


def test_none_and_nothing() -> None:
    assert list(IterableWrapper([None, 1, None]).prefetch()) == [None, 1, None]
    assert list(numbers(0).prefetch()) == []


def test_the_stages_above_run_in_another_thread_and_ahead() -> None:
    made = threading.Semaphore(0)
    threads = set()

    def note(x: int) -> int:
        threads.add(threading.current_thread())
        made.release()
        return x

    it = iter(numbers(20).map(note).prefetch(4))
    assert next(it) == 0
    for _ in range(5):  # the one handed on, and a buffer full
        assert made.acquire(timeout=300)
    assert threading.current_thread() not in threads
    assert list(it) == list(range(1, 20))


@pytest.mark.parametrize("size", [0, -1])
def test_a_buffer_below_one_is_refused_with_the_call(size: int) -> None:
    with pytest.raises(
        BadArgument, match=rf"is required to be a positive integer, in \.prefetch\(buffer_size={size}\)"
    ):
        numbers(1).prefetch(size)


def test_a_stray_stop_is_no_end() -> None:
    assert outcomes(numbers(4).map(stopping_at(1)).prefetch(2)) == [0, STRAY_STOP, 2, 3]


@pytest.mark.parametrize("why", [LookupError("no state"), SystemExit("no state")])
def test_nobody_waits_for_ever_for_a_position_that_cannot_be_asked_for(why: BaseException) -> None:
    class Broken(IterDataPipe[int]):
        """Cannot say where it is, not even after it has raised."""

        def __iter__(self) -> Iterator[int]:
            return map(failing_at(0), range(3))

        def state_dict(self) -> None:
            raise why

        def load_state_dict(self, state_dict: None) -> None:
            pass

    it = iterate(Broken().prefetch(2))
    with pytest.raises((ValueError, SystemExit)) as caught:
        next(it)
    assert str(caught.value) == ("0 is bad" if isinstance(why, Exception) else "no state")
    with pytest.raises(type(why), match="no state"):
        it.state_dict()
    it.close()  # the errors' tracebacks hold it


def test_the_thread_ends_when_the_iterator_is_dropped() -> None:
    before = set(threading.enumerate())
    it: Iterator[int] = iter(numbers(10_000).prefetch(2).map(lambda x: x))
    assert next(it) == 0
    assert set(threading.enumerate()) - before
    del it
    assert not set(threading.enumerate()) - before


def test_a_class_above_stays_in_one_thread_behind_errors_and_when_it_is_closed() -> None:
    used_in: list[threading.Thread] = []

    class Connected(IterDataPipe[int]):
        """May be used in one thread only, as a connection to sqlite."""

        def __iter__(self) -> Iterator[int]:
            try:
                for number in range(100):
                    used_in.append(threading.current_thread())
                    yield number
            finally:
                used_in.append(threading.current_thread())

    it = iterate(Connected().map(failing_at(1)).prefetch(2).map(failing_at(3)).prefetch(2))
    assert next(it) == 0
    for after in (2, 4):
        with pytest.raises(ValueError, match=f"{after - 1} is bad"):
            next(it)
        assert next(it) == after
    it.close()
    assert len(set(used_in)) == 1
    assert used_in[0].name == "prefetch"


def test_an_error_in_closing_a_class_above_reaches_the_one_that_closes() -> None:
    class Refusing(IterDataPipe[int]):
        """Raises when it is closed."""

        def __iter__(self) -> Iterator[int]:
            try:
                yield from range(100)
            finally:
                raise LookupError("not now")

    it = iterate(Refusing().prefetch(2))
    assert next(it) == 0
    with pytest.raises(LookupError, match="not now"):
        it.close()
    it.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_a_class_that_is_stuck_in_the_thread_is_closed_there_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_threads, "_PATIENCE", 0.01)
    stuck, go_on = threading.Event(), threading.Event()
    closed_in: SimpleQueue[str] = SimpleQueue()

    class Stuck(IterDataPipe[int]):
        """Waits after its first element."""

        def __iter__(self) -> Iterator[int]:
            try:
                yield 0
                stuck.set()
                assert go_on.wait(300)
                yield 1
            finally:
                closed_in.put(threading.current_thread().name)

    it = iterate(Stuck().prefetch(2))
    assert next(it) == 0
    assert stuck.wait(300)
    it.close()
    go_on.set()
    assert closed_in.get(timeout=300) == "prefetch"
    for thread in threading.enumerate():
        if thread.name == "prefetch":
            thread.join(300)


def test_the_thread_ends_though_it_takes_a_credit_while_credit_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Contested(SimpleQueue[bool]):
        """One from which the thread always takes what the one who closes has just seen."""

        def get_nowait(self) -> bool:
            super().get_nowait()
            return super().get_nowait()

    monkeypatch.setattr(ahead, "SimpleQueue", Contested)
    it = iterate(numbers(20).prefetch(5))
    assert next(it) == 0
    it.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_a_thread_that_is_stuck_does_not_keep_others_from_closing() -> None:
    stuck, go_on = threading.Event(), threading.Event()

    class Slow(IterDataPipe[int]):
        """Its generator waits without an end from the moment that its reader is being closed."""

        def _open(self, at: Opening) -> Iterator[int]:
            return self._elements()

        def _elements(self) -> Iterator[int]:
            yield 0
            stuck.set()
            assert go_on.wait(300)

    class Late(IterDataPipe[int]):
        """Lets its source go on at the moment at which it is closed itself."""

        def __init__(self, source: IterDataPipe[int]) -> None:
            self.source = source

        def _open(self, at: Opening) -> Iterator[int]:
            return self._elements(at.source(self.source))

        def _elements(self, source: Iterator[int]) -> Iterator[int]:
            try:
                yield next(source)
            finally:
                reader = threading.Thread(target=next, args=(source, None), name="reader")
                reader.start()
                assert stuck.wait(300)

    it = iterate(Late(Slow()))
    assert next(it) == 0
    it.close()
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "reader":
            thread.join(300)


@pytest.mark.parametrize("pipe", [numbers(9).prefetch(), numbers(9).fullsync()])
def test_what_torchdatas_services_called_does_nothing(pipe: Any) -> None:
    iterator = iter(pipe)
    assert next(iterator) == 0
    for name in ("pause", "resume", "reset", "shutdown"):
        getattr(pipe, name)()
    assert [*iterator] == [*range(1, 9)]
    assert [*pipe] == [*range(9)]
