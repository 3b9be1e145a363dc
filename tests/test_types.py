"""What a user's type checker sees: the checker of this repository reads this file, and the tests run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import numpy
import torch
from torch.utils.data import Dataset

from datapipes import iterate
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.iterator import PipeIterator
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2
from loader2.iteration import DataLoader2Iterator
from reading_services import MultiProcessingReadingService


class Squares(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index * index


def test_whatever_has_a_length_and_elements_can_be_wrapped() -> None:
    of_tensor = SequenceWrapper(torch.zeros(3, 2))
    assert_type(of_tensor, SequenceWrapper[torch.Tensor])
    of_dataset = SequenceWrapper(Squares())
    assert_type(of_dataset, SequenceWrapper[int])
    of_array = SequenceWrapper(numpy.zeros(3))
    assert_type(SequenceWrapper([1, 2]), SequenceWrapper[int])
    assert_type(SequenceWrapper({"a": 1.0}), SequenceWrapper[float])
    assert_type(of_tensor.to_iter_datapipe(), IterDataPipe[torch.Tensor])
    assert (len(of_tensor), len(of_dataset), len(of_array)) == (3, 4, 3)
    for row in DataLoader2(of_tensor):
        assert_type(row, torch.Tensor)


class Countdown(IterDataPipe[int]):
    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        yield from range(self.start, 0, -1)


def test_an_iterator_can_say_where_it_is() -> None:
    for pipe in (IterableWrapper([3, 2, 1]), Countdown(3)):
        numbers = iterate(pipe)
        assert_type(numbers, PipeIterator[int])
        assert next(numbers) == 3
        again = iterate(pipe)
        again.load_state_dict(numbers.state_dict())
        assert (list(again), again.errors) == ([2, 1], {})
    assert_type(iter(Countdown(3)), Iterator[int])


def test_a_loader_gives_what_its_graph_gives() -> None:
    service = MultiProcessingReadingService(2, "fork")
    loader = DataLoader2(Countdown(3).sharding_filter(), reading_service=service)
    with loader:
        numbers = iter(loader)
        assert_type(numbers, DataLoader2Iterator[int])
        assert_type(next(numbers), int)
        assert_type(loader.state_dict(), dict[str, Any])
        assert_type(loader.errors, dict[str, int])
