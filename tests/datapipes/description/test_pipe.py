"""Every pipe is a dataset of torch's, a value with methods, printed by hooks if they are set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import ChainDataset, Dataset, IterableDataset
from torch.utils.data import IterDataPipe as TorchIterDataPipe

from datapipes.description.structure import is_native
from datapipes.iter import IterableWrapper, IterDataPipe, Mapper
from datapipes.map import MapDataPipe, SequenceWrapper
from loader2 import DataLoader2


class Countdown(IterDataPipe[int]):
    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        yield from range(self.start, 0, -1)


class Empty(IterDataPipe[Any]):
    """Has no ``__iter__`` and no ``__next__``."""


class Squares(MapDataPipe[int]):
    def __getitem__(self, key: int) -> int:
        if key >= 3:
            raise IndexError(key)
        return key * key


def test_pipes_are_datasets_of_torch() -> None:
    assert isinstance(IterableWrapper([1]), IterableDataset)
    assert isinstance(SequenceWrapper([1]), Dataset)
    assert not isinstance(IterableWrapper([1]), TorchIterDataPipe)


def test_streams_are_added_as_iterable_datasets_are() -> None:
    both: Any = IterableWrapper([1, 2]) + Countdown(2)
    assert isinstance(both, ChainDataset)
    assert list(both) == [1, 2, 2, 1]
    assert len(IterableWrapper([1, 2]) + IterableWrapper([3])) == 3


def test_a_stream_has_no_elements_by_key() -> None:
    with pytest.raises(NotImplementedError):
        IterableWrapper([1])[0]


def test_types_can_be_written() -> None:
    class Words(IterDataPipe["tuple[str, int]"]):
        def __iter__(self) -> Iterator[tuple[str, int]]:
            yield "a", 1

    assert list(Words()) == [("a", 1)]
    assert MapDataPipe[int].__origin__ is MapDataPipe  # type: ignore[attr-defined]  # of a subscripted class


@pytest.mark.parametrize("pipe", [IterDataPipe(), Empty()], ids=["bare", "empty"])
def test_a_pipe_without_iter_says_what_to_write(pipe: IterDataPipe[Any]) -> None:
    message = f"{type(pipe).__name__} cannot be iterated: write an __iter__"
    with pytest.raises(TypeError, match=message):
        iter(pipe)
    with pytest.raises(TypeError, match=message):
        list(pipe.map(str))
    with pytest.raises(TypeError, match=message):
        next(iter(DataLoader2(pipe)))


def test_a_map_style_pipe_without_getitem_says_so() -> None:
    with pytest.raises(NotImplementedError, match="MapDataPipe has no __getitem__"):
        MapDataPipe()[0]
    assert list(Squares()) == [0, 1, 4]


def test_pipes_compare_by_identity() -> None:
    one, two = IterableWrapper([1]), IterableWrapper([1])
    assert one != two
    assert len({one, two, one}) == 2


def test_a_pipe_can_be_iterated_again_and_twice_at_once() -> None:
    pipe = Countdown(3).map(str)
    first = iter(pipe)
    assert next(first) == "3"
    assert list(pipe) == ["3", "2", "1"]
    assert list(first) == ["2", "1"]
    assert list(zip(Countdown(2), Countdown(2), strict=True)) == [(2, 2), (1, 1)]


def test_methods_are_real_methods() -> None:
    assert Countdown(2).map.__doc__ == Mapper.__doc__
    assert repr(IterDataPipe.map) != repr(MapDataPipe.map)
    assert isinstance(IterDataPipe.map(Countdown(2), str), Mapper)


@pytest.fixture
def hooks_are_taken_away() -> Iterator[None]:
    yield
    for base in (IterDataPipe, MapDataPipe):
        base.str_hook = base.repr_hook = None


@pytest.mark.usefixtures("hooks_are_taken_away")
def test_hooks_replace_the_prints_and_are_given_the_pipe_once() -> None:
    pipe = Countdown(3)
    IterDataPipe.str_hook = lambda pipe: f"a countdown from {pipe.start}"
    assert str(pipe) == "a countdown from 3"
    assert repr(pipe) == "Countdown(3)"
    IterDataPipe.repr_hook = lambda pipe: f"<{pipe.start}>"
    assert repr(pipe) == "<3>"
    IterDataPipe.str_hook = None
    assert str(pipe) == "<3>"
    assert str(SequenceWrapper("a")) == "SequenceWrapper('a')"


def test_what_is_an_operator_is_known() -> None:
    class Derived(Mapper[Any]):
        pass

    class DerivedWithIter(Mapper[Any]):
        def __iter__(self) -> Iterator[Any]:
            return super().__iter__()

    assert is_native(Derived(Countdown(2), str))
    assert not is_native(DerivedWithIter(Countdown(2), str))
    assert not is_native(Countdown(2))
    assert list(Derived(Countdown(2), str)) == list(DerivedWithIter(Countdown(2), str)) == ["2", "1"]
