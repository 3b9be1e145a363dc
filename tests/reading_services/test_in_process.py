"""InProcessReadingService: its functions, its prefetch, and what becomes of its place when it is left out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.graph import SHARDING_PRIORITIES
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from loader2.random import SeedGenerator
from reading_services import InProcessReadingService, WorkerInfo


def numbers(length: int = 6) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


class Sharded(IterDataPipe[int]):
    """A user's class that wants to be told its shard before it gives anything."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe
        self.told: list[tuple[int, int, object]] = []

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: object) -> None:
        self.told.append((num_of_instances, instance_id, sharding_group))

    def __iter__(self) -> Iterator[int]:
        [(of, index, _)] = self.told
        yield from islice(self.source_datapipe, index, None, of)


# -- init_fn and reset_fn ----------------------------------------------------------------------------------------------


def test_init_fn_changes_the_graph_once() -> None:
    calls: list[WorkerInfo] = []

    def init(datapipe: Any, info: WorkerInfo) -> Any:
        calls.append(info)
        return datapipe.map(lambda x: x + 10).batch(2)

    graph = numbers(3)
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=InProcessReadingService(init_fn=init))
    with loader:
        assert calls == []
        assert [list(loader), list(loader)] == [[[10, 11], [12]]] * 2
    assert calls == [WorkerInfo(num_workers=1, worker_id=0)]
    assert list(graph) == [0, 1, 2]


def test_reset_fn_runs_at_each_epoch_on_what_it_returned_the_time_before() -> None:
    seeds: list[int] = []

    def reset(datapipe: Any, info: WorkerInfo, seed_generator: SeedGenerator) -> Any:
        assert info == WorkerInfo(1, 0)
        seeds.append(seed_generator.generate_seed())
        return datapipe.map(lambda x: x + 1)

    loader = DataLoader2(numbers(3), reading_service=InProcessReadingService(reset_fn=reset))
    loader.seed(1)
    assert [list(loader), list(loader)] == [[1, 2, 3], [2, 3, 4]]
    loader.seed(1)
    assert list(loader) == [3, 4, 5]
    assert seeds[0] == seeds[2] != seeds[1]
    loader.shutdown()


def test_reset_fn_is_given_the_prefetch_and_comes_after_what_a_chain_hands_over() -> None:
    order: list[str] = []

    def handed_over(datapipe: Any) -> Any:
        order.append("handed over")
        return datapipe

    def reset(datapipe: Any, info: WorkerInfo, seed_generator: SeedGenerator) -> Any:
        order.append(repr(datapipe))
        return datapipe

    service = InProcessReadingService(prefetch_cnt=2, reset_fn=reset)
    prepare = service.initialize_iteration(SeedGenerator(0), handed_over)
    assert prepare is not None
    prepared = prepare(service.initialize(numbers(3)))
    assert list(prepared) == [0, 1, 2]
    assert order == ["handed over", "IterableWrapper(range(0, 3)).prefetch(buffer_size=2)"]
    assert InProcessReadingService().initialize_iteration(SeedGenerator(0), handed_over) is handed_over
    assert InProcessReadingService().initialize_iteration(SeedGenerator(0)) is None


def test_functions_that_return_no_graph_are_named() -> None:
    def forgot(*_: Any) -> Any:
        """Returns nothing."""

    for service in (InProcessReadingService(init_fn=forgot), InProcessReadingService(reset_fn=forgot)):
        loader = DataLoader2(numbers(), reading_service=service)
        with pytest.raises(
            BadArgumentType, match=r"forgot at test_in_process\.py:\d+ returned NoneType: None; it must"
        ):
            iter(loader)


def test_an_exception_of_init_fn_can_be_mended_and_iterating_tried_again() -> None:
    failing = [True]

    def init(datapipe: Any, _: WorkerInfo) -> Any:
        if failing:
            raise ConnectionError("not yet")
        return datapipe

    straight = DataLoader2(numbers(20).shuffle())
    loader = DataLoader2(numbers(20).shuffle(), reading_service=InProcessReadingService())
    assert loader.reading_service is not None
    loader.reading_service.init_fn = init  # type: ignore[attr-defined]  # the loader's copy is of this class
    for each in (straight, loader):
        each.seed(3)
    with pytest.raises(ConnectionError, match="not yet"):
        iter(loader)
    failing.clear()
    assert list(loader) == list(straight)
    loader.shutdown()


# -- prefetch ----------------------------------------------------------------------------------------------------------


def test_prefetch_makes_elements_ahead_in_a_thread() -> None:
    makers: list[str] = []
    third_is_made = threading.Event()

    def made(element: int) -> int:
        makers.append(threading.current_thread().name)
        if len(makers) == 3:
            third_is_made.set()
        return element

    with DataLoader2(numbers().map(made), reading_service=InProcessReadingService(prefetch_cnt=2)) as loader:
        iterator = iter(loader)
        assert next(iterator) == 0
        assert third_is_made.wait(300)
        assert list(iterator) == [1, 2, 3, 4, 5]
    assert set(makers) == {"prefetch"}


def test_a_negative_prefetch_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"InProcessReadingService\(prefetch_cnt=-1\): it must not be negative"):
        InProcessReadingService(prefetch_cnt=-1)


@pytest.mark.parametrize("prefetch_cnt", [0, 1, 50])
def test_resume_with_what_the_functions_have_added(prefetch_cnt: int) -> None:
    def init(datapipe: Any, _: WorkerInfo) -> Any:
        return datapipe.shuffle(buffer_size=3).batch(2)

    def make() -> DataLoader2[Any]:
        service = InProcessReadingService(prefetch_cnt, init_fn=init)
        return DataLoader2(numbers(11).shuffle().map(lambda x: -x), reading_service=service)

    loader = make()
    loader.seed(8)
    whole = list(loader)
    loader.seed(8)
    iterator = iter(loader)
    for position in range(len(whole) + 1):
        with make() as again:
            again.load_state_dict(loader.state_dict())
            assert list(again) == whole[position:]
        next(iterator, None)
    loader.shutdown()


def test_a_pipe_of_torch_can_be_made_ahead() -> None:
    graph: Any = TorchIterableWrapper(range(5))
    with DataLoader2(graph, reading_service=InProcessReadingService(prefetch_cnt=2)) as loader:
        assert list(loader) == [0, 1, 2, 3, 4]


# -- sharding and global generators ------------------------------------------------------------------------------------


def test_a_users_class_is_told_that_it_has_the_only_shard() -> None:
    def init(datapipe: Any, _: WorkerInfo) -> Any:
        assert datapipe.told == [(1, 0, SHARDING_PRIORITIES.MULTIPROCESSING)]
        return datapipe

    graph = Sharded(numbers())
    with DataLoader2(graph, reading_service=InProcessReadingService(init_fn=init)) as loader:
        assert [list(loader), list(loader)] == [list(range(6))] * 2


def test_the_global_generators_are_left_alone() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        expected = torch.rand(4).tolist()
        torch.manual_seed(1)
        loader = DataLoader2(numbers(2).map(lambda _: torch.rand(()).item()), reading_service=InProcessReadingService())
        loader.seed(7)
        assert [*loader, *loader] == expected
    loader.shutdown()
