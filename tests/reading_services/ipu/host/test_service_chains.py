"""IPUReadingService in a chain: ranks, workers, processes of a launcher; what it refuses; and what it feeds."""

from __future__ import annotations

import copy
import logging
from itertools import chain
from typing import Any

import pytest
import torch

from datapipes.errors import BadArgument, BadArgumentType, GraphError
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import (
    DistributedReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)
from reading_services.ipu import CostModel, DataLoaderMode, IPUReadingService, Options, trainingModel, verdict
from reading_services.ipu.simulator.verdict.judging import runs_ahead, workers_of
from tests.many_ranks import on_ranks
from tests.reading_services.ranked import Ranked

Async = DataLoaderMode.Async


def options_of(iterations: int, processes: int = 1, process: int = 0) -> Options:
    options = Options().deviceIterations(iterations)
    options.Distributed.configureProcessId(process, processes)
    return options


def numbers(count: int, rows: int = 2) -> Pipe:
    return IterableWrapper(range(count)).shuffle().sharding_filter().map(torch.tensor).batch(rows).collate()


def loader_of(graph: Pipe, *services: ReadingServiceInterface) -> DataLoader2[Any]:
    loader: DataLoader2[Any] = DataLoader2(graph, reading_service=SequentialReadingService(*services))
    loader.seed(3)
    return loader


def rows_in(steps: list[torch.Tensor]) -> list[int]:
    return list(chain.from_iterable(step.tolist() for step in steps))


@pytest.mark.parametrize("mode", list(DataLoaderMode))
def test_worker_processes_in_front(mode: DataLoaderMode) -> None:
    with loader_of(
        numbers(21), MultiProcessingReadingService(2, "fork"), IPUReadingService(options_of(3), mode, drop_last=False)
    ) as loader:
        assert len(loader) == 4
        epochs = [list(loader) for _ in range(2)]
    assert [list(map(len, epoch)) for epoch in epochs] == [[6, 6, 6, 3]] * 2
    assert [sorted(rows_in(epoch)) for epoch in epochs] == [list(range(21))] * 2


def test_ranks_and_workers_in_front_of_it() -> None:
    seen = []
    for rank in range(2):
        services = (
            Ranked(2, rank),
            ThreadingReadingService(2),
            IPUReadingService(options_of(3), Async, drop_last=False),
        )
        with loader_of(numbers(45), *services) as loader:
            steps = list(loader)
            assert len(loader) == len(steps) == 4
            seen += rows_in(steps)
    assert sorted(seen) == list(range(45))


@pytest.mark.parametrize("rank", [None, 1])
def test_ranks_with_worker_processes_are_resumed_at_every_step(rank: int | None) -> None:
    def loader() -> DataLoader2[Any]:
        ranks = [] if rank is None else [Ranked(2, rank)]
        processes = MultiProcessingReadingService(2, "fork", worker_prefetch_cnt=3)
        return loader_of(numbers(41), *ranks, processes, IPUReadingService(options_of(3), Async, drop_last=False))

    with loader() as whole:
        states, steps = [], []
        for step in whole:
            steps.append(step.tolist())
            states.append(whole.state_dict())
    assert len(set(chain.from_iterable(steps))) == (41 if rank is None else 20)
    for taken, state in enumerate(states, start=1):
        with loader() as resumed:
            resumed.load_state_dict(state)
            assert [step.tolist() for step in resumed] == steps[taken:]


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_of_a_group_have_equally_many_steps_and_never_share_a_row(workers: int) -> None:
    # 26 rows and 25: two steps of 13 for one rank, and one and a bit for the other.
    def run(rank: int) -> tuple[list[int], list[int], int]:
        front = [ThreadingReadingService(workers)] if workers else []
        chain = (DistributedReadingService(timeout=300), *front, IPUReadingService(options_of(13, 2, rank), Async))
        with loader_of(numbers(51, rows=1), *chain) as loader:
            steps = list(loader)
            assert len(loader) == len(steps)
            dropped = loader.reading_service.reading_services[-1].dropped  # type: ignore[union-attr]  # a chain
        return list(map(len, steps)), rows_in(steps), dropped

    (sizes, rows, _), (other_sizes, other_rows, _) = on_ranks(2, run)
    assert sizes == other_sizes == [13]
    assert len({*rows, *other_rows}) == 26


@pytest.mark.parametrize("workers", [0, 2])
def test_processes_of_a_launcher_share_the_rows_and_have_equally_many_steps(workers: int) -> None:
    def loaders(drop_last: bool) -> list[list[torch.Tensor]]:
        each = []
        for process in range(3):
            front = [ThreadingReadingService(workers)] if workers else []
            service = IPUReadingService(options_of(2, 3, process), drop_last=drop_last)
            with loader_of(numbers(25), *front, service) as loader:
                length = len(loader)
                each.append(list(loader))
                assert len(each[-1]) == length == len(loader)
        return each

    complete = loaders(drop_last=False)
    assert sorted(rows_in(list(chain.from_iterable(complete)))) == list(range(25))
    assert [len(steps) for steps in loaders(drop_last=True)] == [2, 2, 2]


def test_no_process_makes_more_steps_than_the_others() -> None:
    steps, dropped = [], []
    for process in range(2):
        with loader_of(numbers(15), IPUReadingService(options_of(4, 2, process))) as loader:
            steps.append(len(list(loader)))
            dropped.append(loader.reading_service.reading_services[0].dropped)  # type: ignore[union-attr]  # a chain
    assert (steps, dropped) == ([0, 0], [8, 7])


def test_alone_it_takes_its_part_too_and_leaves_the_users_graph_as_it_is() -> None:
    graph = numbers(8)
    before = repr(graph)
    seen = []
    for process in range(2):
        service = IPUReadingService(options_of(2, 2, process))
        with DataLoader2(graph, reading_service=service) as loader:
            loader.seed(0)
            assert len(loader) == 1
            seen += rows_in(list(loader))
    assert sorted(seen) == list(range(8))
    assert repr(graph) == before


def test_a_graph_that_cannot_be_shared_out_is_a_warning() -> None:
    with (
        pytest.warns(UserWarning, match=r"no sharding_filter\(\): each of the 2 processes gives all"),
        loader_of(IterableWrapper(range(4)).batch(2), IPUReadingService(options_of(1, 2))) as loader,
    ):
        assert len(list(loader)) == 2


def test_rows_that_nobody_can_count_are_not_cut_off() -> None:
    """What collates here makes two rows of one, so that the length of the graph says nothing about steps."""
    seen = []
    for process in range(2):
        graph = IterableWrapper(range(16)).sharding_filter().batch(2).collate(_twice)
        with loader_of(graph, IPUReadingService(options_of(2, 2, process))) as loader:
            seen += rows_in(list(loader))
    assert sorted(seen) == sorted([*range(16)] * 2)


def _twice(batch: list[int]) -> torch.Tensor:
    return torch.tensor([*batch, *batch])


def test_a_graph_that_is_sharded_twice_is_refused_when_the_loader_is_made() -> None:
    graph = IterableWrapper(range(16)).sharding_filter().sharding_filter().batch(2).collate()
    with pytest.raises(GraphError, match="Sharding twice on a single pipeline"):
        DataLoader2(graph, reading_service=IPUReadingService(options_of(2, 2)))


def test_ranks_that_are_not_those_of_the_options_are_refused() -> None:
    loader = loader_of(numbers(8), DistributedReadingService(), IPUReadingService(options_of(1, 4)))
    with loader, pytest.raises(GraphError, match=r"options are for 4 processes, and the process group .* has 1"):
        list(loader)


def test_it_comes_last_in_a_chain() -> None:
    service = IPUReadingService(options_of(1))
    with pytest.raises(BadArgument, match=r"Make it SequentialReadingService\(Threading.*, IPUReadingService\)"):
        SequentialReadingService(service, ThreadingReadingService(2))
    with pytest.raises(BadArgument, match="both make the batches of a device"):
        SequentialReadingService(service, copy.deepcopy(service))


def test_arguments_are_checked() -> None:
    options = options_of(1)
    with pytest.raises(BadArgumentType, match=r"expected poptorch.Options"):
        IPUReadingService({"deviceIterations": 2})  # type: ignore[arg-type]  # the mistake
    with pytest.raises(BadArgument, match=r"pass micro_batch="):
        IPUReadingService(options, Async, {"rebatched_size": 3})
    with pytest.raises(TypeError, match="bufer_size unknown; known are buffer_size, "):
        IPUReadingService(options, Async, {"bufer_size": 3})
    with pytest.raises(BadArgument, match="buffer_size=0"):
        IPUReadingService(options, Async, {"buffer_size": 0})
    IPUReadingService(options, Async, {"early_preload": True, "buffer_size": 5})
    with pytest.raises(AttributeError, match="frozen"):
        options.deviceIterations(2)


@pytest.mark.parametrize("elements", [[1, 2], [torch.tensor(1)], [(torch.zeros(2), torch.zeros(3))], ["text"]])
def test_what_is_no_batch_is_refused_with_what_to_do(elements: list[Any]) -> None:
    with (
        loader_of(IterableWrapper(elements), IPUReadingService(options_of(1))) as loader,
        pytest.raises(BadArgument, match=r"End the graph with .batch\(rows\).collate\(\)"),
    ):
        list(loader)


def test_an_epoch_without_a_step_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("poptorch::python"), "propagate", True)
    with loader_of(numbers(5), IPUReadingService(options_of(4))) as loader:
        assert list(loader) == []
    assert "all 5 rows of this epoch are dropped: a combined batch needs 8" in caplog.text


@pytest.mark.parametrize("workers", [0, 2])
def test_it_feeds_the_device(workers: int) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            out = self.layer(x)
            return out, torch.nn.functional.mse_loss(out, y)

    torch.manual_seed(0)
    ours, theirs = (model := Model()), copy.deepcopy(model)
    options = Options().deviceIterations(3).replicationFactor(2)
    options.Training.gradientAccumulation(2)
    graph = IterableWrapper(range(100)).shuffle().sharding_filter().map(_sample).batch(4).collate()
    front = [ThreadingReadingService(workers)] if workers else []
    training = trainingModel(ours, options, torch.optim.SGD(ours.parameters(), lr=0.1))
    by_hand = torch.optim.SGD(theirs.parameters(), lr=0.1)
    with loader_of(graph, *front, IPUReadingService(options, Async)) as loader:
        for x, y in loader:
            assert len(x) == 48
            training(x, y)
            for inputs, targets in zip(x.split(16), y.split(16), strict=True):
                by_hand.zero_grad()
                theirs(inputs, targets)[1].backward()
                by_hand.step()
    assert ours.layer.weight.allclose(theirs.layer.weight, atol=1e-6)
    training.destroy()


def test_a_verdict_knows_what_is_in_a_chain() -> None:
    with loader_of(numbers(400), ThreadingReadingService(2), IPUReadingService(options_of(5), Async)) as loader:
        assert (workers_of(loader), runs_ahead(loader)) == (2, True)
        told = str(verdict(loader, cost=CostModel(seconds_per_item=1e-6), seconds=0.05, stages=False))
    assert "2 rows x device iterations 5 x" in told
    with loader_of(numbers(8), IPUReadingService(options_of(1))) as loader:
        assert (workers_of(loader), runs_ahead(loader)) == (0, False)


def _sample(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([number / 100]), torch.tensor([3 * number / 100 + 1])
