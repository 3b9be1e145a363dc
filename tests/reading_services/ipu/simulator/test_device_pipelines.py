"""Models over several chips: stages, and what a pipeline asks for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from reading_services.ipu.simulator.ipus import stages_and_ipus

X, TARGET = torch.ones(1, 3), torch.ones(1, 3)


class Blocks(nn.Module):
    """Four layers, each on a chip of its own."""

    def __init__(self, wrapped: bool = False, ids: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.wrapped, self.ids = wrapped, ids
        if wrapped:
            for number, layer in enumerate(self.layers):
                assert poptorch.BeginBlock(layer, f"B{number}", ipu_id=number) is layer

    def forward(self, x: Tensor, target: Tensor | None = None) -> Any:
        for number, layer in enumerate(self.layers):
            if self.wrapped:
                x = layer(x)
            else:
                with poptorch.Block(f"B{number}", ipu_id=number if self.ids else None):
                    x = layer(x)
        return x if target is None else (x, nn.functional.mse_loss(x, target))


def accumulating(number: int, iterations: int = 1) -> poptorch.Options:
    options = poptorch.Options().deviceIterations(iterations)
    options.Training.gradientAccumulation(number)
    return options


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("iterations", [1, 2])
def test_training_in_a_pipeline_of_four(iterations: int, wrapped: bool) -> None:
    message = "gradientAccumulation must be greater than or equal to the number of pipeline stages"
    for number in (4, 5, 6, 7, 8):
        rows = number * iterations
        training = poptorch.trainingModel(Blocks(wrapped), accumulating(number, iterations))
        if number < 7:
            with pytest.raises(poptorch.Error, match=message):
                training(X.expand(rows, 3), TARGET.expand(rows, 3))
        else:
            training(X.expand(rows, 3), TARGET.expand(rows, 3))
            assert training.report().total("bubble") > 0
    sharded = accumulating(4).setExecutionStrategy(poptorch.ShardedExecution())
    poptorch.trainingModel(Blocks(wrapped), sharded)(X.expand(4, 3), TARGET.expand(4, 3))


def test_inference_in_a_pipeline_of_four() -> None:
    model = Blocks()
    x = torch.randn(4, 3)
    with pytest.raises(poptorch.Error, match="deviceIterations must be greater"):
        poptorch.inferenceModel(model, poptorch.Options().deviceIterations(2))(x)
    sharded = poptorch.Options().deviceIterations(2).setExecutionStrategy(poptorch.ShardedExecution())
    expected = model(x).detach()
    torch.testing.assert_close(poptorch.inferenceModel(model, sharded)(x), expected)
    torch.testing.assert_close(poptorch.inferenceModel(model, poptorch.Options().deviceIterations(4))(x), expected)


def test_one_chip_is_one_stage() -> None:
    poptorch.inferenceModel(Blocks(ids=False))(X)
    poptorch.trainingModel(Blocks(ids=False))(X, TARGET)


def test_every_n_is_not_for_pipelines() -> None:
    options = poptorch.Options().deviceIterations(4).outputMode(poptorch.OutputMode.EveryN, 2)
    with pytest.raises(poptorch.Error, match="EveryN"):
        poptorch.inferenceModel(Blocks(), options)(torch.ones(4, 3))
    poptorch.inferenceModel(Blocks(ids=False), options)(torch.ones(4, 3))


def test_chips_are_those_of_all_replicas() -> None:
    options = poptorch.Options().deviceIterations(4).replicationFactor(32)
    with pytest.raises(poptorch.Error, match="Too many IPUs requested"):
        poptorch.inferenceModel(Blocks(), options)(torch.ones(128, 3))


@pytest.mark.parametrize(
    ("strategy", "ids", "expected"),
    [
        (poptorch.PipelinedExecution(), [0, 1, 1, 0], (2, 2)),
        (poptorch.PipelinedExecution(), [None] * 4, (1, 1)),
        (poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu), [0, 1, 2, 3], (4, 4)),
        (poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement), [None] * 4, (4, 4)),
        (poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement), [0, 0, 1, 1], (4, 2)),
        (poptorch.PipelinedExecution("B0", "B1", "B2", "B3"), [None] * 4, (4, 4)),
        (poptorch.PipelinedExecution(poptorch.Stage("B0", "B1"), poptorch.Stage("B2", "B3")), [None] * 4, (2, 2)),
        (
            poptorch.PipelinedExecution(poptorch.Stage("B0", "B1").ipu(1), poptorch.Stage("B2", "B3").ipu(1)),
            [0] * 4,
            (2, 1),
        ),
        (poptorch.ShardedExecution("B0", "B1", "B2", "B3"), [0, 1, 2, 2], (4, 3)),
    ],
)
def test_stages_and_chips(strategy: Any, ids: list[int | None], expected: tuple[int, int]) -> None:
    blocks = [poptorch.Block(f"B{number}", ipu_id=ipu) for number, ipu in enumerate(ids)]
    assert stages_and_ipus(blocks, strategy) == expected
    assert stages_and_ipus([*blocks, *blocks], strategy) == expected


class Started(nn.Module):
    """Blocks that begin in each way there is; B2 twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = poptorch.BeginBlock(nn.Linear(3, 3), "B2", ipu_id=2)

    def forward(self, x: Tensor) -> Tensor:
        poptorch.Block.start("B0", ipu_id=0)
        x = self.second(x + 1)
        x = self.layer(self.layer(x))
        with poptorch.Block("B3", ipu_id=3):
            return x * 2

    @poptorch.BlockFunction("B1", ipu_id=1)
    def second(self, x: Tensor) -> Tensor:
        return x * 3


class Counted(nn.Module):
    """Blocks without ids, which are counted."""

    def __init__(self, ids: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        poptorch.BeginBlock(self.layers[1], ipu_id=1)
        self.ids = ids

    def forward(self, x: Tensor) -> Tensor:
        if self.ids:
            poptorch.Block.useAutoId()
        with poptorch.Block("first"):
            x = x + 1
        poptorch.Block.start()
        x = self.layers(self.layers(x))
        poptorch.Block.start()
        return x * 2


def stages_of(model: nn.Module, strategy: Any = None) -> tuple[int, int]:
    options = poptorch.Options().deviceIterations(4)
    options.setExecutionStrategy(strategy or poptorch.PipelinedExecution())
    options.autoRoundNumIPUs(True)
    found = poptorch.inferenceModel(model, options)
    torch.testing.assert_close(found(X.expand(4, 3)), model(X.expand(4, 3)).detach())
    assert found._compiled is not None
    return stages_and_ipus(found._compiled.program.blocks, strategy or poptorch.PipelinedExecution())


def test_all_ways_to_begin_a_block() -> None:
    assert stages_of(Started()) == (4, 4)
    assert Started.second.__name__ == "second"


def test_blocks_without_ids_are_counted_where_that_is_asked_for() -> None:
    by_number = poptorch.PipelinedExecution(poptorch.Stage("first", "0"), "1", "2")
    assert stages_of(Counted(ids=True), by_number)[0] == 3
    assert stages_of(Counted(ids=False), by_number)[0] == 3  # "first", and one for each chip
    automatic = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
    assert stages_of(Counted(ids=True), automatic)[0] == stages_of(Counted(ids=False), automatic)[0] == 4


def test_a_layer_begins_one_block_until_that_is_taken_back() -> None:
    model = Blocks(wrapped=True)
    with pytest.raises(poptorch.Error, match="module has already been assigned to a block"):
        poptorch.BeginBlock(model.layers[1], ipu_id=1)
    poptorch.removeBlocks(model)
    assert stages_of(model) == (1, 1)
    poptorch.BeginBlock(model.layers[1], ipu_id=1)
    poptorch.BeginBlock(model.layers[2], ipu_id=2)
    assert stages_of(model) == (2, 2)


def test_no_blocks_is_one_stage_on_one_chip() -> None:
    assert stages_and_ipus([], poptorch.PipelinedExecution()) == (1, 1)


def test_a_block_is_nothing_outside() -> None:
    with poptorch.Block("B", ipu_id=3) as block:
        assert block.ipu_id == 3
    with pytest.raises(AssertionError, match="BeginBlock"):
        poptorch.BeginBlock(lambda x: x)  # type: ignore[type-var]  # it is to be wrong
