"""worker_init_fn, worker_reset_fn, tolerated errors, and what else a loader asks of a service with workers."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2, gather, scatter
from loader2.random import PhiloxEngine, SeedGenerator
from reading_services import MultiProcessingReadingService, ThreadingReadingService, WorkerInfo
from tests.reading_services.workers.in_turn import Service, numbers, processes, texts, threads

both = pytest.mark.parametrize("service", [processes, threads])


class Marked:
    """Puts a word and the worker's number beside each element."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, datapipe: Pipe, info: WorkerInfo, seeds: SeedGenerator | None = None) -> Pipe:
        assert info.num_workers in (1, 2)
        assert (seeds is not None) is (self.word == "reset")
        return datapipe.map(lambda x: (x, self.word, info.worker_id))


@both
def test_init_comes_once_and_reset_at_each_epoch_behind_it(service: Service) -> None:
    options = {"worker_init_fn": Marked("init"), "worker_reset_fn": Marked("reset")}
    loader: DataLoader2[Any] = DataLoader2(numbers(2).sharding_filter(), reading_service=service(2, **options))
    with loader:
        first = [((0, "init", 0), "reset", 0), ((1, "init", 1), "reset", 1)]
        assert list(iter(loader)) == first
        assert list(iter(loader)) == [(x, "reset", x[2]) for x in first], "what it returned is kept"


@both
def test_reset_is_given_seeds_that_differ_and_repeat(service: Service) -> None:
    def drawn(datapipe: Pipe, info: WorkerInfo, seeds: SeedGenerator) -> Pipe:
        seed = seeds.generate_seed()
        return IterableWrapper([seed])

    with DataLoader2(numbers(2).sharding_filter(), reading_service=service(2, worker_reset_fn=drawn)) as loader:
        epochs = []
        for _ in range(2):
            loader.seed(3)
            epochs += [tuple(iter(loader)), tuple(iter(loader))]
    assert epochs[0] == epochs[2] != epochs[1] == epochs[3]
    assert len({*epochs[0], *epochs[1]}) == 4


@both
def test_the_library_itself_draws_from_no_generator_of_seeds(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("its numbers are not needed")

    for name in ("generate", "spawn"):
        monkeypatch.setattr(PhiloxEngine, name, never)
    with DataLoader2(numbers(9).shuffle().sharding_filter(), reading_service=service(2)) as loader:
        assert sorted(loader) == list(range(9))


@both
@pytest.mark.parametrize("name", ["worker_init_fn", "worker_reset_fn"])
def test_a_function_that_returns_no_graph_is_named(service: Service, name: str) -> None:
    def forgets(*_: Any) -> None:
        pass

    loader: DataLoader2[int] = DataLoader2(numbers(4).sharding_filter(), reading_service=service(2, **{name: forgets}))
    with loader, pytest.raises(BadArgumentType, match=r"forgets.* returned NoneType"):
        list(iter(loader))


def test_without_workers_both_functions_are_honoured() -> None:
    with pytest.warns(UserWarning, match="InProcessReadingService"):
        service = MultiProcessingReadingService(0, worker_init_fn=Marked("init"), worker_reset_fn=Marked("reset"))
    with DataLoader2(numbers(2).sharding_filter(), reading_service=service) as loader:
        given: list[Any] = list(loader)
        assert given == [((x, "init", 0), "reset", 0) for x in range(2)]


@pytest.mark.parametrize(
    ("service", "options"),
    [
        (MultiProcessingReadingService, {"num_workers": -1}),
        (MultiProcessingReadingService, {"worker_prefetch_cnt": -1}),
        (MultiProcessingReadingService, {"timeout": 0}),
        (MultiProcessingReadingService, {"arena_bytes": 0}),
        (MultiProcessingReadingService, {"worker_init_fn": 1}),
        (ThreadingReadingService, {"num_workers": 0}),
        (ThreadingReadingService, {"prefetch_cnt": -1}),
        (ThreadingReadingService, {"timeout": float("nan")}),
        (ThreadingReadingService, {"worker_reset_fn": "f"}),
    ],
)
def test_arguments_are_checked(service: Any, options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises((BadArgument, BadArgumentType), match=re.escape(f"{service.__name__}({name}={value!r}): ")):
        service(**{"num_workers": 1, **options})


def test_a_context_is_one_that_there_is() -> None:
    with pytest.raises(AssertionError, match=r"multiprocessing_context=.*: choose one of"):
        MultiProcessingReadingService(1, "threads")


def test_what_cannot_be_sent_is_named_at_construction() -> None:
    lock = threading.Lock()
    graph = numbers(4).sharding_filter().map(lambda x: (x, lock))
    with pytest.raises(BadArgumentType, match=r"\.map\(.* cannot be sent to a worker, because of its fn"):
        DataLoader2(graph, reading_service=processes(2, multiprocessing_context="spawn"))
    DataLoader2(graph, reading_service=processes(2)).shutdown()


@both
def test_limit_pause_and_resume(service: Service) -> None:
    with DataLoader2(numbers(10).sharding_filter(), reading_service=service(2)) as loader:
        iterator = iter(loader)
        iterator.limit(4)
        assert list(iterator) == [0, 1, 2, 3]
        iterator.resume()
        assert list(iterator) == [4, 5, 6, 7]
        assert list(iter(loader)) == list(range(10))


@both
def test_two_loaders_at_once_and_one_in_a_thread(service: Service) -> None:
    found: list[int] = []

    def read() -> None:
        with DataLoader2(numbers(50).sharding_filter(), reading_service=service(2)) as loader:
            found.extend(iter(loader))

    thread = threading.Thread(target=read)
    thread.start()
    one: DataLoader2[int] = DataLoader2(numbers(20).sharding_filter(), reading_service=service(2))
    with one, DataLoader2(numbers(20).map(str).sharding_filter(), reading_service=service(3)) as other:
        assert list(zip(one, other, strict=True)) == [(x, str(x)) for x in range(20)]
    thread.join(300)
    assert found == list(range(50))


class AtHome(IterDataPipe[Any]):
    """A user's stage that must not be copied."""

    def __init__(self, source_datapipe: Pipe) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Any:
        for element in self.source_datapipe:
            yield element, threading.current_thread() is threading.main_thread()

    def is_replicable(self) -> bool:
        return False


@both
def test_what_is_not_replicable_stays_at_home(service: Service) -> None:
    graph = AtHome(numbers(6).sharding_filter().map(abs)).batch(2).prefetch(2)
    told: DataLoader2[Any] = DataLoader2(AtHome(numbers(6).sharding_filter()).map(list), reading_service=service(2))
    with told:
        assert list(told) == [[x, True] for x in range(6)]
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=service(2))
    with loader:
        assert [x for batch in loader for x, _ in batch] == list(range(6))


@both
def test_services_can_be_copied_and_used_again(service: Service) -> None:
    one = service(2)
    for each in (one, copy.deepcopy(one), pickle.loads(pickle.dumps(one)), one):
        with DataLoader2(numbers(3).sharding_filter(), reading_service=each) as loader:
            assert list(loader) == [0, 1, 2]


# -- tolerated errors --------------------------------------------------------------------------------------------------


def odd(x: int) -> int:
    if x % 5 == 3:
        raise ValueError(x)
    return x


TOLERANT: dict[str, Callable[[], IterDataPipe[Any]]] = {
    "in the workers": lambda: numbers(40).sharding_filter().map(odd, on_error="skip"),
    "dispatched": lambda: numbers(40).map(odd, on_error="skip").sharding_round_robin_dispatch(),
    "at home as well": lambda: AtHome(numbers(40).sharding_filter().map(odd, on_error="skip")).map(first),
}


def first(pair: tuple[int, bool]) -> int:
    return pair[0]


@both
@pytest.mark.parametrize("name", TOLERANT)
@pytest.mark.filterwarnings("ignore:.*goes on after")
def test_tolerated_errors_are_counted_at_home_also_after_a_resume(service: Service, name: str) -> None:
    with DataLoader2(TOLERANT[name](), reading_service=service(2)) as loader:
        iterator = iter(loader)
        states, found = [loader.state_dict()], []
        for element in iterator:
            found.append(element)
            states.append(loader.state_dict())
        assert sorted(found) == [x for x in range(40) if x % 5 != 3]
        assert list(loader.errors.values()) == [8]
        list(islice(iter(loader), 40))
        assert list(loader.errors.values()) == [8]
    for number in (0, 1, 9, 20, 31, 32):
        with DataLoader2(TOLERANT[name](), reading_service=service(2)) as again:
            again.load_state_dict(states[number])
            assert list(iter(again)) == found[number:]
            assert list(again.errors.values()) == [8]


# -- states ------------------------------------------------------------------------------------------------------------


@both
def test_a_state_of_another_number_of_workers_is_refused(service: Service) -> None:
    with DataLoader2(numbers(9).sharding_filter(), reading_service=service(2)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for other, said in (
        (service(3), "workers: the state was saved with 2 workers, and this loader runs with 3 workers. Run it with 2"),
        (service(1), "with 2 workers, and this loader runs with 1 worker."),
        (None, "workers: the state was saved with 2 workers, and this loader runs without workers. Run it with 2"),
    ):
        loader = DataLoader2(numbers(9).sharding_filter(), reading_service=other)
        with loader, pytest.raises(StateError, match=said):
            loader.load_state_dict(state)
    at_home: DataLoader2[int] = DataLoader2(numbers(9).sharding_filter())
    next(iter(at_home))
    loader = DataLoader2(numbers(9).sharding_filter(), reading_service=service(2))
    with loader, pytest.raises(StateError, match="saved without workers, and this loader runs with 2 workers"):
        loader.load_state_dict(at_home.state_dict())


@both
def test_the_message_on_another_number_of_workers_says_how_to_go_on(service: Service) -> None:
    graph = numbers(12).shuffle().sharding_filter()
    with DataLoader2(graph, reading_service=service(2)) as loader:
        loader.seed(5)
        for _ in range(3):
            list(loader)
        next(iter(loader))
        state = loader.state_dict()
    with DataLoader2(graph, reading_service=service(3)) as loader:
        with pytest.raises(StateError) as error:
            loader.load_state_dict(state)
        (call,) = re.findall(r"dl\.load_state_dict\(.*\)(?=, with)", str(error.value))
        exec(call, {"dl": loader, "state": state, "gather": gather, "scatter": scatter})
        again = list(loader)
        assert loader.epoch == 3
    with DataLoader2(graph, reading_service=service(3)) as loader:
        loader.seed(5)
        loader.set_epoch(3)
        assert list(loader) == again


WRONG: list[Any] = [None, 1, "x", [], {"turn": [0]}, {"turn": [0, 0], "workers": []}]
ENTRY: list[Any] = [None, 0, {}]


@pytest.mark.parametrize(
    "cell",
    [
        *WRONG,
        {"turn": [0, 2], "workers": [ENTRY, ENTRY]},
        {"turn": [0, 0], "workers": [ENTRY, ENTRY]},
        {"turn": ["a"], "workers": [ENTRY, ENTRY]},
        {"turn": [[]], "workers": [ENTRY, ENTRY]},
        {"turn": [True, 0], "workers": [ENTRY, ENTRY]},
        {"turn": [0, 1], "workers": [ENTRY, [None, -1, {}]]},
        {"turn": [0, 1], "workers": [ENTRY, [None, 0, {"a": -1}]]},
        {"turn": [0, 1], "workers": [ENTRY, [None, 0, {1: 1}]]},
        {"turn": [0, 1], "workers": [ENTRY, [{"a": 1}, 0, {}]]},
        {"turn": [0, 1], "workers": [ENTRY, [None, 0]]},
        {"turn": [0, 1], "workers": [ENTRY, [{99: 1}, 0, {}]]},
        {"turn": [0, 1], "workers": [ENTRY, [{0: 10**9}, 0, {}]]},
    ],
    ids=repr,
)
def test_a_state_that_makes_no_sense_is_refused(cell: Any) -> None:
    with DataLoader2(numbers(9).sharding_filter(), reading_service=threads(2)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    (place,) = state["cells"]
    other: DataLoader2[int] = DataLoader2(numbers(9).sharding_filter(), reading_service=threads(2))
    with other, pytest.raises(StateError):
        resumed(other, sealed({**state, "cells": {place: cell}}))


def resumed(loader: DataLoader2[Any], state: Any) -> list[Any]:
    loader.load_state_dict(state)
    return list(iter(loader))


def test_saving_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from reading_services.workers.transport import inline, process

    with DataLoader2(numbers(100).sharding_filter(), reading_service=processes(2)) as loader:
        iterator = iter(loader)
        assert texts(islice(iterator, 5)) == texts(range(5))
        for kind in (inline.ThreadConsumerEnd, process.PipeConsumerEnd):
            for method in ("send", "receive"):
                monkeypatch.delattr(kind, method, raising=False)
        state = loader.state_dict()
        monkeypatch.undo()
    with DataLoader2(numbers(100).sharding_filter(), reading_service=processes(2)) as again:
        again.load_state_dict(state)
        assert list(again) == list(range(5, 100))
