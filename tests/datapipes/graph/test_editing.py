"""torchdata's functions that find and replace stages: their results, and that they change what they are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch.utils.data.datapipes.iter as torch_pipes

from datapipes.errors import GraphError
from datapipes.graph import (
    Pipe,
    find_dps,
    get_all_graph_pipes,
    list_dps,
    parents,
    remove_dp,
    replace_dp,
    to_text,
    traverse,
    traverse_dps,
    walk,
)
from datapipes.iter import Batcher, Collator, IterableWrapper, IterDataPipe, Mapper, Shuffler
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2, graph


class Merged(IterDataPipe[Any]):
    """Reads sources that it holds in several attributes, of several kinds."""

    def __init__(self, main: Pipe, others: list[Pipe], named: dict[str, Pipe], pair: tuple[Pipe, int]) -> None:
        self.main = main
        self.others = others
        self.named = named
        self.pair = pair

    def __iter__(self) -> Iterator[Any]:
        for source in (self.main, *self.others, *self.named.values(), self.pair[0]):
            yield from source


class MyShuffler(Shuffler[Any]):
    """Derived from an operator."""


def numbers(length: int = 4) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def negated(source: Pipe) -> Pipe:
    return source.map(int.__neg__)


def end_of(traversed: Any) -> Pipe:
    ((end, _),) = traversed.values()
    return end


def test_a_traversed_graph_is_a_dict_of_dicts() -> None:
    source = numbers()
    batched = source.batch(2)
    pipe = batched.zip(source)
    inner: dict[int, Any] = {id(source): (source, {})}
    assert traverse_dps(pipe) == {id(pipe): (pipe, {id(batched): (batched, inner), **inner})}


def test_only_pipes_are_traversed() -> None:
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe` or `MapDataPipe`, got int"):
        traverse_dps(3)


def test_the_old_name_warns() -> None:
    pipe = numbers().batch(2)
    with pytest.warns(FutureWarning, match="traverse_dps"):
        assert traverse(pipe, only_datapipe=True) == traverse_dps(pipe)


def test_traversing_looks_into_no_element_and_calls_nothing() -> None:
    class Watched(list[int]):
        def __reduce__(self) -> Any:
            raise TypeError("nobody may pickle this")

        def __deepcopy__(self, memo: object) -> Any:
            raise TypeError("nobody may copy this")

    pipe = IterableWrapper(Watched(range(10))).map(lambda x: x).shuffle()
    assert [type(stage) for stage in list_dps(traverse_dps(pipe))] == [Shuffler, Mapper, IterableWrapper]


def test_list_dps_is_breadth_first_from_the_end() -> None:
    source = numbers()
    left, right = source.batch(2), source.map(abs)
    far = right.map(str)
    pipe = left.zip(far)
    assert list_dps(traverse_dps(pipe)) == [pipe, left, far, source, right]


def test_excluded_stages_go_with_all_that_is_above_them() -> None:
    source = numbers()
    left, right = source.batch(2), source.map(abs)
    pipe = left.zip(right)
    traversed = traverse_dps(pipe)
    assert list_dps(traversed, exclude_dps=left) == [pipe, right]
    assert list_dps(traversed, exclude_dps=[left, right]) == [pipe]
    assert list_dps(traversed, exclude_dps=[]) == list_dps(traversed)
    assert list_dps(traversed, exclude_dps=numbers().header(0)) == list_dps(traversed)


def test_find_dps_is_depth_first_and_finds_subclasses() -> None:
    first = numbers().batch(2)
    collated = first.collate()
    mapped = numbers().map(abs)
    shuffled = MyShuffler(mapped)
    traversed = traverse_dps(collated.zip(shuffled))
    assert find_dps(traversed, Mapper) == [collated, mapped]
    assert find_dps(traversed, Collator) == [collated]
    assert find_dps(traversed, Shuffler) == [shuffled]
    assert find_dps(traversed, Batcher) == [first]
    assert find_dps(traversed, SequenceWrapper) == []


def test_each_stage_is_found_once() -> None:
    shared = numbers().map(abs)
    pipe = shared.zip(shared.batch(2), shared)
    assert find_dps(traverse_dps(pipe), Mapper) == [shared]
    assert get_all_graph_pipes(traverse_dps(pipe)) == [pipe, shared, *parents(shared), parents(pipe)[1]]


def test_every_attribute_that_holds_a_stage_is_replaced() -> None:
    old, other = numbers(2), numbers(1)
    pipe = Merged(old, [other, old], {"a": old}, (old, 7))
    new = negated(numbers(2))
    traversed = replace_dp(traverse_dps(pipe), old, new)
    assert end_of(traversed) is pipe
    assert pipe.main is pipe.others[1] is pipe.named["a"] is pipe.pair[0] is new
    assert (pipe.others[0], pipe.pair[1]) == (other, 7)
    assert list(pipe) == [0, -1, 0, 0, -1, 0, -1, 0, -1]


def test_every_consumer_reads_the_new_stage() -> None:
    old = numbers()
    pipe = old.batch(4).zip(old.map(str).batch(4))
    replace_dp(traverse_dps(pipe), old, numbers(3))
    assert list(pipe) == [([0, 1, 2], ["0", "1", "2"])]


def test_the_new_stage_may_read_the_old_one() -> None:
    old = numbers()
    pipe = old.batch(2)
    assert end_of(replace_dp(traverse_dps(pipe), old, negated(old))) is pipe
    assert list(pipe) == [[0, -1], [-2, -3]]
    assert list(old) == [0, 1, 2, 3]


def test_the_end_may_be_replaced_by_a_stage_that_reads_it() -> None:
    old = numbers()
    new = negated(old)
    traversed = replace_dp(traverse_dps(old), old, new)
    assert end_of(traversed) is new
    assert traversed == traverse_dps(new)
    assert list(new) == [0, -1, -2, -3]


def test_a_stage_of_the_graph_may_be_part_of_the_new_one() -> None:
    old = numbers()
    doubled = old.map(abs)
    pipe = doubled.zip(old)
    replace_dp(traverse_dps(pipe), old, doubled.header(2))
    assert list(pipe) == [(0, 0), (1, 1)]
    assert walk(pipe)[:2] == [old, doubled]


def test_replacing_what_is_not_there_changes_nothing() -> None:
    pipe = numbers().batch(2)
    before = repr(pipe)
    assert replace_dp(traverse_dps(pipe), numbers(), numbers(1)) == traverse_dps(pipe)
    assert repr(pipe) == before


def test_replacing_needs_a_graph_with_one_end() -> None:
    one, two = numbers(), numbers()
    with pytest.raises(AssertionError, match=r"has 2; pass what traverse_dps\(\) returned"):
        replace_dp({**traverse_dps(one), **traverse_dps(two)}, one, two)


def test_a_stage_is_removed_wherever_it_is_read() -> None:
    shuffled = numbers().shuffle()
    pipe = shuffled.batch(2).zip(shuffled)
    traversed = remove_dp(traverse_dps(pipe), shuffled)
    assert find_dps(traversed, Shuffler) == []
    assert list(pipe) == [([0, 1], 0), ([2, 3], 1)]


def test_removing_the_end_leaves_its_input() -> None:
    source = numbers()
    pipe = source.shuffle()
    assert remove_dp(traverse_dps(pipe), pipe) == traverse_dps(source)


def test_what_has_not_one_input_cannot_be_removed() -> None:
    source = numbers()
    pipe = source.zip(numbers()).map(len)
    traversed = traverse_dps(pipe)
    with pytest.raises(RuntimeError, match="Cannot remove the source DataPipe IterableWrapper"):
        remove_dp(traversed, source)
    with pytest.raises(RuntimeError, match="multiple sending DataPipes"):
        remove_dp(traversed, parents(pipe)[0])


def test_one_of_several_streams_of_a_stage_cannot_be_removed() -> None:
    left, right = numbers().fork(2)
    pipe = left.zip(right)
    for stage in (left, parents(left)[0]):
        with pytest.raises(GraphError, match="one of several streams"):
            remove_dp(traverse_dps(pipe), stage)
    replace_dp(traverse_dps(pipe), right, numbers(2))
    assert list(pipe) == [(0, 0), (1, 1)]


def test_torch_pipes_and_map_style_pipes_are_edited_alike() -> None:
    source: Any = torch_pipes.IterableWrapper([1, 2])
    mapped: Any = torch_pipes.Mapper(source, str)
    pipe = Mapper(mapped, int)
    remove_dp(traverse_dps(pipe), mapped)
    assert parents(pipe) == [source]
    letters = SequenceWrapper("ab")
    collection = letters.map(str.upper).batch(2)
    replace_dp(traverse_dps(collection), letters, SequenceWrapper("xyz"))
    assert list(collection) == [["X", "Y"], ["Z"]]


def test_the_loader_has_a_graph_of_its_own() -> None:
    pipe = numbers().shuffle().batch(2)
    loader: DataLoader2[Any] = DataLoader2(pipe)
    remove_dp(traverse_dps(loader.datapipe), find_dps(traverse_dps(loader.datapipe), Shuffler)[0])
    assert list(loader) == [[0, 1], [2, 3]]
    assert ".shuffle()" in to_text(pipe)


def test_the_old_module_has_the_same_functions() -> None:
    assert graph.traverse_dps is traverse_dps
    assert set(graph.__all__) >= {"find_dps", "list_dps", "remove_dp", "replace_dp", "set_graph_random_seed"}


def test_ten_thousand_stages_are_listed_found_and_replaced() -> None:
    source = numbers()
    pipe: IterDataPipe[Any] = source
    for _ in range(10_000):
        pipe = pipe.map(abs)
    traversed = traverse_dps(pipe)
    stages = list_dps(traversed)
    assert len(stages) == len(get_all_graph_pipes(traversed)) == 10_001
    assert list_dps(traversed, exclude_dps=stages[5000:]) == stages[:5000]
    assert find_dps(traversed, IterableWrapper) == [source]
    replaced = replace_dp(traversed, source, numbers(2))
    assert list(end_of(replaced)) == [0, 1]


@pytest.mark.parametrize("pipe", [numbers(), SequenceWrapper([1]), torch_pipes.IterableWrapper([1])])
def test_the_names_for_annotations(pipe: Pipe) -> None:
    assert isinstance(pipe, graph.DataPipe)
    assert issubclass(type(pipe), graph.DataPipe)
    assert not isinstance([1], graph.DataPipe)
    traversed: graph.DataPipeGraph = traverse_dps(pipe)
    assert end_of(traversed) is pipe
