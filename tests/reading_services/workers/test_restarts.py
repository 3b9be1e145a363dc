"""Workers that die are replaced, and the elements stay the same."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgument, WorkerDied
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, ThreadingReadingService
from reading_services.workers import call_record, thread_host
from reading_services.workers.call_record import AtWork, Call, CallRecord, Watched, WatchOrder, file_for_record
from reading_services.workers.restarts import Likeness, Suspicion, compared
from tests.reading_services.workers.in_turn import SEED, numbers

REPLACED = pytest.mark.filterwarnings("ignore:.*(it is replaced|goes on after LeftOut):UserWarning")


def with_restarts(graph: Pipe, restart: int, workers: int = 2, **options: Any) -> DataLoader2[Any]:
    return DataLoader2(
        graph, reading_service=MultiProcessingReadingService(workers, "fork", restart=restart, **options)
    )


def wide(x: int) -> tuple[int, bytes]:
    return x, bytes(1 << 14)


def wider(x: int) -> tuple[int, bytes]:
    """An element of which some hundred are more than fits ahead."""
    return x, bytes(1 << 16)


class Plain(IterDataPipe[int]):
    """A user's class, which says nothing of its position: it is replayed."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Iterator[int]:
        drawn = random.Random(SEED)
        for x in self.source:
            yield x + drawn.randrange(2)


GRAPHS: dict[str, Callable[[int], Pipe]] = {
    "shuffled": lambda n: numbers(n).shuffle().sharding_filter().map(str),
    "dispatched": lambda n: numbers(n).shuffle().sharding_round_robin_dispatch().map(str),
    "positions of a MiB": lambda n: numbers(n).sharding_filter().map(wide).shuffle(buffer_size=64),
    "a class that is replayed": lambda n: Plain(numbers(n).shuffle().sharding_filter()).batch(3),
    "drawing": lambda n: numbers(n).sharding_filter().map(lambda x: (x, random.random())),
}


def disturbed(build: Callable[[int], Pipe], length: int, every: int) -> tuple[int, float]:
    """Kill a random worker, or the dispatcher, now and then: how often, and the longest wait for an element."""
    draws = random.Random(SEED)
    with with_restarts(build(length), 0) as undisturbed:
        undisturbed.seed(SEED)
        expected = list(undisturbed)
    given: list[Any] = []
    deaths, longest = 0, 0.0
    with with_restarts(build(length), length) as loader:
        loader.seed(SEED)
        asked = perf_counter()
        for element in loader:
            longest = max(longest, perf_counter() - asked)
            given.append(element)
            if len(given) % every == 0:
                deaths += killed(draws.choice(workers_of(loader)))
            asked = perf_counter()
        assert given == expected
        assert len(list(loader)) == len(expected), "the next epoch"
    return deaths, longest


@REPLACED
@pytest.mark.parametrize("build", GRAPHS.values(), ids=GRAPHS)
def test_killed_workers_change_nothing(build: Callable[[int], Pipe]) -> None:
    deaths, _ = disturbed(build, 1200, 100)
    assert deaths >= 4


def workers_of(loader: DataLoader2[Any]) -> list[int]:
    """The processes of a loader, the dispatcher's among them."""
    return [member.process.pid for member in vars(loader.reading_service)["_pool"]._host.processes]


def killed(worker: int) -> bool:
    """Whether a worker has died of this: who has died before is replaced when it is waited for."""
    try:
        os.kill(worker, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@REPLACED
def test_a_state_from_between_two_deaths_goes_on_anywhere() -> None:
    with with_restarts(GRAPHS["shuffled"](600), 9) as loader:
        loader.seed(SEED)
        given: list[str] = []
        states: list[tuple[int, bytes]] = []
        for element in loader:
            given.append(element)
            if len(given) % 150 == 75:
                killed(workers_of(loader)[0])
                states.append((len(given), pickle.dumps(loader.state_dict())))
    assert len(states) == 4
    for after, state in states:
        with with_restarts(GRAPHS["shuffled"](600), 0) as again:
            again.load_state_dict(pickle.loads(state))
            assert list(again) == given[after:], after


def kills(bad: frozenset[int], by: int, x: int) -> int:
    if x in bad:
        signal.raise_signal(by)
        os._exit(5)
    return x


def deadly(bad: set[int], length: int = 100, by: int = signal.SIGKILL) -> Pipe:
    return numbers(length).sharding_filter().map(partial(kills, frozenset(bad), by)).filter(is_kept).batch(4)


def is_kept(x: int) -> bool:
    return x % 5 != 4


def without(bad: set[int], length: int = 100) -> list[Any]:
    """The same, over a source that never had some elements of each worker."""
    shares = [[x for x in range(number, length, 2) if x not in bad and is_kept(x)] for number in range(2)]
    batches = [[share[i : i + 4] for i in range(0, len(share), 4)] for share in shares]
    longest = max(len(share) for share in batches)
    return [share[i] for i in range(longest) for share in batches if i < len(share)]


@REPLACED
@pytest.mark.parametrize("bad", [{0}, {13}, {13, 40}, {12, 14, 16}, {98, 99}], ids=str)
def test_an_element_that_kills_is_left_out_and_counted(bad: set[int]) -> None:
    with with_restarts(deadly(bad), 3, on_death="skip") as loader:
        assert list(loader) == without(bad)
        ((stage, count),) = loader.errors.items()
        assert "kills" in stage
        assert count == len(bad)
        assert list(loader) == without(bad), "the next epoch"


def kills_13(x: int) -> int:
    return kills(frozenset({13}), signal.SIGKILL, x)


async def kills_13_later(x: int) -> int:
    await asyncio.sleep(0)
    return kills_13(x)


SHAPES: dict[str, Callable[[Pipe], Pipe]] = {
    "in a thread": lambda dp: dp.map(kills_13).prefetch(5).map(abs),
    "in several threads": lambda dp: dp.threadpool_map(kills_13, max_workers=4),
    "tolerated": lambda dp: dp.map(kills_13, on_error="skip"),
    "below a fork": lambda dp: (lambda a, b: a.map(kills_13).zip(b).map(itemgetter(0)))(*dp.fork(2)),
    "of a batch that is awaited": lambda dp: dp.async_map_batches(kills_13_later, 4),
    "flattened": lambda dp: dp.flatmap(lambda x: [kills_13(x)]),
    "a batch at a time": lambda dp: dp.map_batches(lambda batch: [*map(kills_13, batch)], batch_size=1),
}


@REPLACED
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_it_is_left_out_wherever_it_is_called(shape: Callable[[Pipe], Pipe]) -> None:
    with with_restarts(shape(numbers(40).sharding_filter()), 3, on_death="skip") as loader:
        assert sorted(loader) == [x for x in range(40) if x != 13]
        assert list(loader.errors.values()) == [1]


class Passing(IterDataPipe[Any]):
    """A user's class that is replayed."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class InPairs(Passing):
    """A user's class that takes two elements for one of its own, and is replayed."""

    def __iter__(self) -> Iterator[Any]:
        elements = iter(self.source)
        for one in elements:
            yield one, next(elements, None)


class Counting(Passing):
    """A user's class that is not replayed."""

    given = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self.source:
            self.given += 1
            yield self.given, element

    def state_dict(self) -> dict[str, Any]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.given = state["given"]


class InStep(IterDataPipe[Any]):
    """A user's class that reads two sources, and is replayed."""

    def __init__(self, *sources: Pipe) -> None:
        self.sources = sources

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.sources, strict=True)


BELOW: dict[str, Callable[[Pipe], Pipe]] = {
    "Passing": Passing,
    "InPairs": InPairs,
    "Counting": Counting,
    "InStep": lambda dp: InStep(*dp.fork(2)),
    "one child": lambda dp: (lambda a, b: Passing(a).zip(b))(*dp.fork(2)),
    "shuffle": lambda dp: dp.shuffle(buffer_size=3),
    "prefetch": lambda dp: dp.prefetch(2),
    "batch": lambda dp: dp.batch(2),
    "cached": lambda dp: dp.in_memory_cache(),
}


@REPLACED
@settings(max_examples=25)
@given(
    below=st.lists(st.sampled_from(sorted(BELOW)), min_size=1, max_size=3),
    bad=st.sets(st.integers(0, 29), min_size=1, max_size=2),
    seed=st.integers(0, 9),
    saved=st.integers(0, 9),
)
def test_whatever_is_below_it(below: list[str], bad: set[int], seed: int, saved: int) -> None:
    """What comes is what comes of sources that never had the element, though classes are replayed."""

    def graph(step: Callable[[Pipe], Pipe]) -> Pipe:
        dp = step(numbers(30).sharding_filter())
        for name in below:
            dp = BELOW[name](dp)
        return dp

    with with_restarts(graph(lambda dp: dp.filter(lambda x: x not in bad)), 0) as undisturbed:
        undisturbed.seed(seed)
        expected = list(undisturbed)
    deadly = graph(lambda dp: dp.map(partial(kills, frozenset(bad), signal.SIGKILL)))
    with with_restarts(deadly, 9, on_death="skip") as loader:
        loader.seed(seed)
        iterator = iter(loader)
        given = list(islice(iterator, min(saved, len(expected))))
        state = loader.state_dict()
        assert [*given, *iterator] == expected
        assert sum(loader.errors.values()) == len(bad)
    with with_restarts(deadly, 9, on_death="skip") as resumed:
        resumed.load_state_dict(state)
        assert list(resumed) == expected[saved:]


@REPLACED
def test_an_element_that_kills_is_named_and_passed_over_by_who_goes_on() -> None:
    with with_restarts(deadly({13}), 3) as loader:
        given: list[Any] = []
        iterator = iter(loader)
        with pytest.raises(WorkerDied, match=r"killed its worker \d times in a row: \.map\(.*kills.* of 13") as caught:
            given.extend(iterator)
        assert "SIGKILL" in str(caught.value)
        given.extend(iterator)
        assert [x for batch in given for x in batch] == [x for batch in without({13}) for x in batch]


@REPLACED
@pytest.mark.parametrize("below", BELOW.values(), ids=BELOW)
def test_going_on_passes_over_it_once(below: Callable[[Pipe], Pipe]) -> None:
    with with_restarts(below(numbers(20).sharding_filter().filter(lambda x: x != 13)), 0) as undisturbed:
        undisturbed.seed(SEED)
        expected = list(undisturbed)
    with with_restarts(below(numbers(20).sharding_filter().map(kills_13)), 3) as loader:
        loader.seed(SEED)
        given: list[Any] = []
        iterator = iter(loader)
        with pytest.raises(WorkerDied, match=r"killed its worker .* of 13"):
            given.extend(iterator)
        assert [*given, *iterator] == expected


@REPLACED
def test_a_cycle_of_elements_that_are_left_out_has_an_end() -> None:
    """Worker 1 has nothing else."""
    graph = numbers(4).sharding_filter().map(partial(kills, frozenset({1, 3}), signal.SIGKILL)).cycle().header(5)
    with with_restarts(graph, 9, on_death="skip", timeout=100) as loader:
        assert list(loader) == [0, 2, 0, 2, 0]


class RaisesAt(Passing):
    """A user's class that is replayed, and raises once in each worker."""

    raised = False

    def __iter__(self) -> Iterator[Any]:
        for number, element in enumerate(self.source):
            if number == 80 and not RaisesAt.raised:
                RaisesAt.raised = True
                raise LookupError("once")
            yield element


@REPLACED
def test_a_replay_long_after_it_leaves_it_out_still() -> None:
    with with_restarts(RaisesAt(numbers(200).sharding_filter().map(kills_13)), 3, 1, on_death="skip") as loader:
        given: list[Any] = []
        iterator = iter(loader)
        with pytest.raises(LookupError, match="once"):
            given.extend(iterator)
        assert [*given, *iterator] == [x for x in range(200) if x != 13]
        assert sum(loader.errors.values()) == 1


def test_without_restarts_the_second_death_names_the_element() -> None:
    with with_restarts(numbers(40).sharding_filter().map(kills_13), 0) as loader:
        given: list[int] = []
        iterator = iter(loader)
        said = []
        for _ in range(4):
            with pytest.raises(WorkerDied) as caught:
                given.extend(iterator)
            said.append(str(caught.value))
        assert given == list(range(13)), "nothing is skipped"
    assert "killed its worker" not in said[0]
    for number, text in enumerate(said[1:], 2):
        assert (
            f"element 6 of worker 1 (counted from 0, from where this iteration began) has killed its worker {number}"
            in text
        )
        assert "kills_13" in text
        assert "of 13" in text
        assert "restart=n" in text


@pytest.mark.parametrize(
    "build",
    [
        lambda deadly: numbers(3000).sharding_filter().map(deadly),
        lambda deadly: numbers(3000).sharding_filter().map(deadly).prefetch(5),
        lambda deadly: Passing(numbers(3000).sharding_filter().map(deadly)),
        lambda deadly: numbers(3000).map(deadly).sharding_round_robin_dispatch().map(abs),
    ],
    ids=["", "prefetch", "Passing", "dispatched"],
)
def test_without_restarts_a_later_epoch_names_the_element(build: Callable[[Callable[[int], int]], Pipe]) -> None:
    """It is watched around the element alone, and the next elements come as before."""
    deadly = partial(kills, frozenset({1501}), signal.SIGKILL)
    with with_restarts(build(deadly), 0) as loader:
        for named in (False, True, True):
            given: list[int] = []
            with pytest.raises(WorkerDied) as caught:
                given.extend(loader)
            assert given == list(range(len(given))), "nothing is skipped"
            assert ("of 1501; last" in str(caught.value)) == named, str(caught.value)


class DiesWhileThere(IterDataPipe[int]):
    """A class whose worker dies at an element as long as a file is there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[int]:
        for x in range(40):
            if x == 13 and self.path.exists():
                signal.raise_signal(signal.SIGKILL)
            yield x


def test_an_epoch_that_comes_to_its_end_suspects_nothing_any_more(tmp_path: Path) -> None:
    path = tmp_path / "there"
    with with_restarts(DiesWhileThere(path).sharding_filter(), 0, 1) as loader:
        said = []
        for is_there in (True, True, False, True):
            if is_there:
                path.touch()
                with pytest.raises(WorkerDied) as caught:
                    list(loader)
                said.append("has killed its worker 2 times in a row" in str(caught.value))
            else:
                path.unlink()
                assert list(loader) == list(range(40))
    assert said == [False, True, False]


def test_a_resumed_iteration_counts_from_elsewhere_and_blames_no_element() -> None:
    def graph(*bad: int) -> Pipe:
        return numbers(40).sharding_filter().map(partial(kills, frozenset(bad), signal.SIGKILL))

    with with_restarts(graph(), 0, 1) as loader:
        assert list(islice(loader, 5)) == list(range(5))
        state = loader.state_dict()
    with with_restarts(graph(3, 8), 0, 1) as resumed:
        resumed.load_state_dict(state)
        for _ in range(2):  # at 8, and in the next epoch at 3: both are the fourth of their iteration
            with pytest.raises(WorkerDied, match=r"in the middle of its work|before its first"):
                list(resumed)


def deadly_for_the_dispatcher(below: Callable[[Pipe], Pipe] = lambda dp: dp) -> Pipe:
    return below(numbers(40).map(kills_13)).sharding_round_robin_dispatch().map(abs)


@REPLACED
@pytest.mark.parametrize("on_death", ["skip", "raise"])
@pytest.mark.parametrize("below", [lambda dp: dp, Passing, lambda dp: dp.prefetch(3)], ids=["", "Passing", "prefetch"])
def test_an_element_that_kills_the_dispatcher_is_left_out(below: Callable[[Pipe], Pipe], on_death: str) -> None:
    with with_restarts(deadly_for_the_dispatcher(below), 4, on_death=on_death) as loader:
        given: list[int] = []
        iterator = iter(loader)
        if on_death == "raise":
            with pytest.raises(WorkerDied, match=r"element \d+ of the dispatcher .*kills_13.* of 13"):
                given.extend(iterator)
        assert [*given, *iterator] == [x for x in range(40) if x != 13]
        assert sum(loader.errors.values()) == 1


@REPLACED
@pytest.mark.parametrize(
    ("graph", "whole", "bad"),
    [
        (lambda: deadly({12, 14, 41}), without({12, 14, 41}), 3),
        (deadly_for_the_dispatcher, [x for x in range(40) if x != 13], 1),
    ],
    ids=["workers", "the dispatcher"],
)
def test_a_resumed_run_leaves_out_and_counts_once(graph: Callable[[], Pipe], whole: list[Any], bad: int) -> None:
    for taken in (1, 3, len(whole) - 8):
        with with_restarts(graph(), 3, on_death="skip") as loader:
            elements = iter(loader)
            assert [next(elements) for _ in range(taken)] == whole[:taken]
            known, state = sum(loader.errors.values()), loader.state_dict()
        with with_restarts(graph(), 3, on_death="skip") as resumed, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of a fork beside threads
            resumed.load_state_dict(state)
            assert sum(resumed.errors.values()) == known
            assert list(resumed) == whole[taken:]
            assert sum(resumed.errors.values()) == bad
            assert bool(said) == (known < bad), "no worker dies of what is known"
            assert list(resumed) == whole, "the next epoch"
            assert sum(resumed.errors.values()) == bad


def test_without_restarts_the_second_death_of_the_dispatcher_names_the_element() -> None:
    with with_restarts(deadly_for_the_dispatcher(), 0) as loader:
        iterator = iter(loader)
        for named in (False, True, True):
            with pytest.raises(WorkerDied) as caught:
                list(iterator)
            assert ("element 13 of the dispatcher" in str(caught.value)) == named


def test_without_restarts_deaths_by_chance_blame_no_element() -> None:
    with with_restarts(numbers(1000).sharding_filter().map(wider), 0) as loader:
        iterator = iter(loader)
        given = [next(iterator)]
        for _ in range(3):
            given += islice(iterator, 200)
            killed(workers_of(loader)[1])
            with pytest.raises(WorkerDied, match="in the middle of its work"):
                given.extend(iterator)
        given.extend(iterator)
        assert [x for x, _ in given] == list(range(1000))


def test_coroutines_that_wait_for_each_other_are_watched_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_record, "_PATIENCE", 0.01)
    waiting: list[asyncio.Event] = []

    async def meets_another(x: int) -> int:
        waiting.append(asyncio.Event())
        if len(waiting) % 2 == 0:
            for each in waiting:
                each.set()
        await waiting[-1].wait()
        return x

    record = CallRecord(file_for_record())
    graph = Watched(record, WatchOrder(9)).over(numbers(4).async_map_batches(meets_another, 2))
    assert list(graph) == list(range(4))


@REPLACED
def test_the_stack_of_a_crash_is_told() -> None:
    with with_restarts(deadly({13}, by=signal.SIGSEGV), 3) as loader, pytest.raises(WorkerDied, match="in kills"):
        list(loader)


class DiesAt(IterDataPipe[int]):
    """A user's class that ends its process itself, outside of any function of a stage."""

    def __iter__(self) -> Iterator[int]:
        for x in range(100):
            if x == 30:
                os._exit(7)
            yield x


@REPLACED
def test_what_dies_outside_of_a_function_is_named_and_cannot_be_left_out() -> None:
    with (
        with_restarts(DiesAt().sharding_filter(), 3, on_death="skip") as loader,
        pytest.raises(WorkerDied, match=r"element 15 of worker \d .* cannot be left out"),
    ):
        list(loader)


@REPLACED
def test_more_deaths_than_are_allowed_are_an_error_and_one_may_go_on() -> None:
    with with_restarts(numbers(1000).sharding_filter().map(wider), 2) as loader:
        given: list[Any] = []
        iterator = iter(loader)

        def go_on() -> None:
            for element in iterator:
                given.append(element)
                if len(given) in (200, 400, 600):
                    killed(workers_of(loader)[0])

        with pytest.raises(WorkerDied) as caught:
            go_on()
        assert "after 2 that were replaced" in "".join(caught.value.__notes__)
        go_on()
        assert [x for x, _ in given] == list(range(1000))


def test_a_warning_says_who_died_and_how() -> None:
    with with_restarts(numbers(400).sharding_filter().map(wider), 1) as loader:
        iterator = iter(loader)
        next(iterator)
        victim = workers_of(loader)[1]
        os.kill(victim, signal.SIGKILL)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")  # from 3.12 on Python warns of a fork beside threads as well
            assert [x for x, _ in iterator] == list(range(1, 400))
        (text,) = [str(warning.message) for warning in said if warning.category is UserWarning]
        assert f"worker 1 (process {victim}) was ended by SIGKILL" in text
        assert "it is replaced and goes on without a loss (0 more)" in text


@REPLACED
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_inherit_nothing_are_replaced_as_well(method: str) -> None:
    graph = IterableWrapper(range(300)).shuffle().sharding_filter().map(str)
    service = MultiProcessingReadingService(2, method, restart=2)
    with DataLoader2(graph, reading_service=service) as loader, with_restarts(graph, 0) as undisturbed:
        given: list[Any] = []
        loader.seed(SEED)
        undisturbed.seed(SEED)
        for element in loader:
            given.append(element)
            if len(given) == 100:
                killed(workers_of(loader)[1])
        assert given == list(undisturbed)


# -- threads ----------------------------------------------------------------------------------------------------------


class Ends:
    """Packs elements for a thread's link; some threads end of it, by what is no error of an element."""

    def __init__(self, names: list[str], after: int) -> None:
        self.names = names
        self.after = after
        self.calls: Counter[str] = Counter()

    def __call__(self, elements: list[Any]) -> tuple[Any, int]:
        name = threading.current_thread().name
        self.calls[name] += 1
        if any(name.endswith(each) for each in self.names) and self.calls[name] in (self.after, 2 * self.after):
            raise SystemExit(name)
        return thread_host._ThreadItems(list(elements)), 0


@REPLACED
@pytest.mark.parametrize("names", [["worker 0"], ["worker 0", "worker 1"], ["dispatcher"], ["dispatcher", "worker 1"]])
@pytest.mark.parametrize("name", ["shuffled", "dispatched", "a class that is replayed"])
def test_threads_that_end_are_replaced(name: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with DataLoader2(GRAPHS[name](600), reading_service=ThreadingReadingService(2)) as undisturbed:
        undisturbed.seed(SEED)
        expected = list(undisturbed)
    monkeypatch.setattr(thread_host, "_as_they_are", ends := Ends(names, after=7))
    with DataLoader2(GRAPHS[name](600), reading_service=ThreadingReadingService(2, restart=4)) as loader:
        loader.seed(SEED)
        assert list(loader) == expected
    assert name != "dispatched" or sum(ends.calls.values()) > 7


def test_a_thread_that_ends_is_an_error_without_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_host, "_as_they_are", Ends(["worker 1"], after=3))
    with DataLoader2(numbers(1000).sharding_filter(), reading_service=ThreadingReadingService(2)) as loader:
        iterator = iter(loader)
        given: list[int] = []
        with pytest.raises(WorkerDied, match=r"worker 1 \(a thread\) was ended by SystemExit"):
            given.extend(iterator)
        monkeypatch.undo()
        given.extend(iterator)
        assert given == list(range(1000))


# -- arguments, and what a worker writes down -------------------------------------------------------------------------


def test_arguments() -> None:
    with pytest.raises(BadArgument, match="restart=-1"):
        MultiProcessingReadingService(2, restart=-1)
    with pytest.raises(BadArgument, match='expected "raise" or "skip"'):
        ThreadingReadingService(2, restart=1, on_death="ignore")  # type: ignore[arg-type]  # refused is what is tried
    with pytest.raises(BadArgument, match="restart="):
        MultiProcessingReadingService(2, on_death="skip")


def test_calls_under_way_are_written_down() -> None:
    fd = file_for_record()
    here, there = CallRecord(fd), CallRecord(fd)
    os.close(fd)
    assert here.read() == AtWork(0, 0, ())
    seen: list[AtWork] = []

    def look(x: int) -> int:
        seen.append(there.read())
        return x

    there.making(7, 1)
    graph = Watched(here, WatchOrder(9)).over(IterableWrapper([3, "y" * 999]).map(look))
    assert list(graph) == [3, "y" * 999]
    (first,), (second,) = (each.calls for each in seen)
    assert seen[0][:2] == (7, 1)
    assert (first.text, len(second.text)) == ("3", 200)
    assert "look" in first.stage
    assert first.key != second.key
    assert there.read().calls == ()


def test_a_record_is_never_larger_than_its_memory() -> None:
    record = CallRecord(file_for_record())
    record.calling([Call(0, bytes(16), "x" * 9999, "y" * 9999)])
    assert record.read().calls == ()


@REPLACED
def test_nothing_is_left_behind() -> None:
    before = sorted(map(os.readlink, links()))
    with with_restarts(numbers(300).sharding_filter(), 9) as loader:
        for i, _ in enumerate(loader):
            if i in (50, 150):
                killed(workers_of(loader)[0])
    assert multiprocessing.active_children() == []
    assert sorted(map(os.readlink, links())) == before


def links() -> list[Path]:
    """The open files of this process."""
    return [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink() and link.exists()]


A, B = (0, b"a"), (1, b"b")
SEVERAL = Suspicion(range(10, 14), 74, frozenset())


@pytest.mark.parametrize(
    ("likeness", "before", "now", "is_one"),
    [
        (Likeness.NEW, None, Suspicion(range(3, 4), 67), True),
        (
            Likeness.CALL,
            Suspicion(range(3, 4), 67, frozenset({A})),
            Suspicion(range(90, 94), 154, frozenset({A, B})),
            False,
        ),
        (
            Likeness.ELEMENT,
            Suspicion(range(3, 4), 67, frozenset({A})),
            Suspicion(range(3, 4), 67, frozenset({B})),
            True,
        ),
        (
            Likeness.ELEMENT,
            Suspicion(range(3, 4), 67, frozenset({A, B})),
            Suspicion(range(3, 4), 67, frozenset({A, B})),
            True,
        ),
        (Likeness.NARROWER, SEVERAL, Suspicion(range(11, 12), 75), True),
        (Likeness.NARROWER, SEVERAL, Suspicion(range(11, 11), 75, frozenset({A})), True),
        (
            Likeness.CALLS,
            SEVERAL._replace(calls=frozenset({A, B})),
            Suspicion(range(80, 84), 144, frozenset({A, B})),
            False,
        ),
        (Likeness.NEAR, SEVERAL, Suspicion(range(11, 13), 75), False),
        (Likeness.NEAR, SEVERAL, Suspicion(range(73, 74), 137), True),
        (Likeness.NEW, SEVERAL, Suspicion(range(74, 75), 138), True),
        (Likeness.NEW, SEVERAL, Suspicion(range(6, 10), 70), False),
    ],
)
def test_the_table_of_likeness(likeness: Likeness, before: Suspicion | None, now: Suspicion, is_one: bool) -> None:
    assert compared(before, now, is_one) is likeness


if __name__ == "__main__":  # python -m tests.reading_services.workers.test_restarts
    warnings.simplefilter("ignore")
    for name, build in GRAPHS.items():
        deaths, longest = disturbed(build, 20_000, 200)
        sys.stdout.write(f"{name}: {deaths} deaths, the longest wait {longest:.3f} s\n")
