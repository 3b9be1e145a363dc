"""IPUReadingService gives the rows of the plain graph, in its order, regrouped; in any mode, behind any workers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.elements import encode
from datapipes.errors import StateError
from datapipes.graph import Pipe, walk
from datapipes.iter import Batcher, IterableWrapper
from datapipes.map import SequenceWrapper
from datapipes.position.plain_data import sealed
from loader2 import DataLoader2
from reading_services import ReadingServiceInterface, SequentialReadingService, ThreadingReadingService
from reading_services.ipu import (
    CommGroupType,
    DataLoaderMode,
    ICustomArgParser,
    IPUReadingService,
    Options,
    registerCustomArgParser,
)

SEED = 7


def options_of(iterations: int = 1, accumulation: int = 1, replicas: int = 1, group: int = 1) -> Options:
    options = Options().deviceIterations(iterations).replicationFactor(replicas)
    options.inputReplicaGrouping(group, CommGroupType.Consecutive)
    options.Training.gradientAccumulation(accumulation)
    return options


def loader_of(graph: Pipe, *services: ReadingServiceInterface) -> DataLoader2[Any]:
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=SequentialReadingService(*services))
    loader.seed(SEED)
    return loader


def rows_in(batches: list[torch.Tensor]) -> list[int]:
    return [int(row) for batch in batches for row in batch]


@settings(max_examples=150)
@given(data=st.data())
def test_rows_are_those_of_the_plain_graph_regrouped(data: st.DataObject) -> None:
    draw = data.draw
    mb, d, a, r = (draw(st.integers(1, most), name) for most, name in ((4, "mb"), (3, "D"), (2, "A"), (3, "R")))
    g, n = (
        draw(st.sampled_from([each for each in range(1, r + 1) if r % each == 0]), "G"),
        draw(st.integers(0, 60), "N"),
    )
    drop_last, graph_drops = draw(st.booleans(), "drop_last"), draw(st.booleans(), "the graph's batch drops")
    workers, ahead = draw(st.integers(0, 2), "workers"), draw(st.booleans(), "ahead")
    collated, gathered = draw(st.booleans(), "collated"), draw(st.booleans(), "gathered")

    rows = SequenceWrapper(torch.arange(n)).to_iter_datapipe() if gathered else IterableWrapper(range(n))
    graph = rows.shuffle().sharding_filter().batch(mb, drop_last=graph_drops)
    graph = graph.collate() if collated else graph
    front = [ThreadingReadingService(workers)] if workers else []

    with loader_of(graph, *front) as plain:
        micro_batches = list(plain)
    expected = [int(row) for micro_batch in micro_batches for row in micro_batch]
    combined = mb * d * (r // g) * a
    steps = [expected[at : at + combined] for at in range(0, len(expected), combined)]
    dropped = 0
    if drop_last and steps and len(steps[-1]) < combined:
        dropped = len(steps.pop())

    mode = DataLoaderMode.Async if ahead else DataLoaderMode.Sync
    with loader_of(graph, *front, IPUReadingService(options_of(d, a, r, g), mode, drop_last=drop_last)) as loader:
        length = len(loader)
        given_steps = list(loader)
        assert [step.tolist() for step in given_steps] == steps
        assert length == len(loader) == len(steps)
        assert loader.reading_service.reading_services[-1].dropped == dropped  # type: ignore[union-attr]  # a chain


def graph_of_pairs(rows: int) -> Pipe:
    """Batches that lie in a nested structure, of 2 rows."""
    return IterableWrapper(range(rows)).shuffle().sharding_filter().map(pair).batch(2).collate()


def pair(number: int) -> dict[str, Any]:
    return {"x": torch.full((3,), number), "more": (float(number), f"row {number}")}


@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_is_resumed_at_every_step(mode: DataLoaderMode, workers: int) -> None:
    def services() -> Iterator[ReadingServiceInterface]:
        if workers:
            yield ThreadingReadingService(workers)
        yield IPUReadingService(options_of(iterations=3), mode, drop_last=False)

    graph = graph_of_pairs(23)
    with loader_of(graph, *services()) as whole:
        expected = [shown(step) for step in whole]
        following = [shown(step) for step in whole]
    assert len(expected) == 4
    for taken in range(len(expected) + 1):
        with loader_of(graph, *services()) as first:
            assert [shown(step) for step in islice(first, taken)] == expected[:taken]
            state = first.state_dict()
        with loader_of(graph, *services()) as second:
            second.load_state_dict(state)
            if taken:
                assert [shown(step) for step in second] == expected[taken:]
            assert [shown(step) for step in second] == (following if taken else expected)


def shown(step: Any) -> Any:
    x, (numbers, texts) = step["x"], step["more"]
    assert x[:, 0].tolist() == numbers.tolist() == [float(text.removeprefix("row ")) for text in texts]
    return numbers.tolist()


def test_each_epoch_follows_from_its_seed() -> None:
    graph = IterableWrapper(range(24)).shuffle().sharding_filter().batch(2).collate()
    with loader_of(graph, IPUReadingService(options_of(2), DataLoaderMode.Async)) as loader:
        epochs = []
        for seed in (0, 1, 0):
            loader.seed(seed)
            epochs.append(rows_in(list(loader)))
    assert epochs[0] == epochs[2] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(24))


def test_rows_are_read_and_collated_at_once_where_torchs_collate_ends_the_graph() -> None:
    graph = IterableWrapper(range(24)).batch(2).collate()
    planned = IPUReadingService(options_of(4)).planned(graph)
    assert [stage.batch_size for stage in walk(planned) if isinstance(stage, Batcher)] == [8]
    own = IterableWrapper(range(24)).batch(2).collate(torch.tensor)
    planned = IPUReadingService(options_of(4)).planned(own)
    assert [stage.batch_size for stage in walk(planned) if isinstance(stage, Batcher)] == [2]
    assert [stage.batch_size for stage in walk(graph) if isinstance(stage, Batcher)] == [2]


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Graphs:
    """Nodes, which a parser tells of."""

    def __init__(self, nodes: torch.Tensor, name: str) -> None:
        self.nodes, self.name = nodes, name


class GraphsParser(ICustomArgParser):
    def yieldTensors(self, struct: Graphs) -> Iterator[torch.Tensor]:
        yield struct.nodes

    def reconstruct(self, original_structure: Graphs, tensor_iterator: Iterator[torch.Tensor]) -> Graphs:
        return Graphs(next(tensor_iterator), original_structure.name)


def test_structures_and_custom_types_are_joined_leaf_by_leaf() -> None:
    registerCustomArgParser(Graphs, GraphsParser())
    try:
        batches = [
            [Point(torch.tensor([i, i]), torch.tensor([-i, -i])), Graphs(torch.tensor([[i], [i]]), "named")]
            for i in range(5)
        ]
        with loader_of(IterableWrapper(batches), IPUReadingService(options_of(2), drop_last=False)) as loader:
            steps = list(loader)
    finally:
        registerCustomArgParser(Graphs, None)
    assert [step[0].x.tolist() for step in steps] == [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4]]
    assert [(-step[0].y).tolist() for step in steps] == [step[0].x.tolist() for step in steps]
    assert [step[1].nodes.flatten().tolist() for step in steps] == [step[0].x.tolist() for step in steps]
    assert {type(step[0]) for step in steps} == {Point}
    assert {step[1].name for step in steps} == {"named"}


@pytest.mark.parametrize("wrapper", [None, list])
def test_lists_of_rows_are_collated(wrapper: Any) -> None:
    pairs = IterableWrapper(range(8)).map(torch.tensor).zip(IterableWrapper(range(8)))
    graph = pairs.batch(2) if wrapper is None else pairs.batch(2, wrapper_class=wrapper)
    for front in ([], [ThreadingReadingService(1)]):
        with loader_of(graph, *front, IPUReadingService(options_of(2))) as loader:
            assert [[column.tolist() for column in step] for step in loader] == [[[0, 1, 2, 3]] * 2, [[4, 5, 6, 7]] * 2]


def test_batches_of_any_size_are_regrouped_by_the_size_of_the_first_or_by_what_is_said() -> None:
    batches = [torch.arange(at, to) for at, to in ((0, 2), (2, 7), (7, 8), (8, 9), (9, 12))]
    for micro_batch, sizes in ((None, [4, 4, 4]), (3, [6, 6])):
        service = IPUReadingService(options_of(2), micro_batch=micro_batch)
        with loader_of(IterableWrapper(batches), service) as loader:
            steps = list(loader)
        assert list(map(len, steps)) == sizes
        assert rows_in(steps) == list(range(12))


def test_what_waits_in_the_middle_of_ragged_batches_is_in_the_state() -> None:
    batches = [torch.arange(at, at + 3) for at in range(0, 30, 3)]
    graph = IterableWrapper(batches)
    expected = [list(range(at, at + 4)) for at in range(0, 28, 4)]
    for taken in range(1, 8):
        with loader_of(graph, IPUReadingService(options_of(2), micro_batch=2)) as first:
            assert [step.tolist() for step in islice(first, taken)] == expected[:taken]
            state = first.state_dict()
        with loader_of(graph, IPUReadingService(options_of(2), micro_batch=2)) as second:
            second.load_state_dict(state)
            assert [step.tolist() for step in second] == expected[taken:]
            assert second.reading_service.reading_services[0].dropped == 2  # type: ignore[union-attr]  # a chain


def test_after_an_error_the_rows_that_were_read_are_not_lost() -> None:
    def odd(number: int) -> torch.Tensor:
        if number == 3:
            raise ValueError("three")
        return torch.tensor(number)

    for graph in (
        IterableWrapper(range(9)).map(odd).batch(2).collate(),
        IterableWrapper(range(9)).map(odd).batch(2).collate(torch.stack),
    ):
        with loader_of(graph, IPUReadingService(options_of(2))) as loader:
            it = iter(loader)
            with pytest.raises(ValueError, match="three"):
                next(it)
            assert list(chain.from_iterable(step.tolist() for step in it)) == [0, 1, 2, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "damage",
    [{"size": -1}, {"given": None}, {"waiting": encode([1], what="a test")}, {"waiting": b"no elements"}, {"more": 1}],
)
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    def loader() -> DataLoader2[Any]:
        return loader_of(IterableWrapper([torch.arange(3)] * 4), IPUReadingService(options_of(2), micro_batch=1))

    with loader() as first:
        next(iter(first))
        state = first.state_dict()
    (cell,) = (each for each in state["cells"].values() if isinstance(each, dict) and "waiting" in each)
    cell.update(damage)
    with loader() as second, pytest.raises(StateError):
        second.load_state_dict(sealed(state))
