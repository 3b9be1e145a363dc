"""sharding_round_robin_dispatch: elements are made once, dealt out in turn, and no two workers wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from datapipes.errors import GraphError
from datapipes.graph import Pipe
from datapipes.iter import IterDataPipe
from loader2 import DataLoader2
from reading_services import InProcessReadingService, WorkerInfo
from tests.reading_services.workers.in_turn import Build, Service, epochs_of, numbers, processes, texts, threads

pytestmark = pytest.mark.parametrize("service", [processes, threads])


def dispatched(length: int) -> Pipe:
    return numbers(length).sharding_round_robin_dispatch()


def marked_twice() -> Pipe:
    return dispatched(9).zip(numbers(9).map(str).sharding_round_robin_dispatch()).map(str)


def below_a_fork() -> Pipe:
    a, b = numbers(9).shuffle().fork(2)
    return a.sharding_round_robin_dispatch().zip(b.map(str).sharding_round_robin_dispatch())


AS_IN_PROCESS: dict[str, Build] = {
    "plain": lambda: dispatched(9),
    "nothing": lambda: dispatched(0),
    "fewer than workers": lambda: dispatched(1),
    "shuffled": lambda: numbers(20).shuffle(buffer_size=5).sharding_round_robin_dispatch().map(str),
    "several marks": marked_twice,
    "marks below a fork": below_a_fork,
    "twice the same": lambda: (lambda d: d.zip(d))(dispatched(7)),
    "cycled": lambda: numbers(5).shuffle().sharding_round_robin_dispatch().cycle(3),
    "beside a sharded branch": lambda: dispatched(9).zip(numbers(9).map(str).sharding_filter()),
    "behind a sharded branch": lambda: numbers(6).sharding_filter().concat(dispatched(20)),
}


@pytest.mark.parametrize("name", AS_IN_PROCESS)
def test_the_order_is_that_of_one_process(service: Service, name: str) -> None:
    expected = epochs_of(AS_IN_PROCESS[name], InProcessReadingService(), 2)
    for workers in (1, 2, 3):
        assert epochs_of(AS_IN_PROCESS[name], service(workers), 2) == expected


def test_what_is_dispatched_is_made_once(service: Service) -> None:
    def info_of(x: int) -> tuple[int, str]:
        import threading

        return x, threading.current_thread().name if service is threads else ""

    with DataLoader2(numbers(50).map(info_of).sharding_round_robin_dispatch(), reading_service=service(2)) as loader:
        assert [x for x, _ in loader] == list(range(50))
        assert len({where for _, where in loader}) == 1


def is_even_or_late(pair: tuple[int, bytes]) -> bool:
    return pair[0] % 2 == 0 or pair[0] > 590


@pytest.mark.parametrize("size", [0, 20_000])
def test_a_worker_whose_elements_are_all_left_out_does_not_wait_for_the_others(service: Service, size: int) -> None:
    graph = numbers(600).map(lambda x: (x, bytes(size))).sharding_round_robin_dispatch().filter(is_even_or_late)
    with DataLoader2(graph.map(lambda pair: pair[0]), reading_service=service(2)) as loader:
        found = list(loader)
    late = [x for x in range(600) if x % 2 and x > 590]
    assert sorted(found) == sorted([*range(0, 600, 2), *late])
    assert found[1:10:2] == late


def test_a_worker_that_has_enough_does_not_hold_up_the_others(service: Service) -> None:
    graph = numbers(300).map(lambda x: (x, bytes(30_000))).sharding_round_robin_dispatch()
    some = graph.filter(lambda pair: pair[0] % 2 == 0 or pair[0] > 290).map(lambda pair: pair[0])
    with DataLoader2(some.header(3), reading_service=service(2)) as loader:
        assert list(iter(loader)) == [0, 291, 2, 293, 4, 295]
        assert list(iter(loader)) == [0, 291, 2, 293, 4, 295]


def test_a_worker_that_never_asks_is_not_waited_for(service: Service) -> None:
    for workers in (2, 3):
        with DataLoader2(numbers(1).sharding_filter().zip(dispatched(99)), reading_service=service(workers)) as loader:
            assert [list(loader), list(loader)] == [[(0, 0)]] * 2


def test_filter_and_flatmap_after_it(service: Service) -> None:
    graph = dispatched(12).filter(lambda x: x % 3 == 0).flatmap(lambda x: [x] * x)
    with DataLoader2(graph, reading_service=service(2)) as loader:
        assert sorted(loader) == [x for x in range(12) if x % 3 == 0 for _ in range(x)]


class Own(IterDataPipe[int]):
    """A user's class that opens its source late, and perhaps more than once."""

    def __init__(self, source_datapipe: IterDataPipe[int], times: int = 1) -> None:
        self.source_datapipe = source_datapipe
        self.times = times

    def __iter__(self) -> Iterator[int]:
        yield -1
        for _ in range(self.times):
            yield from self.source_datapipe


def test_users_classes_below_it(service: Service) -> None:
    with DataLoader2(Own(dispatched(5)), reading_service=service(2)) as loader:
        assert [list(loader), list(loader)] == [[-1, -1, 0, 1, 2, 3, 4]] * 2
    with (
        DataLoader2(Own(dispatched(5), times=2), reading_service=service(2)) as loader,
        pytest.raises(GraphError, match="reads more than once what is dispatched"),
    ):
        list(loader)


def fails_at_seven_and_eight(x: int) -> int:
    if x in (7, 8):
        raise LookupError(x)
    return x


@pytest.mark.parametrize("above", [True, False])
def test_after_an_exception_the_others_follow(service: Service, above: bool) -> None:
    graph = numbers(15).map(fails_at_seven_and_eight).sharding_round_robin_dispatch()
    if not above:
        graph = dispatched(15).map(fails_at_seven_and_eight)
    with DataLoader2(graph, reading_service=service(2)) as loader:
        iterator = iter(loader)
        found: list[Any] = []
        notes: list[str] = []
        for _ in range(20):
            try:
                found.append(next(iterator))
            except LookupError as error:
                found.append(error.args)
                notes += getattr(error, "__notes__", ())
            except StopIteration:
                break
    assert found == [(x,) if x in (7, 8) else x for x in range(15)]
    assert any("dispatcher" in note for note in notes) is (above and service is processes)


def bad_in_one(datapipe: Any, info: WorkerInfo, _: Any) -> Any:
    if info.worker_id == 1:
        raise LookupError("this epoch")
    return datapipe


def test_a_worker_that_cannot_begin_is_not_waited_for(service: Service) -> None:
    with (
        DataLoader2(dispatched(20), reading_service=service(2, worker_reset_fn=bad_in_one)) as loader,
        pytest.raises(LookupError, match="this epoch"),
    ):
        list(loader)


def test_abandoned_epochs(service: Service) -> None:
    with DataLoader2(dispatched(100_000).map(str), reading_service=service(3)) as loader:
        for number in range(40):
            assert list(islice(iter(loader), number % 4)) == [str(x) for x in range(number % 4)]


@pytest.mark.parametrize("name", ["shuffled", "several marks", "cycled", "beside a sharded branch"])
def test_it_is_resumed_anywhere(service: Service, name: str) -> None:
    build = AS_IN_PROCESS[name]
    first, second = epochs_of(build, service(2), 2)
    with DataLoader2(build(), reading_service=service(2)) as loader:
        loader.seed(5)
        iterator = iter(loader)
        states = [loader.state_dict()]
        for _ in first:
            next(iterator)
            states.append(loader.state_dict())
    for number, state in list(enumerate(states))[:: 1 if service is threads else 3]:
        with DataLoader2(build(), reading_service=service(2)) as again:
            again.load_state_dict(state)
            assert texts(iter(again)) == first[number:]
            assert texts(iter(again)) == second


def test_the_length(service: Service) -> None:
    for graph in (dispatched(9), dispatched(9).batch(2)):
        with DataLoader2(graph, reading_service=service(2)) as loader:
            assert len(loader) == len(list(iter(loader))) == len(loader)


class Passing(IterDataPipe[Any]):
    """A user's class that is replayed."""

    def __init__(self, source: Pipe) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


def one_child_replayed(fails: int | None = None) -> Pipe:
    def made(x: int) -> int:
        if x == fails:
            raise ValueError(x)
        return x

    a, b = numbers(9).map(made).sharding_round_robin_dispatch().fork(2)
    return Passing(a).zip(b)


def test_a_replay_of_one_child_of_a_fork_is_resumed_anywhere(service: Service) -> None:
    for k in range(9):
        with DataLoader2(one_child_replayed(), reading_service=service(2)) as loader:
            iterator = iter(loader)
            assert [next(iterator) for _ in range(k)] == [(x, x) for x in range(k)]
            state = loader.state_dict()
            rest = list(iterator)
        with DataLoader2(one_child_replayed(), reading_service=service(2)) as again:
            again.load_state_dict(state)
            assert list(again) == rest == [(x, x) for x in range(k, 9)]


def test_an_error_above_that_fork_keeps_nobody_waiting(service: Service) -> None:
    with DataLoader2(one_child_replayed(fails=3), reading_service=service(2, timeout=30.0)) as loader:
        iterator = iter(loader)
        given: list[Any] = []
        errors: list[Exception] = []
        while len(errors) < 9:
            try:
                given.append(next(iterator))
            except StopIteration:
                break
            except (ValueError, GraphError) as error:
                errors.append(error)
        assert given[:3] == [(x, x) for x in range(3)]
        assert {(x, x) for x in range(0, 9, 2)} <= set(given), "the other worker goes on"
        assert isinstance(errors[0], ValueError)
        assert "give the class state_dict()" in str(errors[-1])
