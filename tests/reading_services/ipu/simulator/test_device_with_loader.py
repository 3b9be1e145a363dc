"""A loader and a device with the same options: each model sees the rows that are its own, epoch after epoch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

import reading_services.ipu as poptorch
from tests.reading_services.ipu.simulator.device_models import Linear, Same

Mode = poptorch.DataLoaderMode


@pytest.mark.parametrize(("mode", "workers"), [(Mode.Sync, 0), (Mode.Sync, 2), (Mode.Async, 0), (Mode.Async, 2)])
def test_rows_arrive_in_order(mode: Mode, workers: int) -> None:
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    rows = torch.arange(50 * 2).reshape(50, 2)
    arguments: dict[str, Any] = {"async_options": {"early_preload": True}} if mode == Mode.Async else {}
    loader = poptorch.DataLoader(
        options, TensorDataset(rows), batch_size=2, num_workers=workers, mode=mode, **arguments
    )
    try:
        model = poptorch.inferenceModel(Same(), options)
        assert len(loader) == 4
        for _ in range(2):
            seen = [model(batch)[0] for (batch,) in loader]
            assert torch.cat(seen).tolist() == rows[:48].tolist()
    finally:
        loader.terminate()


def test_training_from_a_loader_learns() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    dataset = TensorDataset(x, x @ torch.randn(3, 2))
    options = poptorch.Options().deviceIterations(4).replicationFactor(2)
    options.Training.gradientAccumulation(2)
    model = Linear()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    losses = []
    for _ in range(30):
        for data, target in poptorch.DataLoader(options, dataset, batch_size=2, shuffle=True, drop_last=True):
            _, loss = training(data, target)
            assert loss.shape == (2,)
            losses.append(loss.mean().item())
    assert losses[-1] < 0.01 * losses[0]
