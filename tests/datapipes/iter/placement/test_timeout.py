"""timeout tells of an element that takes too long, loses none, and leaves behind but the thread that is stuck."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes import StreamWrapper, iterate
from datapipes.errors import BadArgument, BadArgumentType, GraphError, PullTimeout, UnsavableElement
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.iter.placement import timeout as placement
from datapipes.position.position_history import SnapshotBudget
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, ReadingServiceInterface, ThreadingReadingService
from tests.datapipes.iter.mishaps import failing_at, outcomes
from tests.datapipes.iter.placement.test_retry import Epochs
from tests.specimens.specimen import numbers, unseekable

SOON = 0.01
LONG = 60.0


class Gate:
    """The identity, which waits at some elements until it is opened; but not where it is called again for one."""

    def __init__(self, *late: int) -> None:
        self.late = set(late)
        self.is_open = threading.Event()
        self.calls: list[int] = []
        self.came: list[int] = []

    def __call__(self, x: int) -> int:
        self.calls.append(x)
        if x in self.late and self.calls.count(x) == 1:
            assert self.is_open.wait(LONG)
        self.came.append(x)
        return x

    def open(self) -> None:
        """Let pass what waits, and have the threads that were left come back."""
        self.is_open.set()
        for thread in threading.enumerate():
            if thread.name == "timeout":
                thread.join(LONG)


def patiently(iterator: Iterator[Any], most: int = 100) -> list[Any]:
    """Some elements, each asked for again until it is there: a machine may be busy."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except PullTimeout:
            continue
    return found


def stages(source: Pipe, fn: Callable[[int], int]) -> Pipe:
    """Stages with positions above and below the function."""
    return source.shuffle(buffer_size=3).set_seed(1).map(fn).batch(2).unbatch()


@given(st.sets(st.integers(0, 9), max_size=2), st.booleans(), st.booleans())
def test_what_comes_late_is_the_next_element(late: set[int], seekable: bool, looks: bool) -> None:
    source = numbers(10) if seekable else unseekable(10)
    expected = list(stages(source, int))
    ready = {x: threading.Event() for x in late}

    def waits(x: int) -> int:
        assert x not in ready or ready[x].wait(LONG)
        return x

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SnapshotBudget, "is_cheap", lambda self: looks)
        iterator = iterate(stages(source, waits).timeout(SOON))
        found: list[int] = []
        while len(found) < 10:
            try:
                found.append(next(iterator))
            except PullTimeout:
                again = iterate(stages(source, int).timeout(LONG))
                again.load_state_dict(iterator.state_dict())
                assert found + list(again) == expected
                stands = next((x for x in expected if x in ready and not ready[x].is_set()), None)
                if stands is not None:
                    ready[stands].set()
        assert (found, list(iterator)) == (expected, [])
        assert all(event.is_set() for event in ready.values())


def test_the_error_says_which_stage_how_long_and_where() -> None:
    gate = Gate(0)
    iterator = iterate(numbers(3).map(gate).timeout(SOON))
    for _ in range(2):
        with pytest.raises(PullTimeout) as caught:
            next(iterator)
        first, *stack = str(caught.value).splitlines()
        assert first == ".timeout(0.01): no element after 0.01 seconds; the stages above stand here:"
        assert "assert self.is_open.wait(LONG)" in "".join(stack)
        assert "_bootstrap" not in "".join(stack)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    gate.is_open.set()
    assert patiently(iterator) == [0, 1, 2]
    assert gate.calls == [0, 1, 2]


def test_what_a_users_class_keeps_goes_on() -> None:
    pipe = Epochs(numbers(2)).timeout(LONG)
    assert [list(pipe), list(pipe)] == [[(1, 0), (1, 1)], [(2, 0), (2, 1)]]


def test_errors_keep_their_places() -> None:
    assert outcomes(unseekable(5).map(failing_at(1, 4)).timeout(LONG)) == [
        0,
        "ValueError: 1 is bad",
        2,
        3,
        "ValueError: 4 is bad",
    ]


def test_retry_gives_up_what_is_stuck() -> None:
    gate = Gate(2, 3)
    iterator = iterate(unseekable(5).map(gate).timeout(SOON).retry(9, backoff=0))
    with pytest.warns(UserWarning, match="stuck|goes on") as told:
        assert patiently(iterator) == [0, 1, 2, 3, 4]
    there = len(gate.came)  # calls that came through; the first ones for two of the elements are still at work
    said = {str(warning.message).partition(";")[0] for warning in told}
    assert ".timeout(0.01): a thread is stuck in the stages above and is left behind" in said
    assert (
        ".retry(retries=9, backoff=0) goes on after PullTimeout: .timeout(0.01): no element after 0.01 seconds" in said
    )
    gate.open()
    assert {2, 3} <= set(gate.came[there:])


@pytest.mark.filterwarnings("ignore:.* goes on after", "ignore:.*is stuck in the stages above")
def test_behind_the_last_attempt_the_stuck_element_is_still_the_next_one() -> None:
    class Stuck(Gate):
        def __call__(self, x: int) -> int:
            assert x != 2 or self.is_open.wait(LONG)
            return x

    gate = Stuck()
    iterator = iterate(unseekable(5).map(gate).timeout(SOON).retry(2, backoff=0))
    found = patiently(iterator, 2)
    with pytest.raises(PullTimeout):
        next(iterator)
    state = iterator.state_dict()
    gate.is_open.set()
    again = iterate(unseekable(5).map(gate).timeout(SOON).retry(20, backoff=0))
    again.load_state_dict(state)
    assert found + patiently(again) == found + patiently(iterator) == [0, 1, 2, 3, 4]
    gate.open()


@pytest.mark.filterwarnings("ignore:.* goes on after", "ignore:.*is stuck in the stages above")
def test_workers_give_up_what_is_stuck() -> None:
    graph = unseekable(40).sharding_filter().map(Gate(7, 30, 31)).timeout(1).retry(backoff=0).batch(3)
    inheriting = MultiProcessingReadingService(2, "fork")  # an Event cannot be pickled
    with DataLoader2(graph, reading_service=inheriting) as loader:
        assert sorted(x for batch in loader for x in batch) == list(range(40))


def test_a_stuck_thread_closes_what_it_has_when_it_comes_back() -> None:
    gate, closed = Gate(1), []

    class Opened(IterDataPipe[Any]):
        def __iter__(self) -> Iterator[Any]:
            try:
                for x in range(3):
                    gate(x)
                    yield StreamWrapper(Closing())
            finally:
                closed.append("generator")

    class Closing:
        def close(self) -> None:
            closed.append("stream")

    iterator = iterate(Opened().timeout(SOON))
    (first,) = patiently(iterator, 1)
    with pytest.raises(PullTimeout):
        next(iterator)
    with pytest.warns(UserWarning, match="left behind; it ends when it returns") as told:
        iterator.close()
    assert (len(told), told[0].filename, closed) == (1, __file__, [])
    gate.open()
    assert closed == ["stream", "generator"]
    first.close()


def test_ctrl_c_costs_nothing_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts: list[KeyboardInterrupt] = []

    class Interrupted(SimpleQueue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            if timeout is not None and interrupts:
                raise interrupts.pop()
            return super().get(block, timeout)

    monkeypatch.setattr(placement, "SimpleQueue", Interrupted)
    gate = Gate(1)
    iterator = iterate(unseekable(3).map(gate).timeout(LONG))
    assert next(iterator) == 0
    interrupts.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    gate.is_open.set()
    assert list(iterator) == [1, 2]
    assert gate.calls == [0, 1, 2]


class Arrivals(SimpleQueue[Any]):
    """The queues of a stage, in place of its own: an element that has come late, while nothing asks, sets an event."""

    came = threading.Event()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put(item)
        if item is None:
            self.came.set()


def forked(source: Pipe) -> Pipe:
    a, b = source.fork(2)
    return a.zip(b).map(max)


def zipped(source: Pipe) -> Pipe:
    return numbers(8).zip(source).map(max)


@pytest.mark.parametrize("below", [iter, forked, zipped, lambda source: source.batch(2).unbatch()])
@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_what_has_come_late_is_in_a_state(
    below: Callable[[Pipe], Pipe], interrupted: bool, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "SimpleQueue", Arrivals)
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: looks)
    gate = Gate(2, 5)

    def graph() -> Pipe:
        pipe = unseekable(8).map(gate).timeout(SOON)
        return pipe if below is iter else below(pipe)

    iterator = iterate(graph())
    found = patiently(iterator, 2)
    with pytest.raises(PullTimeout):
        next(iterator)
    if interrupted:
        monkeypatch.setattr(Arrivals, "get", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        monkeypatch.undo()
    Arrivals.came.clear()
    gate.is_open.set()
    assert Arrivals.came.wait(LONG)
    again = iterate(graph())
    again.load_state_dict(pickle.loads(pickle.dumps(iterator.state_dict())))
    assert found + patiently(again) == found + patiently(iterator) == list(range(8))


def interrupt(self: object, block: bool = True, timeout: float | None = None) -> None:
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:.*is stuck in the stages above")
@pytest.mark.parametrize(
    "service",
    [lambda workers: MultiProcessingReadingService(workers, "fork"), ThreadingReadingService],  # an Event is inherited
    ids=["processes", "threads"],
)
@pytest.mark.parametrize("placed", ["shard", "fork", "dispatch"])
def test_the_order_of_workers_stays(service: Callable[[int], ReadingServiceInterface], placed: str) -> None:
    gate = Gate(3, 8, 9)
    pipe = unseekable(16) if placed == "dispatch" else unseekable(16).sharding_filter()
    pipe = pipe.map(gate).timeout(0.5)
    pipe = pipe.sharding_round_robin_dispatch() if placed == "dispatch" else pipe
    pipe = forked(pipe) if placed == "fork" else pipe
    states: list[tuple[int, dict[str, Any]]] = []
    found: list[int] = []
    with DataLoader2(pipe, reading_service=service(2)) as loader:
        iterator = iter(loader)
        while len(found) < 16:
            try:
                found.append(next(iterator))
            except PullTimeout:
                states.append((len(found), loader.state_dict()))
    assert states
    gate.open()
    assert found == list(range(16))
    for number, state in states:
        with DataLoader2(pipe, reading_service=service(2)) as loader:
            loader.load_state_dict(state)
            assert patiently(iter(loader)) == list(range(number, 16))


class Opaque:
    """An element that no state can hold."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_where_it_is_while_nobody_knows() -> None:
    shuffled = unseekable(9).map(Opaque).shuffle(buffer_size=3)
    first, bad, late, *others = [opaque.x for opaque in shuffled.set_seed(1)]
    gate = Gate(late)
    iterator = iterate(shuffled.set_seed(1).map(lambda opaque: opaque.x).map(failing_at(bad)).map(gate).timeout(SOON))
    assert patiently(iterator, 1) == [first]
    with pytest.raises(ValueError, match="is bad"):
        patiently(iterator, 1)
    with pytest.raises(PullTimeout):
        next(iterator)
    with pytest.raises(
        UnsavableElement, match=r"one element ahead, and their position before it is unknown \(Unsavable"
    ):
        iterator.state_dict()
    gate.is_open.set()
    assert patiently(iterator) == [late, *others]


def test_operators_with_a_timeout_of_their_own_have_the_method() -> None:
    url = IterableWrapper(["https://example.org/a"])
    for pipe in (url.read_from_http(timeout=3), url.read_from_remote(timeout=3), url.fullsync(timeout=3)):
        assert repr(pipe.timeout(5)) == f"{pipe!r}.timeout(5)"
        assert "timeout=3" in repr(pipe)


def test_what_is_refused() -> None:
    wrong: Any = "5"
    with pytest.raises(BadArgumentType, match=r"timeout must be a number of seconds, got '5', in \.timeout\('5'\)"):
        numbers(1).timeout(wrong)
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadArgument, match="timeout must be a number of seconds above 0"):
            numbers(1).timeout(seconds)
    left, right = numbers(3).fork(2)
    with pytest.raises(GraphError, match=r"put timeout\(\) above the fork"):
        list(left.timeout(1).zip(right))
    assert len(numbers(4).timeout(1)) == 4
