"""A service may return any iterable in place of a graph; it is limited, saved and resumed as a graph is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import ReadingServiceInterface


def graph() -> IterDataPipe[Any]:
    return IterableWrapper(range(12)).batch(3)


class Socket:
    """An iterator that is no pipe, and has something to tell."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements = iter(elements)
        self.received = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        element = next(self.elements)
        self.received += 1
        return element

    def delay(self, by: int) -> str:
        return f"{by} ms after {self.received}"


class Remote:
    """An iterable that a service gives in place of a graph."""

    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def __iter__(self) -> Iterator[Any]:
        return Socket(range(7))


class Elsewhere(ReadingServiceInterface):
    def initialize(self, datapipe: Any) -> Any:
        return Remote(datapipe)


def test_any_iterable_will_do_and_its_iterator_is_reached_through_the_loaders() -> None:
    loader = DataLoader2(graph(), reading_service=Elsewhere())
    for _ in range(2):
        iterator = iter(loader)
        assert (next(iterator), next(iterator)) == (0, 1)
        assert iterator.received == 2
        assert iterator.delay(by=5) == "5 ms after 2"
        with pytest.raises(AttributeError, match="'Socket' object has no attribute 'absent'"):
            iterator.absent  # noqa: B018 - looking it up is what fails
        assert not hasattr(iterator, "_private")
        iterator.limit(2)
        assert list(iterator) == [2, 3]
        assert iterator.delay(1) == "1 ms after 4"
        iterator.limit(None)
        iterator.resume()
        assert list(iterator) == [4, 5, 6]
    with pytest.raises(TypeError, match="length of this DataLoader2 is not known beforehand"):
        len(loader)
    assert "Remote" in repr(loader)
    loader.shutdown()


def test_what_is_no_graph_is_resumed_by_passing_over_what_was_given() -> None:
    loader = DataLoader2(graph(), reading_service=Elsewhere())
    list(islice(iter(loader), 3))
    again = DataLoader2.from_state(loader.state_dict(), Elsewhere(), datapipe=graph())
    iterator = iter(again)
    assert (next(iterator), iterator.received) == (3, 4)
    assert list(iterator) == [4, 5, 6]
    assert list(again) == list(range(7))
    for each in (loader, again):
        each.shutdown()


def test_a_service_that_returns_nothing_is_named() -> None:
    class Forgetful(ReadingServiceInterface):
        def initialize(self, datapipe: Any) -> Any:
            datapipe.batch(2)

    loader = DataLoader2(graph(), reading_service=Forgetful())
    with pytest.raises(
        BadArgumentType, match="Forgetful must return the graph to iterate, or an iterable; it returned N"
    ):
        iter(loader)
