"""Adapters change the loader's own copy of a graph, once, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from loader2.adapters import Adapter, CacheTimeout, Shuffle


class Cached(IterDataPipe[int]):
    """A pipe with a waiting time, like the caches on disk."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe = source_datapipe
        self.seconds = 300

    def set_timeout(self, timeout: int) -> None:
        self.seconds = timeout

    def __iter__(self) -> Iterator[int]:
        for element in self.source_datapipe:
            yield element + self.seconds


class Plus(Adapter):
    """Adds a number to each element."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, datapipe: Any) -> Any:
        return datapipe.map(lambda element: element + self.number)


def numbers(length: int = 20) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def doubled(datapipe: Any) -> Any:
    return datapipe.map(lambda element: 2 * element)


def nothing(datapipe: Any) -> None:
    """Forgets to return the graph."""


def test_none_one_or_several() -> None:
    assert list(DataLoader2(numbers(3), None)) == [0, 1, 2]
    assert list(DataLoader2(numbers(3), Plus(1))) == [1, 2, 3]
    assert list(DataLoader2(numbers(3), [Plus(1), doubled])) == [2, 4, 6]
    assert list(DataLoader2(numbers(3), (adapter for adapter in (doubled, Plus(1))))) == [1, 3, 5]


@pytest.mark.parametrize(("wrong", "named"), [(3, "int: 3"), ([doubled, "x"], "str: 'x'")])
def test_what_cannot_be_called_is_refused(wrong: Any, named: str) -> None:
    with pytest.raises(
        BadArgumentType, match=f"datapipe_adapter_fn must be callable, or several callables; got {named}"
    ):
        DataLoader2(numbers(), wrong)


def test_an_adapter_that_returns_no_graph_is_named() -> None:
    with pytest.raises(
        BadArgumentType, match=r"the adapter nothing at test_adapters\.py:\d+ returned NoneType: None; it"
    ):
        DataLoader2(numbers(), [doubled, nothing])


def test_an_adapter_runs_once_and_on_a_copy() -> None:
    given: list[Any] = []

    def remember(datapipe: Any) -> Any:
        given.append(datapipe)
        return datapipe.header(2)

    graph = numbers()
    loader = DataLoader2(graph, remember)
    assert [list(loader), list(loader)] == [[0, 1], [0, 1]]
    assert len(given) == 1
    assert given[0] is not graph
    assert list(graph) == list(range(20))


def test_adapters_are_not_applied_again_when_a_state_is_loaded() -> None:
    def make() -> DataLoader2[Any]:
        return DataLoader2(numbers(6), [Plus(1), lambda pipe: pipe.batch(2)])

    loader = make()
    iterator = iter(loader)
    assert next(iterator) == [1, 2]
    again = make()
    again.load_state_dict(loader.state_dict())
    assert [list(again), list(again)] == [[[3, 4], [5, 6]], [[1, 2], [3, 4], [5, 6]]]


def test_what_an_adapter_adds_changes_no_order() -> None:
    loaders = [DataLoader2(numbers().shuffle(), adapter) for adapter in (None, Plus(0))]
    for loader in loaders:
        loader.seed(3)
    assert list(loaders[0]) == list(loaders[1])


# -- Shuffle -----------------------------------------------------------------------------------------------------------


def test_shuffle_off_and_on() -> None:
    graph = numbers().shuffle().map(lambda x: x).shuffle()
    assert list(DataLoader2(graph, Shuffle(False))) == list(range(20))
    off = numbers().shuffle().set_shuffle(False)
    loader = DataLoader2(off, Shuffle())
    loader.seed(1)
    assert sorted(shuffled := list(loader)) == list(range(20))
    assert shuffled != list(range(20))
    assert list(off) == list(range(20))
    assert list(DataLoader2(off, Shuffle(None))) == list(range(20))


def test_shuffle_appends_a_shuffle_with_a_warning_where_there_is_none() -> None:
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`: adding one at the end"):
        loader = DataLoader2(numbers(), Shuffle(True))
    loader.seed(1)
    epochs = [list(loader), list(loader)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(20))] * 2
    assert epochs[0] != epochs[1] != list(range(20))
    assert list(DataLoader2(numbers(), Shuffle(False))) == list(range(20))


# -- CacheTimeout ------------------------------------------------------------------------------------------------------


def test_cache_timeout_tells_every_cache_of_the_copy() -> None:
    inner = Cached(numbers(2))
    graph = Cached(inner.map(lambda x: x))
    assert list(DataLoader2(graph, CacheTimeout(10))) == [20, 21]
    assert list(DataLoader2(graph)) == [600, 601]
    assert (inner.seconds, graph.seconds) == (300, 300)


@pytest.mark.parametrize("timeout", [None, -1, 1.5, True])
def test_cache_timeout_wants_seconds(timeout: Any) -> None:
    with pytest.raises(BadArgument, match=r"CacheTimeout\(timeout=.*\): timeout should be integer"):
        CacheTimeout(timeout)
    with pytest.raises(ValueError, match="timeout should be integer"):
        CacheTimeout()
