"""NodeWrapper: nodes of torchdata's as sources; the laws are tried on its specimens."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from torchdata import nodes

from datapipes import iterate
from datapipes.errors import BadArgumentType, StateError
from datapipes.iter import NodeWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.datapipes.iter.mishaps import failing_at, outcomes


def of(make: Any) -> Any:
    return NodeWrapper(make)


def rows(epoch: int) -> Any:
    return nodes.IterableWrapper(range(10 * epoch, 10 * epoch + 6))


def test_each_epoch_has_a_node_of_its_own() -> None:
    loader: DataLoader2[int] = DataLoader2(NodeWrapper(rows))
    assert [list(loader) for _ in range(2)] == [[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]]
    first, second = iter(of(rows)), iter(of(rows))
    assert [next(first), next(first), next(second)] == [0, 1, 0]


def test_in_workers() -> None:
    graph = of(lambda epoch: nodes.Batcher(rows(epoch), 2)).sharding_filter()
    with DataLoader2(graph, reading_service=MultiProcessingReadingService(2, "fork")) as loader:
        assert list(loader) == [[0, 1], [2, 3], [4, 5]]


def test_a_state_is_the_nodes_own() -> None:
    made: list[Any] = []

    def make(epoch: int) -> Any:
        made.append(nodes.IterableWrapper(range(9)))
        return made[-1]

    it = iterate(of(make))
    for _ in range(4):
        next(it)
    again = iterate(of(make))
    again.load_state_dict(it.state_dict())
    assert made[-1].state_dict() == {"_num_yielded": 4}
    assert list(again) == [4, 5, 6, 7, 8]


def test_threads_end_with_the_iteration() -> None:
    before = set(threading.enumerate())
    it = iterate(of(lambda epoch: nodes.Prefetcher(nodes.IterableWrapper(range(99)), 2)))
    assert next(it) == 0
    assert set(threading.enumerate()) - before
    it.close()
    assert not set(threading.enumerate()) - before


def test_errors_are_numbered() -> None:
    dp = of(lambda epoch: nodes.Mapper(nodes.IterableWrapper(range(4)), failing_at(2)))
    assert outcomes(dp) == [0, 1, "ValueError: 2 is bad", 3]
    it = iterate(dp)
    assert [next(it), next(it)] == [0, 1]
    with pytest.raises(ValueError, match="2 is bad") as raised:
        next(it)
    assert any("after it had given 2 elements" in note for note in raised.value.__notes__)


def test_what_is_no_node_is_refused() -> None:
    with pytest.raises(BadArgumentType, match="a function of the number of the epoch that returns a node"):
        NodeWrapper(rows(0))
    with pytest.raises(BadArgumentType, match=r"lambda at .* returned list: \[1\]; it must return a node"):
        list(of(lambda epoch: [1]))
    with pytest.raises(TypeError, match="NodeWrapper instance doesn't have valid length"):
        len(NodeWrapper(rows))


def test_a_state_that_the_node_does_not_take_is_refused() -> None:
    it = iterate(of(rows))
    next(it)
    other = iterate(of(lambda epoch: nodes.Prefetcher(rows(epoch), 2)))
    with pytest.raises(StateError, match="its node refuses the saved position: KeyError: 'snapshot'"):
        other.load_state_dict(it.state_dict())
