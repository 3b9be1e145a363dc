"""The cost model behind an executor and in front of a loader: work of real calls, verdicts over real loaders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import reading_services.ipu as poptorch
from tutorials.tuto_data_loading import PUBLISHED, ClassificationModel


@contextmanager
def training(model: nn.Module, options: poptorch.Options) -> Iterator[poptorch.PoplarExecutor]:
    model.train()
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.01))
    try:
        yield executor
    finally:
        executor.destroy()


@pytest.mark.parametrize("replicas", [1, 4])
@pytest.mark.parametrize("synthetic", [True, False])
def test_the_tutorials_model_on_the_device_has_the_published_figures(replicas: int, synthetic: bool) -> None:
    """Nothing is trained: what the executor finds when it compiles is what all steps cost."""
    options = poptorch.Options().deviceIterations(50).replicationFactor(replicas)
    options.enableSyntheticData(synthetic)
    rows = 800 * replicas
    with training(ClassificationModel(), options) as executor:
        executor.compile(torch.zeros(1).expand(rows, 1, 128, 128), torch.zeros(rows, dtype=torch.int64))
        assert executor._compiled is not None
        work = executor._compiled.work
        cost = executor.cost_model.step(work)
    assert work.bytes_in == rows * 65_540
    assert work.items == rows
    assert work.items / cost.wall == pytest.approx(PUBLISHED[replicas, synthetic], rel=0.1)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        out = self.layer(x)
        return out, nn.functional.cross_entropy(out, y)


def test_a_report_is_of_the_calls_and_follows_the_cost_model() -> None:
    options = poptorch.Options().deviceIterations(5).replicationFactor(2)
    with training(Small(), options) as executor:
        for _ in range(3):
            executor(torch.randn(80, 10), torch.zeros(80, dtype=torch.int64))
        executor.cost_model = poptorch.CostModel(seconds_per_item=0.001, call=0.0, host_bandwidth=80 * 44)
        report = executor.report(load=2.0)
    assert (report.count, report.total("items")) == (3, 240)
    assert report.total("compute") == pytest.approx(3 * 5 * 8 * 0.001)
    wire = 80 * (10 * 4 + 4) + 2 * (8 * 4 * 4 + 4)
    assert report.total("transfer") == pytest.approx(3 * wire / (80 * 44))
    assert report.total("wall") == pytest.approx(3 * 2.0)
    assert report.measured["calls"] == 3
    assert report.measured["inside"] > 0


@pytest.mark.parametrize("mode", [poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.Async])
def test_a_verdict_over_a_loader_and_its_device(mode: poptorch.DataLoaderMode) -> None:
    options = poptorch.Options().deviceIterations(5).replicationFactor(2)
    data = TensorDataset(torch.randn(800, 10), torch.zeros(800, dtype=torch.int64))
    loader = poptorch.DataLoader(options, data, batch_size=8, mode=mode)
    with training(Small(), options) as executor:
        executor.cost_model = poptorch.CostModel(seconds_per_item=1.0)
        found = poptorch.verdict(loader, executor, seconds=0.1)
        executor.cost_model = poptorch.CostModel(seconds_per_item=1e-12, call=0.0, host_bandwidth=1e15, link_limit=1e15)
        hungry = poptorch.verdict(loader, executor, seconds=0.1)
    loader.terminate()
    assert (found.bottleneck, hungry.bottleneck) == ("compute", "loader")
    assert found.mode == mode.name.lower()
    assert (found.work.micro_batch, found.work.replicas, found.work.training) == (8, 2, True)
    assert found.loader.items == 80 * found.loader.steps


def test_an_accessor_runs_ahead() -> None:
    accessor = poptorch.AsynchronousDataAccessor([torch.zeros(4, 2)] * 3)
    found = poptorch.verdict(accessor, cost=poptorch.CostModel(seconds_per_item=1.0), seconds=0.1)
    accessor.terminate()
    assert (found.mode, found.bottleneck, found.work.items) == ("async", "compute", 4)
