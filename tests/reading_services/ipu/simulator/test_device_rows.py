"""Rows that each replica sees, and outputs that come back, against loops that count them out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import reading_services.ipu as poptorch
from reading_services.ipu import CommGroupType as Groups
from reading_services.ipu import OutputMode as Mode
from reading_services.ipu.host.arithmetic import Batching
from tests.reading_services.ipu.simulator.device_models import (
    Linear,
    Same,
    block_by_counting,
    kept_by_counting,
    micro_batches,
)

MODES = [Mode.All, Mode.Final, Mode.Sum, Mode.EveryN]


def options_of(batching: Batching) -> poptorch.Options:
    options = poptorch.Options().deviceIterations(batching.iterations).replicationFactor(batching.replicas)
    options.inputReplicaGrouping(batching.group_size, batching.group_type)
    options.Training.gradientAccumulation(batching.accumulation)
    return options.autoRoundNumIPUs(True)


@st.composite
def batchings(draw: st.DrawFn) -> Batching:
    replicas = draw(st.integers(1, 6))
    return Batching(
        micro_batch=draw(st.integers(1, 3)),
        iterations=draw(st.integers(1, 6)),
        accumulation=draw(st.integers(1, 3)),
        replicas=replicas,
        group_size=draw(st.sampled_from([n for n in range(1, replicas + 1) if replicas % n == 0])),
        group_type=draw(st.sampled_from([Groups.Consecutive, Groups.Orthogonal])),
    )


@settings(deadline=None, max_examples=60)
@given(batchings(), st.sampled_from(MODES), st.data())
def test_outputs_are_those_that_counting_gives(batching: Batching, mode: Mode, data: st.DataObject) -> None:
    divisors = [n for n in range(1, batching.iterations + 1) if batching.iterations % n == 0]
    period = data.draw(st.sampled_from(divisors))
    assert batching.combined is not None
    assert batching.micro_batch is not None
    x = torch.arange(batching.combined * 2).reshape(-1, 2)
    each, losses = {}, {}
    for d, a, r in micro_batches(batching):
        block = block_by_counting(batching, d, a, r, batching.group_type == Groups.Orthogonal)
        each[d, a, r] = x[block * batching.micro_batch : (block + 1) * batching.micro_batch]
    optimizer = torch.optim.SGD((model := Same()).parameters(), lr=0.0)
    losses = {one: rows.float().sum() for one, rows in each.items()}
    training = poptorch.trainingModel(model, options_of(batching).outputMode(mode, period), optimizer)
    out, loss = training(x)
    expected = kept_by_counting(mode, period, batching, each).int()
    assert out.dtype == torch.int32
    assert out.tolist() == expected.tolist()
    expected_loss = kept_by_counting(mode, period, batching, losses)
    assert loss.shape == expected_loss.shape
    torch.testing.assert_close(loss, expected_loss)


def test_the_order_is_iteration_then_accumulation_then_replica() -> None:
    options = poptorch.Options().deviceIterations(2).replicationFactor(2).outputMode(Mode.All)
    options.Training.gradientAccumulation(2)
    model = Same()
    rows, _ = poptorch.trainingModel(model, options)(torch.arange(8.0).reshape(8, 1))
    assert rows.flatten().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    # The gradient of the one weight is the mean of four rows; the first update has rows 0 to 3, the second 4 to 7.
    assert model.scale.item() == pytest.approx(1 - 0.01 * (6 / 4) - 0.01 * (22 / 4))


@pytest.mark.parametrize(("kind", "seen"), [(Groups.Consecutive, [0, 0, 1, 1]), (Groups.Orthogonal, [0, 1, 0, 1])])
def test_groups_of_replicas_read_the_same_rows(kind: Groups, seen: list[int]) -> None:
    options = poptorch.Options().replicationFactor(4).inputReplicaGrouping(2, kind)
    out, _ = poptorch.inferenceModel(Same(), options)(torch.tensor([[0.0], [1.0]]))
    assert out.flatten().tolist() == seen


def test_ten_iterations_of_inference_equal_the_whole_batch() -> None:
    model = nn.Linear(6, 20)
    x = torch.randn(10, 1, 5, 6)
    expected = model(x).detach()
    for mode, period, rows in [
        (None, None, expected),
        (Mode.All, None, expected),
        (Mode.Final, None, expected[9:]),
        (Mode.Sum, None, expected.sum(0, keepdim=True)),
        (Mode.EveryN, 5, expected[[4, 9]]),
    ]:
        options = poptorch.Options().deviceIterations(10)
        out = poptorch.inferenceModel(model, options if mode is None else options.outputMode(mode, period))(x)
        assert out.shape == rows.shape
        torch.testing.assert_close(out, rows, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("mode", "period", "rows", "losses"),
    [
        (None, None, 1, ()),
        (Mode.Final, None, 1, ()),
        (Mode.All, None, 100, (100,)),
        (Mode.EveryN, 20, 5, (5,)),
        (Mode.Sum, None, 1, ()),
    ],
)
def test_modes_of_training(mode: Mode | None, period: int | None, rows: int, losses: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    options = poptorch.Options().deviceIterations(100)
    if mode is not None:
        options.outputMode(mode, period)
    model = Linear(10, 10)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.01))
    x = torch.randn(1, 10).expand(100, 10).contiguous()
    target = torch.randn(1, 10).expand(100, 10).contiguous()
    before = model(x[:1], target[:1])[1].item()
    out, loss = training(x, target)
    assert out.shape == (rows, 10)
    assert loss.shape == losses
    if mode == Mode.All:
        assert bool((loss[1:] < loss[:-1]).all())
    if mode == Mode.Sum:
        assert before < loss.item() < 100 * before
    if mode in (None, Mode.Final):
        assert loss.item() < before
        # It is that of the weights before the last update.
        assert loss.item() > model(x[:1], target[:1])[1].item()


def test_default_modes() -> None:
    options = poptorch.Options().deviceIterations(2)
    assert poptorch.trainingModel(Linear(), options).options.output_mode == Mode.Final
    assert poptorch.inferenceModel(Linear(), options).options.output_mode == Mode.All
    assert options.defaultOutputMode()


def test_all_rows_fit_the_label_after_training() -> None:
    torch.manual_seed(1)

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.loss = nn.Linear(10, 10), nn.CrossEntropyLoss()

        def forward(self, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
            out = self.layer(x)
            return out, self.loss(out, label)

    model = Classifier()
    options = poptorch.Options().deviceIterations(10)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    x, label = torch.randn(10, 10), torch.randint(0, 10, (10,))
    for _ in range(150):
        _, loss = training(x, label)
        assert loss.shape == ()
    assert model.layer(x).argmax(1).tolist() == label.tolist()


@pytest.mark.parametrize("rows", [1, 3, 5, 7])
def test_rows_have_to_come_out_even(rows: int) -> None:
    options = poptorch.Options().deviceIterations(2).replicationFactor(2)
    with pytest.raises(AssertionError, match=r"^Invalid batch dimension: In the input x of shape") as error:
        poptorch.inferenceModel(Linear(), options)(torch.zeros(rows, 3))
    for said in (
        "Options.deviceIterations(2)",
        "Options.replicationFactor(2)",
        "Options.inputReplicaGrouping.input_group_size(1)",
        "Options.Training.gradientAccumulation(1)",
    ):
        assert said in str(error.value)


def test_a_tensor_without_dimensions_counts_as_one_row() -> None:
    class Add(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    assert poptorch.inferenceModel(Add())(torch.tensor(1.0), torch.tensor(2.0)).item() == 3
    with pytest.raises(AssertionError, match="In the input y of shape"):
        poptorch.inferenceModel(Add(), poptorch.Options().deviceIterations(2))(torch.ones(2), torch.tensor(2.0))


def test_a_period_that_is_too_long() -> None:
    options = poptorch.Options().deviceIterations(2).outputMode(Mode.EveryN, 3)
    with pytest.raises(poptorch.Error, match="Return period must be <="):
        poptorch.inferenceModel(Linear(), options)(torch.zeros(2, 3))


def test_a_period_that_is_no_factor() -> None:
    options = poptorch.Options().deviceIterations(4).outputMode(Mode.EveryN, 3)
    with pytest.raises(poptorch.Error, match="Return period must be a factor of"):
        poptorch.inferenceModel(Linear(), options)(torch.zeros(4, 3))
