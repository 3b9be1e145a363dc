"""A list, a range or another iterable in place of a pipe: read as IterableWrapper reads it, or refused."""

from __future__ import annotations

import inspect
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import datapipes.map as of_map
from datapipes import iter as of_iter
from datapipes.description.structure import _single_parents
from datapipes.errors import GraphError
from datapipes.iter import Batcher, FileOpener, Forker, IterableWrapper, IterDataPipe, Mapper
from datapipes.position.iterator import iterate
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService

rows = [{"a": [3, 1]}, {"a": [2]}, {"a": [1, 2, 3]}]
LISTS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "Mapper": (lambda given: of_iter.Mapper(given, str), [3, 1, 2]),
    "Collator": (lambda given: of_iter.Collator(given, len), [[3], [1, 2]]),
    "Filter": (lambda given: of_iter.Filter(given, bool), [3, 0, 2]),
    "FlatMapper": (of_iter.FlatMapper, [[3, 1], [2]]),
    "ShuffledFlatMapper": (of_iter.ShuffledFlatMapper, [[3, 1], [2]]),
    "BatchMapper": (lambda given: of_iter.BatchMapper(given, list, 2), [3, 1, 2]),
    "ThreadPoolMapper": (lambda given: of_iter.ThreadPoolMapper(given, str), [3, 1, 2]),
    "Batcher": (lambda given: of_iter.Batcher(given, 2), [3, 1, 2]),
    "UnBatcher": (of_iter.UnBatcher, [[3, 1], [2]]),
    "BucketBatcher": (lambda given: of_iter.BucketBatcher(given, 2), [3, 1, 2]),
    "MaxTokenBucketizer": (lambda given: of_iter.MaxTokenBucketizer(given, 4), ["aaa", "b", "cc"]),
    "Grouper": (lambda given: of_iter.Grouper(given, len), ["aa", "b", "cc"]),
    "Shuffler": (of_iter.Shuffler, [3, 1, 2]),
    "InBatchShuffler": (of_iter.InBatchShuffler, [[3, 1], [2]]),
    "ShardingFilter": (of_iter.ShardingFilter, [3, 1, 2]),
    "Enumerator": (of_iter.Enumerator, [3, 1, 2]),
    "Header": (lambda given: of_iter.Header(given, 2), [3, 1, 2]),
    "Cycler": (lambda given: of_iter.Cycler(given, 2), [3, 1, 2]),
    "Repeater": (lambda given: of_iter.Repeater(given, 2), [3, 1, 2]),
    "Prefetcher": (of_iter.Prefetcher, [3, 1, 2]),
    "LengthSetter": (lambda given: of_iter.LengthSetter(given, 3), [3, 1, 2]),
    "InMemoryCacheHolder": (of_iter.InMemoryCacheHolder, [3, 1, 2]),
    "IndexAdder": (of_iter.IndexAdder, rows),
    "Rows2Columnar": (of_iter.Rows2Columnar, [rows]),
    "Dropper": (lambda given: of_iter.Dropper(given, "b"), [{"a": 1, "b": 2}]),
    "Slicer": (lambda given: of_iter.Slicer(given, 0, 1), [(1, 2), (3, 4)]),
    "Flattener": (of_iter.Flattener, [(1, (2, 3))]),
    "ParagraphAggregator": (of_iter.ParagraphAggregator, [("f", "one"), ("f", "two"), ("g", "three")]),
    "Forker": (lambda given: of_iter.Forker(given, 2)[1], [3, 1, 2]),
    "Demultiplexer": (lambda given: of_iter.Demultiplexer(given, 2, bool)[1], [3, 0, 2]),
    "UnZipper": (lambda given: of_iter.UnZipper(given, 2)[1], [(1, 2), (3, 4)]),
}


@pytest.mark.parametrize(("stage", "elements"), LISTS.values(), ids=LISTS)
def test_a_list_is_read_as_it_is_in_a_wrapper(stage: Callable[[Any], Any], elements: list[Any]) -> None:
    ours, wrapped = stage(elements), stage(IterableWrapper(elements))
    loaders: list[DataLoader2[Any]] = [DataLoader2(pipe) for pipe in (ours, wrapped, pickle.loads(pickle.dumps(ours)))]
    before = repr(elements)
    given = []
    for loader in loaders:
        loader.seed(1)
        given.append([repr(element) for element in loader])
    assert given[0] == given[1] == given[2]
    assert repr(elements) == before
    assert repr(elements) in repr(ours)
    assert "IterableWrapper" not in repr(ours)
    state = (began := iterate(ours)).state_dict()
    resumed = iterate(wrapped)
    resumed.load_state_dict(state)
    assert list(map(repr, resumed)) == list(map(repr, began))


class Odd:
    """An iterable that starts anew each time."""

    def __iter__(self) -> Iterator[int]:
        return iter((1, 3))

    def __repr__(self) -> str:
        return "Odd()"


ITERABLES: list[tuple[Any, list[Any], str]] = [
    ((1, 3), [1, 3], "(1, 3)"),
    (range(2), [0, 1], "range(0, 2)"),
    ({4}, [4], "{4}"),
    (deque([1, 2]), [1, 2], "deque([1, 2])"),
    (torch.arange(2), [0, 1], "tensor([0, 1])"),
    (Odd(), [1, 3], "Odd()"),
]


@pytest.mark.parametrize(("given", "elements", "shown"), ITERABLES)
def test_other_iterables_are_read_each_time_anew(given: Any, elements: list[Any], shown: str) -> None:
    pipe: IterDataPipe[Any] = Mapper(given, int).batch(2)
    assert list(pipe) == list(pipe) == [elements[:2]]
    assert repr(pipe) == f"Mapper({shown}, int).batch(2)"
    assert repr(Mapper(fn=int, datapipe=given)) == f"Mapper({shown}, int)"


def test_elements_are_copies() -> None:
    data: Any = [[1], [2]]
    for element in Mapper(data, lambda element: element):
        element.append(0)
    assert data == [[1], [2]]


def test_children_print_the_list() -> None:
    given: Any = [1, 2]
    assert repr(Forker(given, 2)[1].map(str)) == "Forker([1, 2], 2)[1].map(str)"


def test_paths_in_a_list_are_opened(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    paths: Any = [str(tmp_path / "a.txt")]
    assert [stream.read() for _, stream in FileOpener(paths)] == ["one"]


def test_workers_share_a_list() -> None:
    given: Any = list(range(7))
    service = MultiProcessingReadingService(2)
    with DataLoader2[Any](Mapper(of_iter.ShardingFilter(given), str), reading_service=service) as loader:
        assert sorted(loader) == [str(number) for number in range(7)]


def test_a_list_is_a_collection_to_map_style_operators() -> None:
    given: Any = [3, 1, 2]
    pipe = of_map.Mapper(given, str)
    assert (pipe[1], len(pipe), list(pipe)) == ("1", 3, ["3", "1", "2"])
    assert list(of_map.Batcher(given, 2)) == [[3, 1], [2]]
    assert sorted(of_map.Shuffler(given)) == [1, 2, 3]
    assert repr(pipe) == "Mapper([3, 1, 2], fn=str)"


STAGES: list[Callable[[Any], Any]] = [
    *(lambda given: Mapper(given, str), lambda given: Batcher(given, 2), of_iter.ShardingFilter),
    *(of_iter.Prefetcher, lambda given: Forker(given, 2)[0]),
]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("given", ["text", b"bytes", {"a": 1}, iter([1]), 5, [IterableWrapper([1])]])
def test_what_is_more_likely_a_mistake_is_refused_with_the_remedy(stage: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(GraphError, match=rf"expects a pipe, got {type(given).__name__}.*IterableWrapper"):
        list(islice(DataLoader2[Any](stage(given)), 3))


@pytest.mark.parametrize("package", [of_iter, of_map])
def test_each_operator_of_one_pipe_takes_iterables(package: Any) -> None:
    classes = {name: getattr(package, name) for name in package.__all__}
    of_one = {name: cls for name, cls in classes.items() if isinstance(cls, type) and _single_parents(cls)}
    assert len(of_one) > 5
    for name, cls in of_one.items():
        by_itself = name == "ThreadPoolMapper" or "root" in inspect.signature(cls).parameters
        assert by_itself or inspect.unwrap(cls.__init__) is not cls.__init__, name  # type: ignore[misc]  # of a class
