"""Classes that were written for torchdata or torch work unchanged: alone, in a graph, in a loader, resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
import torch.utils.data.datapipes.iter as torch_pipes

from datapipes.graph import Pipe, walk
from datapipes.iter import Concater, IterableWrapper, IterDataPipe, Mapper, Shuffler, Zipper
from loader2 import DataLoader2
from tests.datapipes.position.written_for_torchdata import (
    SHAPES,
    Buffered,
    Generator,
    InPairs,
    InPairsOfText,
    ItsOwnIterator,
    Noisy,
    OfTorch,
    OnlyNext,
    SaysWhereItIs,
    SeveralSources,
    Twice,
)

shapes = pytest.mark.parametrize("shape", SHAPES)


def numbers(length: int = 6) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def portrait(pipe: Pipe) -> list[Any]:
    """Attributes of the stages of a graph, but for torch's own bookkeeping on the pipes that torch iterates."""
    return [
        {name: repr(value) for name, value in vars(stage).items() if not name.startswith("_")} for stage in walk(pipe)
    ]


@shapes
def test_in_a_loader_over_two_epochs(shape: Callable[[Pipe], Pipe]) -> None:
    pipe = shape(numbers(5).shuffle())
    loader: DataLoader2[int] = DataLoader2(pipe)
    loader.seed(3)
    epochs = [list(loader), list(loader)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(5))
    plain: DataLoader2[int] = DataLoader2(numbers(5).shuffle())
    plain.seed(3)
    assert [list(plain), list(plain)] == epochs


def test_reset_is_called_at_the_start_of_each_iteration_and_never_on_the_users_object() -> None:
    pipe = OnlyNext(numbers(3))
    assert list(pipe) == list(pipe) == [0, 1, 2]
    assert "elements" not in vars(pipe)
    both = SeveralSources(Buffered(numbers(4)), Buffered(numbers(4)))
    assert list(both) == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert list(Twice(Buffered(numbers(5)))) == [((0, 1), 2), ((2, 3), 2)]
    assert list(Twice(OnlyNext(numbers(2)))) == [(0, 2), (1, 2)]


def test_the_attributes_that_a_class_sets_are_the_iterations_own() -> None:
    pipe = Buffered(numbers(5))
    abandoned = iter(pipe)
    next(abandoned)
    first, second = iter(pipe), iter(pipe)
    assert [next(first), next(second), next(first), next(second)] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert list(pipe) == list(pipe.map(tuple)) == list(DataLoader2(pipe)) == [(0, 1), (2, 3)]
    assert vars(pipe)["buffer"] == []


def test_what_an_attribute_refers_to_is_shared() -> None:
    class Telling(Generator):
        """A class that records its calls in a list that the test reads."""

        def __init__(self, source_datapipe: Pipe, told: list[str]) -> None:
            super().__init__(source_datapipe)
            self.told = told

        def __iter__(self) -> Iterator[Any]:
            self.told.append("begins")
            yield from self.source_datapipe
            self.told.append("ends")

    told: list[str] = []
    pipe = Telling(numbers(2), told)
    assert list(pipe) == list(pipe.map(abs)) == list(DataLoader2(pipe)) == [0, 1]
    assert told == ["begins", "ends"] * 3


def test_a_cache_stays() -> None:
    class Cached(Generator):
        """Keeps what it has computed in a dict, over epochs."""

        def __init__(self, source_datapipe: Pipe) -> None:
            super().__init__(source_datapipe)
            self.cache: dict[int, list[int]] = {}

        def __iter__(self) -> Iterator[Any]:
            for element in self.source_datapipe:
                yield self.cache.setdefault(element, [element])

    pipe = Cached(numbers(2))
    loader: DataLoader2[Any] = DataLoader2(pipe)
    first, second = list(loader), list(loader)
    assert first == [[0], [1]]
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_the_source_is_what_it_was() -> None:
    class Curious(Generator):
        """Looks at its source before it reads it."""

        def __iter__(self) -> Iterator[Any]:
            source = self.source_datapipe
            yield len(self), len(source), isinstance(source, Shuffler), source.buffer_size
            yield type(source.datapipe).__name__, source.datapipe.iterable
            yield sorted(source)

    source = numbers(3).shuffle(buffer_size=9)
    expected = [(3, 3, True, 9), ("IterableWrapper", range(3)), [0, 1, 2]]
    pipe = Curious(source)
    assert list(pipe) == list(pipe.map(tuple).map(_as_it_was)) == list(DataLoader2(pipe)) == expected
    assert len(pipe) == len(DataLoader2(pipe)) == 3


def _as_it_was(element: tuple[Any, ...]) -> Any:
    return list(element) if element == (0, 1, 2) else element


def test_the_source_of_a_class_that_says_where_it_is_is_what_it_was() -> None:
    class Curious(SaysWhereItIs):
        def __iter__(self) -> Iterator[Any]:
            source = self.source_datapipe
            yield len(source), isinstance(source, Shuffler), isinstance(source, IterDataPipe), source.buffer_size
            yield sorted(source)

    pipe = Curious(numbers(3).shuffle(buffer_size=9))
    assert list(pipe) == list(DataLoader2(pipe)) == [(3, True, True, 9), [0, 1, 2]]


def test_several_sources_and_one_that_is_read_twice_draw_alike() -> None:
    shuffled = numbers(9).shuffle()
    loader: DataLoader2[Any] = DataLoader2(SeveralSources(shuffled, numbers(9), shuffled))
    elements = list(loader)
    assert elements[1::3] == list(range(9))
    assert elements[0::3] == elements[2::3]
    again = list(Twice(numbers(9).shuffle()))
    assert sorted(again) == [(i, 9) for i in range(9)]


def test_a_class_may_be_derived_from_an_operator_and_call_its_iter() -> None:
    pipe = InPairs(numbers(5))
    texts = InPairsOfText(numbers(5).shuffle().map(abs))
    assert list(pipe) == list(pipe) == list(DataLoader2(pipe)) == [(0, 1), (2, 3), (4,)]
    assert list(pipe.map(len)) == [2, 2, 1]
    assert list(InPairsOfText(numbers(3))) == list(Generator(InPairsOfText(numbers(3)))) == ["0+1", "2"]
    assert sorted("+".join(texts).split("+")) == list("01234")
    iterator: Any = iter(texts)
    next(iterator)
    again: Any = iter(texts)
    again.load_state_dict(iterator.state_dict())
    assert list(again) == list(iterator)


def test_iter_may_come_from_a_mixin_or_be_decorated() -> None:
    class Mixin:
        source_datapipe: Any

        def __iter__(self) -> Iterator[Any]:
            yield from self.source_datapipe

    class Mixed(Mixin, Buffered):
        """Its ``__iter__`` comes from a class that is no pipe."""

    class Inherits(Noisy):
        """Inherits ``__iter__`` unchanged."""

    class CallsSuper(Noisy):
        def __iter__(self) -> Iterator[Any]:
            for element, _ in super().__iter__():
                yield element

    assert list(Mixed(numbers(3))) == [0, 1, 2]
    assert "state_dict" in dir(iter(Mixed(numbers(3))))
    assert [element for element, _ in Inherits(numbers(3))] == list(CallsSuper(numbers(3))) == [0, 1, 2]
    assert Noisy.__iter__.__doc__ is None
    assert Noisy.__iter__.__name__ == "__iter__"


def test_a_deep_graph_of_users_classes() -> None:
    pipe: IterDataPipe[Any] = numbers(3)
    for _ in range(20):
        pipe = ItsOwnIterator(Generator(pipe).map(abs).shuffle(buffer_size=1))
    assert list(pipe) == list(DataLoader2(pipe)) == [0, 1, 2]


torch_iter: Any = torch_pipes  # typed for sources of torch's own only


TORCH_GRAPHS: dict[str, Callable[[], Any]] = {
    "map": lambda: torch_iter.Mapper(numbers(), abs),
    "batch": lambda: torch_iter.Batcher(numbers(), 2),
    "shuffle": lambda: torch_iter.Shuffler(numbers().shuffle(), buffer_size=3),
    "sharding": lambda: torch_iter.ShardingFilter(numbers()),
    "sources of its own": lambda: torch_iter.IterableWrapper(range(6)).batch(2).unbatch().filter(bool),
    "forked": lambda: Zipper(*torch_iter.Forker(numbers(), 2)),
    "demultiplexed": lambda: Zipper(*torch_iter.Demultiplexer(numbers(), 2, abs(1).__and__)),
}


@pytest.mark.parametrize("build", TORCH_GRAPHS.values(), ids=TORCH_GRAPHS.keys())
def test_torchs_own_pipes_in_the_middle_of_a_graph(build: Callable[[], Any]) -> None:
    def loader() -> DataLoader2[str]:
        made: DataLoader2[str] = DataLoader2(Mapper(build(), repr).batch(1).shuffle(buffer_size=2).unbatch())
        made.seed(2)
        return made

    pipe = Mapper(build(), repr)
    before = portrait(pipe)
    once = sorted(pipe)
    assert len(once) > 1
    assert sorted(pipe) == once
    assert len(list(Zipper(pipe, pipe))) == len(once)
    first = loader()
    whole, following = list(first), list(first)
    assert sorted(whole) == sorted(following) == once
    assert list(loader()) == whole
    stopped, resumed = loader(), loader()
    assert list(islice(stopped, 2)) == whole[:2]
    resumed.load_state_dict(stopped.state_dict())
    assert [list(resumed), list(resumed)] == [whole[2:], following]
    assert portrait(pipe) == before


@pytest.mark.parametrize("hub", ["fork", "demux"])
def test_a_childs_own_iterator_leaves_torchs_hub_as_it_was(hub: str) -> None:
    classify = (abs(1).__and__,) if hub == "demux" else ()
    first, second = getattr(OfTorch(numbers(6)), hub)(2, *classify)
    expected = [1, 3, 5, 0, 2, 4] if hub == "demux" else [*range(6), *range(6)]
    peek = iter(first)
    begun = next(peek)
    assert list(Concater(second, first)) == expected
    assert [begun, *peek] == (expected[3:] if hub == "demux" else expected[6:])
    left = iter(Concater(first, second))
    next(left)
    left.close()  # type: ignore[attr-defined]  # it is a PipeIterator
    assert list(Concater(second, first)) == expected


def test_a_generator_that_torchs_base_class_has_wrapped_is_run_again_after_an_error() -> None:
    class ReturnsOne(OfTorch):
        def __iter__(self) -> Iterator[Any]:
            return (divmod(6, element) for element in self.source_datapipe)

    iterator = iter(DataLoader2[Any](torch_iter.Mapper(ReturnsOne(IterableWrapper([3, 0, 2])), tuple)))
    assert next(iterator) == (2, 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            next(iterator)


def test_torchs_default_generator_decides_the_order_without_a_loader() -> None:
    pipe = Noisy(numbers(9).shuffle())
    drawn = []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            drawn.append([list(pipe), list(pipe.map(tuple))])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]
