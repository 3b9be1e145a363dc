"""Graphs that can never be opened are refused when the loader is made; a failing opening says where, however often."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from datapipes.errors import BadArgumentType, GraphError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from loader2.torch_arguments import INSTEAD
from tests.datapipes.position.written_for_torchdata import Generator, SaysWhereItIs


def numbers() -> IterDataPipe[int]:
    return IterableWrapper(range(4))


class Refuses(SaysWhereItIs):
    """Cannot be started."""

    def reset(self) -> None:
        raise ValueError("no start")


@pytest.mark.parametrize("again", [lambda pipe: pipe.cycle(2), lambda pipe: pipe.in_memory_cache()])
@pytest.mark.parametrize("reads", [lambda pipe: pipe, Generator])
def test_what_goes_back_beside_a_sibling_is_refused(again: Callable[[Any], Pipe], reads: Callable[[Any], Any]) -> None:
    a, b = numbers().fork(2)
    pipe = reads(again(a)).zip(b)
    with pytest.raises(GraphError, match="one child of a fork"):
        DataLoader2(pipe)
    with pytest.raises(GraphError, match="one child of a fork"):
        iter(pipe)


def test_an_opening_that_fails_fails_alike_again_and_names_the_stage() -> None:
    loader: DataLoader2[Any] = DataLoader2(Refuses(SaysWhereItIs(numbers()).shuffle()).map(str))
    iterator = iter(loader)
    attempts: list[Callable[[], Any]] = [lambda: next(iterator), lambda: next(iterator), loader.state_dict]
    for attempt in attempts:
        with pytest.raises(ValueError, match="no start") as error:
            attempt()
        (note,) = error.value.__notes__
        assert note.startswith("raised in stage Refuses(")


def test_arguments_of_torchs_loader_are_refused_with_what_has_their_place() -> None:
    graph: Any = IterableWrapper(range(3))
    torchs: Any = {"batch_size": 2, "shuffle": True, "num_workers": 4}
    with pytest.raises(
        BadArgumentType, match=r"put \.batch\(2\) into .*\.shuffle\(\).*MultiProcessingReadingService\(4\)"
    ):
        DataLoader2(graph, **torchs)
    taken = set(inspect.signature(torch.utils.data.DataLoader.__init__).parameters) - {"self", "dataset", "in_order"}
    assert set(INSTEAD) <= taken

    class Own(DataLoader2[int]):
        def __init__(self, graph: Any, num_workers: int) -> None:
            super().__init__(graph.header(num_workers))

    assert list(Own(graph, num_workers=2)) == [0, 1]
    assert list(pickle.loads(pickle.dumps(DataLoader2(graph)))) == [0, 1, 2]
