"""Services of other people: what they were promised by torchdata 0.9 holds, down to the order of the calls."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import Any, ClassVar

import pytest

from datapipes.iter import Batcher, IterableWrapper, IterDataPipe, Mapper, Shuffler
from loader2 import DataLoader2
from loader2.graph import find_dps, replace_dp, set_graph_random_seed, traverse_dps
from loader2.random import SeedGenerator
from reading_services import ReadingServiceInterface


class Plugin(ReadingServiceInterface):
    """As users wrote them for torchdata 0.9: it puts a map in front of each batch, and prepares every epoch."""

    calls: ClassVar[list[str]] = []  # of the class, so that the loader's copy writes here too

    def __init__(self, add: int = 100) -> None:
        self.add = add

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        self.calls.append("initialize")
        graph = traverse_dps(datapipe)
        for batcher in find_dps(graph, Batcher):
            graph = replace_dp(graph, batcher.datapipe, Mapper(batcher.datapipe, self.added))
        end: IterDataPipe[Any] = next(iter(graph.values()))[0]
        return end

    def added(self, element: int) -> int:
        return element + self.add

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any] | None:
        self.calls.append("initialize_iteration")
        assert iter_reset_fn is None

        def seeded(datapipe: Any) -> Any:
            return set_graph_random_seed(datapipe, seed_generator)

        return seeded

    def finalize_iteration(self) -> None:
        self.calls.append("finalize_iteration")

    def finalize(self) -> None:
        self.calls.append("finalize")


@pytest.fixture(autouse=True)
def calls() -> list[str]:
    Plugin.calls.clear()
    return Plugin.calls


def graph() -> IterDataPipe[Any]:
    return IterableWrapper(range(12)).shuffle(buffer_size=5).sharding_filter().batch(3)


# -- written for torchdata ---------------------------------------------------------------------------------------------


def test_the_calls_come_in_the_order_that_torchdata_had(calls: list[str]) -> None:
    loader = DataLoader2(graph(), reading_service=Plugin())
    assert calls == []
    list(loader)
    list(loader)
    stale = iter(loader)
    next(stale)
    newer = iter(loader)
    with pytest.raises(RuntimeError, match="iterator has been invalidated"):
        next(stale)
    loader.shutdown()
    expected = ["initialize", "initialize_iteration", "finalize_iteration"]
    expected += ["initialize_iteration", "finalize_iteration", "initialize_iteration", "initialize_iteration"]
    expected += ["finalize_iteration", "finalize_iteration", "finalize"]
    assert calls == expected
    loader.shutdown()
    with pytest.raises(RuntimeError, match="already been shut down"):
        next(newer)
    del loader, newer, stale
    assert calls == expected


def test_the_graph_is_the_one_that_the_plugin_made() -> None:
    described = graph()
    with DataLoader2(described, reading_service=Plugin()) as loader:
        loader.seed(1)
        epochs = [list(loader), list(loader)]
        assert find_dps(traverse_dps(loader.datapipe), Mapper) != []
    assert [sorted(chain.from_iterable(epoch)) for epoch in epochs] == [list(range(100, 112))] * 2
    assert epochs[0] != epochs[1]
    assert find_dps(traverse_dps(described), Mapper) == []
    assert [shuffler._seed for shuffler in find_dps(traverse_dps(described), Shuffler)] == [None]


def test_seeds_that_a_plugin_sets_follow_from_the_loaders_seed() -> None:
    def epochs(seed: int) -> list[Any]:
        with DataLoader2(graph(), reading_service=Plugin()) as loader:
            loader.seed(seed)
            return [list(loader), list(loader), list(loader)]

    assert epochs(4) == epochs(4)
    first, second, third = epochs(4)
    assert first != second != third != first
    assert epochs(5)[0] != first


@pytest.mark.parametrize("taken", range(5))
def test_resume_with_a_plugin(taken: int) -> None:
    loader = DataLoader2(graph(), reading_service=Plugin())
    loader.seed(4)
    list(loader)
    iterator = iter(loader)
    list(islice(iterator, taken))
    again = DataLoader2.from_state(loader.state_dict(), Plugin(), datapipe=graph())
    assert [list(again), list(again)] == [list(iterator), list(loader)]
    for each in (loader, again):
        each.shutdown()


class OneArgument(Plugin):
    """Used alone, a service may leave out what only chains pass."""

    def initialize_iteration(self, seed_generator: SeedGenerator) -> None:  # type: ignore[override]  # as users wrote it
        self.calls.append(f"initialize_iteration with a {type(seed_generator).__name__}")


class Bare(ReadingServiceInterface):
    """Only what must be written."""

    def initialize(self, datapipe: Any) -> Any:
        return datapipe.header(2)


def test_what_is_not_needed_may_be_left_out(calls: list[str]) -> None:
    with DataLoader2(graph(), reading_service=OneArgument()) as loader:
        assert len(list(loader)) == 4
    assert "initialize_iteration with a SeedGenerator" in calls
    with DataLoader2(graph(), reading_service=Bare()) as bare:
        assert [len(list(bare)), len(list(bare))] == [2, 2]
    with pytest.raises(TypeError, match="abstract"):
        ReadingServiceInterface()  # type: ignore[abstract]  # the mistake under test


def test_what_initialize_iteration_returns_is_applied_every_epoch_to_what_it_gave_before() -> None:
    class Growing(Bare):
        def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> Any:
            return lambda datapipe: datapipe.map(lambda x: x + 1)

    loader = DataLoader2(IterableWrapper([0, 0, 0]), reading_service=Growing())
    assert [list(loader), list(loader), list(loader)] == [[1, 1], [2, 2], [3, 3]]
    loader.shutdown()


# -- beginning and end -------------------------------------------------------------------------------------------------


def test_a_service_that_was_never_initialized_is_not_finalized(calls: list[str]) -> None:
    with DataLoader2(graph(), reading_service=Plugin()):
        pass
    assert calls == []


def test_deletion_finalizes(calls: list[str]) -> None:
    loader = DataLoader2(graph(), reading_service=Plugin())
    iterator = iter(loader)
    next(iterator)
    del loader
    assert "finalize" not in calls
    next(iterator)
    del iterator
    assert calls[-2:] == ["finalize_iteration", "finalize"]


def test_an_exception_in_an_epoch_finalizes_nothing(calls: list[str]) -> None:
    with DataLoader2(IterableWrapper([1, 0, 2]).map(lambda x: 2 // x), reading_service=Plugin()) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(ZeroDivisionError):
            next(iterator)
        assert calls == ["initialize", "initialize_iteration"]
        assert list(iterator) == [1]
    assert calls[2:] == ["finalize_iteration", "finalize_iteration", "finalize"]


class Halfway(Plugin):
    """Fails after it has begun."""

    def initialize(self, datapipe: Any) -> Any:
        self.calls.append("begun")
        raise ConnectionError("no worker answers")

    def finalize(self) -> None:
        self.calls.append("finalize")
        self.never_set.close()  # type: ignore[attr-defined]  # that is the point


def test_a_service_that_failed_to_initialize_is_finalized_and_may_lack_what_it_asks_for(calls: list[str]) -> None:
    loader = DataLoader2(graph(), reading_service=Halfway())
    with pytest.raises(ConnectionError, match="no worker answers"):
        iter(loader)
    loader.shutdown()
    assert calls == ["begun", "finalize_iteration", "finalize"]


class Careless(Plugin):
    """Its finalize() has a bug."""

    def finalize_iteration(self) -> None:
        raise OSError("cannot end the epoch")

    def finalize(self) -> None:
        self.calls.append("finalize")
        self.never_set.close()  # type: ignore[attr-defined]  # that is the bug


def test_errors_at_the_end_reach_the_user_and_finalize_is_called_all_the_same(calls: list[str]) -> None:
    loader = DataLoader2(graph(), reading_service=Careless())
    next(iter(loader))
    with pytest.raises(AttributeError, match="never_set"):
        loader.shutdown()
    assert calls[-1] == "finalize"
    loader.shutdown()
