"""Plans: a session uses the plan of the session before it, unless the graph could give another one by now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from datapipes.description import structure
from datapipes.iter import IterableWrapper, IterDataPipe, SampleMultiplexer, ShardingFilter
from datapipes.map import SequenceWrapper
from datapipes.position.seeds import Run
from datapipes.position.session import Session, segment
from datapipes.rewriting import pushdown
from loader2 import DataLoader2
from tests.specimens.specimen import unseekable

RUN = Run(seed=3)


class Plain(IterDataPipe[int]):
    """A user's class."""

    def __init__(self, source: IterDataPipe[int]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[int]:
        yield from self.source


def graph(data: list[int]) -> Any:
    return IterableWrapper(data).shuffle().sharding_filter().map(abs).batch(2)


def forked() -> Any:
    one, other = IterableWrapper(range(9)).fork(2)
    return one.zip(other.map(str))


def is_used_again(pipe: Any, change: Callable[[], object] = int, run: Run = RUN) -> bool:
    """Return whether the second session on a pipe, changed in between, has the plan of the first one."""
    first = Session.of(pipe, RUN)
    list(segment(first))
    first.close()
    change()
    second = Session.of(pipe, run, None, first.plan)
    expected = Session.of(pipe, run)
    assert list(segment(second)) == list(segment(expected))
    for session in (second, expected):
        session.close()
    return second.plan is first.plan


@pytest.mark.parametrize("pipe", [graph([1, 2, 3, 4, 5]), forked(), IterableWrapper("abc").memory_cell(2)])
def test_a_graph_that_has_not_changed(pipe: Any) -> None:
    assert is_used_again(pipe)
    assert is_used_again(pipe, run=replace(RUN, seed=4, epoch=2))


def test_another_shard() -> None:
    assert not is_used_again(graph([1, 2, 3]), run=replace(RUN, shard=(2, 1)))
    assert not is_used_again(graph([1, 2, 3]), run=replace(RUN, buffered=True))


def test_a_saved_position_with_elements() -> None:
    pipe = unseekable(9).shuffle(buffer_size=5)
    session = Session.of(pipe, RUN)
    elements = segment(session)
    next(elements)
    saved, rest = session.table(), list(elements)
    resumed = Session.of(pipe, RUN, saved, session.plan)
    assert resumed.plan is not session.plan
    assert list(segment(resumed)) == rest


def test_a_parameter_an_input_or_a_shard_that_was_set() -> None:
    pipe = graph([1, 2, 3, 4, 5])
    assert not is_used_again(pipe, lambda: setattr(pipe, "batch_size", 3))
    assert not is_used_again(pipe, lambda: setattr(pipe, "datapipe", IterableWrapper([7, 8])))
    pipe = graph([1, 2, 3, 4, 5])
    (shards,) = [stage for stage in structure.walk(pipe) if isinstance(stage, ShardingFilter)]
    assert not is_used_again(pipe, lambda: shards.apply_sharding(2, 1))


def test_a_list_that_has_grown() -> None:
    data = [1, 2, 3]
    pipe = graph(data)
    assert not is_used_again(pipe, lambda: data.append(4))


@pytest.mark.parametrize(
    "pipe",
    [
        Plain(IterableWrapper(range(3))),
        IterableWrapper(range(3)).map(str).zip(Plain(IterableWrapper(range(3)))),
        SequenceWrapper([1, 2, 3]).to_iter_datapipe(),
        IterableWrapper(range(4))
        .mux(IterableWrapper(range(4, 8)))
        .sharding_filter()
        .to_map_datapipe(key_value_fn=lambda x: (x, x))
        .to_iter_datapipe([1, 2]),
    ],
)
def test_users_classes_and_map_style_pipes_are_planned_each_time(pipe: Any) -> None:
    assert not is_used_again(pipe)


def test_a_dict_of_inputs_is_planned_each_time() -> None:
    one, other = IterableWrapper(range(9)), IterableWrapper(range(9, 99))
    assert not is_used_again(SampleMultiplexer({one: 1.0, other: 2.0}))


def test_the_second_epoch_of_a_loader_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader2(graph(list(range(20))))
    loader.seed(1)
    first = list(loader)
    with monkeypatch.context() as patch:
        patch.setattr(structure, "unfolded", None)
        second = list(loader)
    assert sorted(map(sorted, second)) != sorted(map(sorted, first))
    again = DataLoader2(graph(list(range(20))))
    again.seed(1)
    assert [list(again), list(again)] == [first, second]


def test_a_shuffle_permutes_a_list_that_has_outgrown_its_buffer_between_two_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = list(range(10_000))
    loader = DataLoader2(IterableWrapper(data).shuffle())
    loader.seed(1)
    next(iter(loader))
    data.append(10_000)
    loader.seed(2)
    fresh = DataLoader2(IterableWrapper(data).shuffle())
    fresh.seed(2)
    assert list(loader) == list(fresh)
    assert pushdown.permuting(structure.unfold(fresh.datapipe), more_than=10_000) is not None


def test_an_epoch_behind_an_error_goes_on_with_the_plan() -> None:
    def once(x: int, fails: list[int] = [3]) -> int:  # noqa: B006  # it is to be changed
        if x in fails:
            fails.remove(x)
            raise OSError(x)
        return x

    loader = DataLoader2(IterableWrapper(range(6)).map(once).batch(1))
    elements = iter(loader)
    assert [next(elements) for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(OSError, match="3"):
        next(elements)
    assert list(elements) == [[4], [5]]
