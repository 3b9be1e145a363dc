"""Several processes train one model: real ones, which reduce their gradients through gloo."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch
from torch import distributed as dist
from torch.multiprocessing.spawn import spawn

import reading_services.ipu as poptorch
from tests.reading_services.ipu.device_models import Linear

PROCESSES, STEPS, ROWS = 2, 3, 8
REDUCTIONS = (poptorch.ReductionType.Mean, poptorch.ReductionType.Sum)


def data(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(STEPS, rows, 3, generator=generator), torch.randn(STEPS, rows, 2, generator=generator)


def options_of(reduction: poptorch.ReductionType, accumulation: int) -> poptorch.Options:
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(accumulation).accumulationAndReplicationReductionType(reduction)
    return options


def train(process: int, folder: str) -> None:
    """One process: half of the rows of each update, on a model of its own making."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=process, world_size=PROCESSES)
    try:
        for reduction in REDUCTIONS:
            train_by(reduction, process, folder)
    finally:
        dist.destroy_process_group()


def train_by(reduction: poptorch.ReductionType, process: int, folder: str) -> None:
    torch.manual_seed(process)  # the first process's weights are everybody's
    model = Linear()
    options = options_of(reduction, 2)
    options.Distributed.configureProcessId(process, PROCESSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    training = poptorch.trainingModel(model, options, optimizer)
    x, target = data(ROWS * PROCESSES)
    for step in range(STEPS):
        # (iteration, process, accumulation): a process has half of the rows of each iteration.
        mine = [each[step].view(2, PROCESSES, ROWS // 2, -1)[:, process].flatten(0, 1) for each in (x, target)]
        training(*mine)
    torch.save(model.state_dict(), f"{folder}/{reduction.name}{process}.pt")


def test_two_processes_are_as_one_with_twice_the_batch(tmp_path: Path) -> None:
    context: Any = spawn(train, (str(tmp_path),), PROCESSES, join=False)  # type: ignore[no-untyped-call]  # of torch
    try:
        until = monotonic() + 50
        while not context.join(timeout=until - monotonic()):
            assert monotonic() < until, "the processes hang"
    finally:
        for each in context.processes:
            each.kill()
    for reduction in REDUCTIONS:
        compare(reduction, tmp_path)


def compare(reduction: poptorch.ReductionType, folder: Path) -> None:
    states = [torch.load(folder / f"{reduction.name}{process}.pt") for process in range(PROCESSES)]
    torch.manual_seed(0)
    model = Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    training = poptorch.trainingModel(model, options_of(reduction, 2 * PROCESSES), optimizer)
    for x, target in zip(*data(ROWS * PROCESSES), strict=True):
        training(x, target)
    for name, expected in model.state_dict().items():
        assert torch.equal(states[0][name], states[1][name])
        torch.testing.assert_close(states[0][name], expected, rtol=1e-6, atol=1e-6)


def test_without_a_process_group_it_says_so(caplog: pytest.LogCaptureFixture) -> None:
    options = poptorch.Options()
    options.Distributed.configureProcessId(0, 2)
    model = Linear()
    poptorch.trainingModel(model, options)(torch.ones(1, 3), torch.ones(1, 2))
    assert "GRADIENTS ARE NOT REDUCED" in caplog.text
    caplog.clear()
    poptorch.inferenceModel(model, options)(torch.ones(1, 3))
    assert caplog.text == ""
