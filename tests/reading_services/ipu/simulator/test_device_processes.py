"""Several processes train one model: real ones, which reduce their gradients through gloo."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import reading_services.ipu as poptorch
from tests.many_ranks import on_ranks
from tests.reading_services.ipu.simulator.device_models import Linear

PROCESSES, STEPS, ROWS = 2, 3, 8
REDUCTIONS = (poptorch.ReductionType.Mean, poptorch.ReductionType.Sum)


def data(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(STEPS, rows, 3, generator=generator), torch.randn(STEPS, rows, 2, generator=generator)


def options_of(reduction: poptorch.ReductionType, accumulation: int) -> poptorch.Options:
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(accumulation).accumulationAndReplicationReductionType(reduction)
    return options


def trained(process: int) -> list[dict[str, Any]]:
    """One process: half of the rows of each update, on a model of its own making; its weights as plain numbers."""
    return [trained_by(reduction, process) for reduction in REDUCTIONS]


def trained_by(reduction: poptorch.ReductionType, process: int) -> dict[str, Any]:
    torch.manual_seed(process)  # all processes get the weights of the first one
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
    return {name: weights.tolist() for name, weights in model.state_dict().items()}


def test_two_processes_are_as_one_with_twice_the_batch() -> None:
    expected = [trained_alone(reduction) for reduction in REDUCTIONS]
    first, second = on_ranks(PROCESSES, trained)
    assert first == second, "to the last bit"
    for weights, alone in zip(first, expected, strict=True):
        for name in alone:
            torch.testing.assert_close(torch.tensor(weights[name]), alone[name], rtol=1e-6, atol=1e-6)


def trained_alone(reduction: poptorch.ReductionType) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    training = poptorch.trainingModel(model, options_of(reduction, 2 * PROCESSES), optimizer)
    for x, target in zip(*data(ROWS * PROCESSES), strict=True):
        training(x, target)
    return dict(model.state_dict())


def test_without_a_process_group_it_says_so(caplog: pytest.LogCaptureFixture) -> None:
    options = poptorch.Options()
    options.Distributed.configureProcessId(0, 2)
    model = Linear()
    poptorch.trainingModel(model, options)(torch.ones(1, 3), torch.ones(1, 2))
    assert "GRADIENTS ARE NOT REDUCED" in caplog.text
    caplog.clear()
    poptorch.inferenceModel(model, options)(torch.ones(1, 3))
    assert caplog.text == ""
