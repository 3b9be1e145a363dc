"""A graph of pipes as a node of torchdata's: the protocol that nodes keep, and state at each element."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any

import pytest
import torch
from torchdata import nodes

from datapipes.errors import BadArgumentType, StateError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, NodeWrapper
from loader2 import DataLoader2
from loader2.nodes import PipeNode
from reading_services import MultiProcessingReadingService, ThreadingReadingService


def shuffled(length: int) -> Pipe:
    return IterableWrapper(range(length)).shuffle().sharding_filter().map(str)


def node(length: int = 7, **options: Any) -> PipeNode[Any]:
    return PipeNode(shuffled(length), seed=3, **options)


def mixed(node: Any) -> Any:
    sources = {"a": node(4), "b": node(5)}
    return nodes.MultiNodeWeightedSampler(sources, {"a": 1.0, "b": 1.0}, stop_criteria="ALL_DATASETS_EXHAUSTED", seed=1)


SHAPES: dict[str, Callable[[Any], Any]] = {
    "alone": lambda node: node(),
    "empty": lambda node: node(0),
    "in batches": lambda node: nodes.Batcher(node(), 3, drop_last=False),
    "prefetched": lambda node: nodes.Prefetcher(node(), 2, snapshot_frequency=2),
    "by threads": lambda node: nodes.ParallelMapper(node(), int, num_workers=2),
    "mixed": mixed,
    "with threads": lambda node: node(reading_service=ThreadingReadingService(2)),
    "taken back": lambda node: PipeNode(NodeWrapper(lambda epoch: node()).batch(2)),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_loader_of_theirs_goes_on_at_each_element(shape: Callable[[Any], Any]) -> None:
    with ExitStack() as closing:

        def made(*args: Any, **options: Any) -> PipeNode[Any]:
            one = node(*args, **options)
            closing.callback(one.shutdown)
            return one

        loader: Any = nodes.Loader(shape(made))
        states, at, given = [pickle.dumps(loader.state_dict())], [0], list[Any]()
        for _ in range(2):
            for element in loader:
                given.append(element)
                states.append(pickle.dumps(loader.state_dict()))
                at.append(len(given))
            states.append(pickle.dumps(loader.state_dict()))
            at.append(len(given))
        whole = given + list(loader)
        assert len(whole) == 3 * at[len(at) // 2 - 1]
        for state, taken in zip(states, at, strict=True):
            again: Any = nodes.Loader(shape(made))
            again.load_state_dict(pickle.loads(state))
            rest = list(chain(again, again, again))
            assert rest[: len(whole) - taken] == whole[taken:], taken


def test_epochs_are_those_of_a_loader() -> None:
    loader: DataLoader2[Any] = DataLoader2(shuffled(9))
    loader.seed(3)
    epochs = [list(loader) for _ in range(3)]
    of_node: Any = nodes.Loader(node(9))
    assert [list(of_node) for _ in range(3)] == epochs
    assert epochs[0] != epochs[1]
    torch.manual_seed(0)
    drawn: Any = nodes.Loader(PipeNode(shuffled(9)))
    assert list(drawn) != list(drawn)


def test_what_nodes_promise() -> None:
    one = node(3)
    assert next(one) in "012", "the first next() begins an epoch"
    one.reset()
    assert sorted(one) == ["0", "1", "2"], "and reset() another one"
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(one)
    state = one.state_dict()
    other = node(3)
    other.reset(state)
    with pytest.raises(StopIteration):
        next(other)
    other.reset()
    one.reset()
    assert list(other) == list(one)


def test_workers_end_with_the_node() -> None:
    one: PipeNode[Any] = PipeNode(shuffled(8), MultiProcessingReadingService(2, "fork"), seed=1)
    first = list(islice(one, 3))
    state = one.state_dict()
    rest = list(one)
    assert sorted(first + rest) == sorted(map(str, range(8)))
    one.reset(state)
    assert list(one) == rest
    one.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        one.reset()


def test_an_error_is_one_element() -> None:
    def fn(x: int) -> int:
        if x == 2:
            raise ValueError("bad")
        return x

    one: PipeNode[Any] = PipeNode(IterableWrapper(range(4)).map(fn))
    assert list(islice(one, 2)) == [0, 1]
    with pytest.raises(ValueError, match="bad"):
        next(one)
    assert list(one) == [3]


@pytest.mark.parametrize("state", [{}, {"loader": {}, "is_over": False}, {"_num_yielded": 3}])
def test_a_state_of_something_else_is_refused(state: Any) -> None:
    with pytest.raises(StateError):
        node().reset(state)


def test_what_is_no_graph_is_refused_at_once() -> None:
    with pytest.raises(BadArgumentType, match="loads an IterDataPipe or a MapDataPipe"):
        PipeNode([1, 2])
