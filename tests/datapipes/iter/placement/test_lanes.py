"""lanes: one stream for any number of workers. The laws are tried on the specimens of tests/specimens/lanes.py."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import pytest

from datapipes.errors import BadArgument, GraphError, StateError
from datapipes.graph import Pipe, apply_sharding
from datapipes.iter import FileLister, IterableWrapper, IterDataPipe
from datapipes.position.seeds import Run
from datapipes.position.session import Session
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from loader2 import DataLoader2
from loader2.testing.specimen import shown
from reading_services import MultiProcessingReadingService, ThreadingReadingService, WorkerInfo, get_worker_info
from tests.specimens.elements import add_ten, is_even, is_something, itself, up_to
from tests.specimens.specimen import numbers, unseekable


def loaded(graph: Pipe, service: Any = None, epochs: int = 2) -> list[list[str]]:
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=service)
    loader.seed(3)
    try:
        return [[shown(element) for element in loader] for _ in range(epochs)]
    finally:
        loader.shutdown()


def shuffled(source: Pipe) -> Pipe:
    return source.shuffle().sharding_filter().map(add_ten).shuffle(buffer_size=3).batch(2)


def buffered(source: Pipe) -> Pipe:
    return source.shuffle(buffer_size=5).map(add_ten).prefetch(2).sharding_filter().flatmap(up_to).filter(is_even)


SHAPES: list[Callable[[Pipe], Pipe]] = [shuffled, buffered]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_as_many_lanes_as_workers_give_the_stream_of_the_workers(shape: Callable[[Pipe], Pipe], workers: int) -> None:
    for source in (numbers(17), unseekable(17)):
        graph = shape(source)
        assert loaded(graph.lanes(workers)) == loaded(graph, ThreadingReadingService(workers, timeout=60))


def drawn(x: int) -> tuple[int, WorkerInfo | None]:
    return x, get_worker_info()


class ShardsItself(IterDataPipe[Any]):
    """A class that asks for its worker where it begins."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
        """Nothing: it asks."""

    def __iter__(self) -> Any:
        info = get_worker_info() or WorkerInfo(1, 0)
        yield from islice(self.source_datapipe, info.worker_id, None, info.num_workers)


def test_inside_a_lane_the_worker_is_the_lane() -> None:
    graph = ShardsItself(numbers(7)).map(drawn)
    found = list(DataLoader2(graph.lanes(3)))
    assert found == [(x, WorkerInfo(3, x % 3)) for x in range(7)]
    assert loaded(graph.lanes(3)) == loaded(graph, MultiProcessingReadingService(3, "fork", timeout=60))
    assert [info for _, info in DataLoader2(numbers(2).sharding_filter().lanes(2).map(drawn))] == [None, None]


def test_shards_choose_lanes() -> None:
    graph = shuffled(numbers(23))
    whole = loaded(graph.lanes(6), epochs=1)[0]
    for of in (2, 3):
        parts = [loaded(apply_sharding(shuffled(numbers(23)).lanes(6), of, i), epochs=1)[0] for i in range(of)]
        assert list(chain.from_iterable(zip(*parts, strict=True))) == whole


def test_the_length_is_that_of_all_lanes() -> None:
    assert len(numbers(7).sharding_filter().batch(2).lanes(3)) == 4
    assert len(apply_sharding(numbers(7).sharding_filter().lanes(3), 3, 0)) == 3
    with pytest.raises(TypeError, match="relies on the output"):
        len(numbers(7).sharding_filter().flatmap(up_to).lanes(3))


def test_a_stage_below_is_seeded_alike_wherever_the_lanes_run() -> None:
    in_two_lanes = unseekable(8).sharding_filter().lanes(2).shuffle(buffer_size=5)
    assert loaded(in_two_lanes) == loaded(unseekable(8).map(itself).map(itself).shuffle(buffer_size=5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: numbers(3).lanes(2), r"\.lanes\(2\) has no sharding_filter\(\) above it"),
        (lambda: numbers(3).sharding_filter().lanes(2).map(str).lanes(2), r"has \.lanes\(2\) above it: keep one"),
        (
            lambda: numbers(3).sharding_round_robin_dispatch().lanes(2),
            r"once per process; use sharding_filter\(\) in place of \.sharding_round_robin_dispatch\(\)",
        ),
        (lambda: numbers(3).sharding_filter().fullsync().lanes(2), r"is below \.fullsync\(.*\), which cannot run in w"),
        (lambda: numbers(3).sharding_filter().map(str).sharding_filter().lanes(2), "Sharding twice"),
        (lambda: forked_around(), "reads one child of a fork, demux or unzip in each lane"),
    ],
)
def test_what_cannot_run_in_lanes_is_refused_when_the_loader_is_made(make: Callable[[], Pipe], message: str) -> None:
    graph = make()
    with pytest.raises(GraphError, match=message):
        DataLoader2(graph)
    with pytest.raises(GraphError, match=message):
        list(graph)


def forked_around() -> Pipe:
    a, b = numbers(4).fork(2)
    return a.sharding_filter().lanes(2).zip(b)


def test_the_number_of_lanes_is_checked() -> None:
    with pytest.raises(BadArgument, match="at least one lane, got 0"):
        numbers(3).sharding_filter().lanes(0)
    with pytest.raises(BadArgument, match="`buffer_bytes` must be positive"):
        numbers(3).sharding_filter().lanes(2, buffer_bytes=0)


@pytest.mark.parametrize(("n", "of", "would_do"), [(12, 5, "1, 2, 3, 4, 6 or 12 do"), (1, 2, "; 1 do")])
def test_ranks_have_to_divide_the_lanes(n: int, of: int, would_do: str) -> None:
    with pytest.raises(GraphError, match=rf"lanes\({n}\): {of} ranks do not divide it.*{would_do}"):
        apply_sharding(numbers(3).sharding_filter().lanes(n), of, 0, SHARDING_PRIORITIES.DISTRIBUTED)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"turn": [0, 1]}, "expected the fields"),
        ({"turn": [0, 1], "lanes": {0: [None, 0]}}, "expected the numbers of lanes with a position"),
        ({"turn": [0, 7], "lanes": {0: [None, 0], 7: [None, 0]}}, "expected some of the lanes"),
        ({"turn": [0], "lanes": {0: None}}, r"expected \[position, count\]"),
        ({"turn": [0], "lanes": {0: [None, 9]}}, "9 elements were given before in lane 0"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(cell: dict[str, Any], message: str) -> None:
    session = Session.of(numbers(4).sharding_filter().lanes(2), Run(0), {2: cell})
    with pytest.raises(StateError, match=message):
        next(session.iterator())


@pytest.mark.filterwarnings("ignore:.* goes on after")
def test_a_state_counts_tolerated_errors_of_lanes_that_have_ended() -> None:
    graph = numbers(9).sharding_filter().map(only_small, on_error="skip").lanes(3)
    whole: DataLoader2[Any] = DataLoader2(graph)
    seen = list(whole)
    for at in range(len(seen) + 1):
        loader: DataLoader2[Any] = DataLoader2(graph)
        iterator = iter(loader)
        list(islice(iterator, at))
        again: DataLoader2[Any] = DataLoader2(graph)
        again.load_state_dict(loader.state_dict())
        assert seen[:at] + list(again) == seen
        assert again.errors == whole.errors == {next(iter(whole.errors)): 4}


def only_small(x: int) -> int:
    if x > 4:
        raise ValueError(x)
    return x


def test_a_lane_that_fails_keeps_its_turn() -> None:
    for at in range(7):
        iterator, found = iter(DataLoader2(numbers(7).sharding_filter().map(Failing(at)).lanes(3))), []
        while True:
            try:
                found.append(next(iterator))
            except ValueError as error:
                found.append(error.args[0])
            except StopIteration:
                break
        assert found == list(range(7))


class Failing:
    """A function that fails on one number."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, x: int) -> int:
        if x == self.at:
            raise ValueError(x)
        return x


class Opened:
    """An iterable that counts how often it is opened, and how many elements were taken."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.opened = self.taken = 0

    def __iter__(self) -> Iterator[int]:
        self.opened += 1
        for number in range(self.length):
            self.taken = number + 1
            yield number


def test_the_source_is_opened_and_read_once() -> None:
    source = Opened(1000)
    graph = IterableWrapper(source, deepcopy=False).filter(is_something).sharding_filter().map(add_ten)
    assert list(graph.lanes(12)) == [x + 10 for x in range(1000)]
    assert source.opened == 1
    iterator = iter(graph.lanes(4))
    assert (next(iterator), source.taken) == (10, 1)  # the first element waits for no other


def sevenths(x: int) -> bool:
    return x % 2 == 1 or x % 70 == 0


@pytest.mark.parametrize(
    ("bounds", "opened"),
    [
        ({}, 1),
        ({"buffer_size": 10}, 2),
        ({"buffer_bytes": 1 << 30}, 1),
        ({"buffer_bytes": 100}, 2),
    ],
)
def test_a_lane_that_is_too_far_behind_reads_for_itself(bounds: dict[str, int], opened: int) -> None:
    source = Opened(700)
    above = IterableWrapper(source, deepcopy=False).filter(is_something).sharding_filter()
    graph = above.filter(sevenths).lanes(2, **bounds)  # lane 0 reads 35 elements for each of lane 1
    found = list(graph)
    assert found[:20] == [x for i in range(10) for x in (70 * i, 2 * i + 1)]
    assert found[20:] == list(range(21, 700, 2))
    assert source.opened == opened
    for at in (0, 1, 7, 20, 300):
        loader: DataLoader2[Any] = DataLoader2(graph)
        taken = list(islice(iter(loader), at))
        again: DataLoader2[Any] = DataLoader2(graph)
        again.load_state_dict(loader.state_dict())
        assert taken + list(again) == found


def test_an_error_above_the_sharding_is_raised_once_in_its_place() -> None:
    for at in range(9):
        above = IterableWrapper(Opened(9), deepcopy=False).flatmap(FailingList(at)).sharding_filter()
        iterator, found = iter(DataLoader2(above.map(add_ten).lanes(4))), []
        while True:
            try:
                found.append(next(iterator))
            except ValueError:
                found.append(at + 10)
            except StopIteration:
                break
        assert found == list(range(10, 19))


class FailingList(Failing):
    """A function that makes a list of one element, and fails on one number."""

    def __call__(self, x: int) -> Any:
        return [super().__call__(x)]


def test_a_state_has_the_position_of_the_source_once() -> None:
    """The buffer above takes 3 kB or more, or nothing, if the last snapshot is from before it was filled."""
    graph = unseekable(3000).filter(is_something).shuffle(buffer_size=1000).sharding_filter().map(str)
    loader: DataLoader2[Any] = DataLoader2(graph.lanes(12))
    loader.seed(1)
    list(islice(loader, 1200))
    assert len(pickle.dumps(loader.state_dict())) < 6000


def test_streams_are_read_one_by_one(tmp_path: Any) -> None:
    for i in range(8):
        (tmp_path / str(i)).write_text(str(i))
    files = FileLister(str(tmp_path)).open_files().filter(is_something).sharding_filter()
    at_once = 0
    for _, stream in files.lanes(4):
        at_once = max(at_once, len([each for each in os.listdir("/proc/self/fd") if is_in(each, tmp_path)]))
        stream.close()
    assert at_once == 1


def is_in(descriptor: str, folder: Any) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))
    except FileNotFoundError:
        return False


def test_a_lane_catches_up_over_an_error() -> None:
    graph = numbers(12).sharding_filter().map(Failing(4)).lanes(2)
    place = 3
    for since in range(4):
        cell = {"turn": [0, 1], "lanes": {0: [None, since], 1: [None, since]}}
        session = Session.of(graph, Run(0), {place: cell})
        found = []
        while True:
            try:
                found.append(next(session.iterator()))
            except ValueError as error:
                session.fail(error)
                found.append(error.args[0])
            except StopIteration:
                break
        assert found == list(range(2 * since, 12))
