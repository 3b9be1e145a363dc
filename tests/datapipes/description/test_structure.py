"""Graphs are found in attributes and walked in loops: whatever holds a pipe, and however deep or wide the graph is."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch.utils.data.datapipes.iter as torch_pipes

from datapipes.description import structure
from datapipes.description.structure import Pipe, is_pipe, occurrences, place_of, unfold, with_parents
from datapipes.errors import GraphError
from datapipes.graph import parents, rewrite, to_mermaid, to_text, traverse_dps, walk
from datapipes.iter import Batcher, IterableWrapper, IterDataPipe, Mapper, Zipper
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2


class Pair(NamedTuple):
    left: Any
    right: Any


class Holder(IterDataPipe[Any]):
    """Holds what it is given under the names it is given."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def __iter__(self) -> Iterator[Any]:
        for parent in parents(self):
            yield from parent


@dataclass(slots=True)
class Slotted(IterDataPipe[Any]):
    source: IterDataPipe[Any]
    others: list[IterDataPipe[Any]]
    number: int = 0

    def __iter__(self) -> Iterator[Any]:
        yield from self.source
        for other in self.others:
            yield from other


@dataclass
class ByValue(IterDataPipe[Any]):
    """A dataclass compares by value, and so has no hash."""

    source: IterDataPipe[Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("nobody may pickle this")


def source(number: int = 3) -> IterDataPipe[int]:
    return IterableWrapper(range(number))


def chain_of(length: int) -> IterDataPipe[Any]:
    pipe: IterDataPipe[Any] = source()
    for _ in range(length):
        pipe = pipe.map(abs)
    return pipe


def diamonds(depth: int) -> IterDataPipe[Any]:
    pipe: IterDataPipe[Any] = source()
    for _ in range(depth):
        left, right = pipe.fork(2)
        pipe = left.zip(right)
    return pipe


A, B, C = source(1), source(2), source(3)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"x": A, "y": B}, [A, B]),
        ({"y": B, "x": A, "again": B}, [B, A]),
        ({"x": [A, [B, (C,)]]}, [A, B, C]),
        ({"x": (A, "text", B)}, [A, B]),
        ({"x": {A}, "y": frozenset([B])}, [A, B]),
        ({"x": {"key": A, B: "value"}}, [B, A]),
        ({"x": Pair(A, {"deep": [B]})}, [A, B]),
        ({"x": deque([A]), "y": OrderedDict(b=B)}, [A, B]),
        ({"x": [Unpicklable(), lambda: None, A]}, [A]),
        ({"x": [list(range(5000)), A]}, [A]),
        ({"x": lambda: A, "y": Unpicklable(), "z": "text"}, []),
    ],
)
def test_parents_are_found_in_attributes_and_collections(held: dict[str, Any], expected: list[Pipe]) -> None:
    pipe = Holder(**held)
    found = parents(pipe)
    assert [id(parent) for parent in found] == [id(parent) for parent in expected]
    assert walk(pipe) == [*expected, pipe]


def test_each_occurrence_counts_for_a_stage_that_reads_twice() -> None:
    pipe = Zipper(A, B, A)
    assert list(occurrences(pipe)) == [A, B, A]
    assert parents(pipe) == [A, B]


def test_elements_are_not_searched_for_pipes() -> None:
    assert parents(IterableWrapper([A, B])) == []
    assert parents(SequenceWrapper({"a": A}, deepcopy=False)) == []


def test_a_long_list_is_data() -> None:
    class Watched(list[int]):
        looked_at = 0

        def __iter__(self) -> Iterator[int]:
            for item in super().__iter__():
                self.looked_at += 1
                yield item

    names = Watched(range(100_000))
    assert parents(Holder(names=names)) == []
    assert names.looked_at <= 1001
    many = [source(1) for _ in range(3000)]
    assert parents(Holder(many=many)) == many


def test_slots_hold_pipes_as_attributes_do() -> None:
    pipe = Slotted(A, [B])
    assert parents(pipe) == [A, B]
    copy = with_parents(pipe, lambda parent: C)
    assert (copy.source, copy.others, copy.number) == (C, [C], 0)
    assert (pipe.source, pipe.others) == (A, [B])
    assert list(DataLoader2(pipe)) == list(pipe) == [0, 0, 1]


def test_pipes_that_compare_by_value_are_told_apart() -> None:
    pipe = Zipper(ByValue(A), ByValue(A))
    assert len(walk(pipe)) == 4
    assert list(pipe) == [(0, 0)]


def test_only_pipes_have_a_graph() -> None:
    assert is_pipe(A)
    assert is_pipe(torch_pipes.IterableWrapper([1]))
    assert not is_pipe([A])
    with pytest.raises(GraphError, match="Expected `IterDataPipe` or `MapDataPipe`, got list"):
        walk([A])


def test_walk_gives_parents_first_and_each_stage_once() -> None:
    shared = A.map(abs)
    pipe = shared.zip(B, shared)
    assert walk(pipe) == [A, shared, B, pipe]
    assert walk(shared, B, pipe, A) == [A, shared, B, pipe]
    assert walk() == []


@pytest.mark.parametrize(
    "held",
    [
        lambda old: [old, 1],
        lambda old: (old, 1),
        lambda old: {old},
        lambda old: frozenset([old]),
        lambda old: {old: old, "x": 1},
        lambda old: Pair(old, 1),
        lambda old: deque([old, 1], maxlen=7),
        lambda old: OrderedDict(x=old, y=1),
        lambda old: [[{"x": (old,)}]],
    ],
)
def test_a_copy_with_other_parents_keeps_the_kind_of_each_collection(held: Callable[[Pipe], Any]) -> None:
    pipe: Any = Holder(x=held(A), y=7)
    before = held(A)
    copy = with_parents(pipe, lambda parent: B)
    assert type(copy.x) is type(before)
    assert copy.x == held(B)
    assert getattr(copy.x, "maxlen", None) == getattr(before, "maxlen", None)
    assert pipe.x == before
    assert copy.y == 7


def test_rewrite_shares_what_did_not_change_and_leaves_the_old_graph_alone() -> None:
    left, right = A.batch(2), B.map(abs)
    old = left.zip(right).header(3)
    before = repr(old)
    new = rewrite(old, lambda stage: stage.datapipe.batch(5) if isinstance(stage, Batcher) else stage)
    assert repr(new) == repr(A.batch(5).zip(right).header(3))
    assert repr(old) == before
    assert parents(parents(new)[0])[1] is right
    assert rewrite(old, lambda stage: stage) is old


def test_a_rule_sees_each_stage_once_with_its_parents_rewritten() -> None:
    seen: list[Pipe] = []

    def rule(stage: Pipe) -> Pipe:
        seen.append(stage)
        return stage.map(abs) if stage is A else stage

    shared = A.batch(2)
    new = rewrite(shared.zip(shared), rule)
    assert [type(stage) for stage in seen] == [IterableWrapper, Batcher, Zipper]
    assert isinstance(seen[1].datapipe, Mapper)
    assert parents(new) == [seen[1]]


def test_unfolding_gives_each_reader_a_position_of_its_own() -> None:
    shared = A.shuffle()
    end = unfold(shared.zip(shared.map(abs)))
    stages = walk(end)
    assert len(stages) == 6
    assert sorted(place_of(stage) for stage in stages) == list(range(6))
    assert "_place" not in vars(shared)
    again = unfold(end)
    assert [place_of(stage) for stage in walk(again)] == [place_of(stage) for stage in stages]


def test_unfolding_keeps_what_is_shared_on_purpose() -> None:
    left, right = A.fork(2)
    assert len(walk(unfold(left.zip(right.map(abs))))) == 6
    letters = SequenceWrapper("abc")
    assert len(walk(unfold(letters.to_iter_datapipe().zip(letters.shuffle())))) == 4


def test_what_is_read_twice_gets_a_hub_for_each_reader() -> None:
    left, right = source(4).fork(2)
    both = left.zip(right)
    assert list(both.zip(both)) == [((i, i), (i, i)) for i in range(4)]
    assert list(left.zip(left, right)) == [(i, i, i) for i in range(4)]


def test_an_attribute_named_main_datapipe_makes_no_hub() -> None:
    first, second = Holder(main_datapipe=A), Holder(main_datapipe=A)
    assert len(walk(unfold(first.zip(second)))) == 5
    assert structure.hub_of(first) is None


def test_a_stage_that_is_its_own_source_is_refused() -> None:
    pipe: Any = Holder(source=A)
    pipe.source = pipe.map(abs)
    assert len(walk(pipe)) == 2
    assert len(traverse_dps(pipe)) == 1
    for use in (iter, DataLoader2, lambda end: rewrite(end, lambda stage: stage)):
        with pytest.raises(GraphError, match="one of its stages is above itself"):
            use(pipe)


def test_diamonds_of_forks_are_walked_and_opened_in_linear_time() -> None:
    pipe = diamonds(30)
    assert len(walk(pipe)) == 1 + 30 * 4
    assert len(walk(unfold(pipe))) == 1 + 30 * 4
    assert len(repr(pipe)) < 10_000
    assert len(list(iter(pipe))) == len(list(iter(DataLoader2(pipe)))) == 3
    assert len(to_text(pipe).splitlines()) < 200


def test_diamonds_of_plain_pipes_are_walked_and_refused_when_opened() -> None:
    pipe: IterDataPipe[Any] = source()
    for _ in range(30):
        pipe = pipe.zip(pipe)
    assert len(walk(pipe)) == 31
    assert len(to_text(pipe).splitlines()) < 100
    for use in (iter, DataLoader2):
        with pytest.raises(GraphError, match=r"has 2147483647 positions .*fork\(\)"):
            use(pipe)


def test_a_small_diamond_of_plain_pipes_opens() -> None:
    pipe: IterDataPipe[Any] = source(1)
    for _ in range(10):
        pipe = pipe.zip(pipe)
    (element,) = list(pipe)
    for _ in range(10):
        assert element[0] == element[1]
        element = element[0]
    assert element == 0


def test_a_chain_of_ten_thousand_stages() -> None:
    pipe = chain_of(10_000)
    assert len(walk(pipe)) == 10_001
    assert len(repr(pipe)) < 2000
    assert len(to_text(pipe)) < 1_000_000
    assert len(to_mermaid(pipe)) < 1_000_000
    assert rewrite(pipe, lambda stage: stage) is pipe
    assert list(DataLoader2(pipe)) == list(pipe) == [0, 1, 2]
