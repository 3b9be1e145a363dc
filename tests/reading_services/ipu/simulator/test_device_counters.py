"""Counters and latencies, in modelled time; synthetic data."""

from __future__ import annotations

from itertools import product

import pytest
import torch

import reading_services.ipu as poptorch
from reading_services.ipu.simulator.cost import CostModel
from tests.reading_services.ipu.simulator.device_models import Linear

Mode = poptorch.OutputMode
LATENCIES = ("getHostIpuLatency", "getComputeLatency", "getIpuHostLatency", "getLatency")
KINDS = {"input", "input_complete", "output", "output_complete"}


@pytest.mark.parametrize("mode", [Mode.All, Mode.Final, Mode.Sum, Mode.EveryN])
def test_ticks(mode: Mode) -> None:
    for iterations, accumulation, replicas in product((2, 4), (1, 3), (1, 2)):
        options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas).outputMode(mode, 2)
        options.Training.gradientAccumulation(accumulation)
        rows = iterations * accumulation * replicas
        training = poptorch.trainingModel(Linear(), options)
        assert training.getPerfCounters() == {kind: [[]] for kind in KINDS}
        training(torch.ones(rows, 3), torch.ones(rows, 2))
        counters = training.getPerfCounters()
        assert counters.keys() == KINDS
        expected = {Mode.All: rows, Mode.EveryN: iterations // 2 * accumulation * replicas}.get(mode, replicas)
        for kind in ("input", "input_complete"):
            assert [len(ticks) for ticks in counters[kind]] == [rows, rows]
        for kind in ("output", "output_complete"):
            assert [len(ticks) for ticks in counters[kind]] == [expected, expected]
        for began, ended in (("input", "input_complete"), ("output", "output_complete")):
            for starts, ends in zip(counters[began], counters[ended], strict=True):
                assert all(start <= end for start, end in zip(starts, ends, strict=True))
                assert starts == sorted(starts)
        for name in LATENCIES:
            least, most, mean = getattr(training, name)()
            assert 0 <= least <= mean <= most
            assert most > 0
        whole = training.getLatency()[1]
        assert whole <= training.cost_model.step(training._compiled.work).step + 1e-12  # type: ignore[union-attr]  # it has run


def test_latencies_are_those_of_the_cost_model() -> None:
    inference = poptorch.inferenceModel(Linear())
    inference.cost_model = CostModel(seconds_per_item=1.0, host_bandwidth=12.0, call=0.0)
    inference(torch.ones(2, 3))
    assert inference.getHostIpuLatency() == (2.0, 2.0, 2.0)  # 24 bytes in
    assert inference.getComputeLatency() == pytest.approx((2.0, 2.0, 2.0))
    assert inference.getIpuHostLatency() == pytest.approx((4 / 3, 4 / 3, 4 / 3))  # 16 bytes out
    assert inference.getLatency() == pytest.approx((16 / 3, 16 / 3, 16 / 3))
    report = inference.report()
    assert report.total("items") == 2
    assert report.total("wall") == pytest.approx(16 / 3)


def test_cycles() -> None:
    off = poptorch.inferenceModel(Linear())
    with pytest.raises(poptorch.Error, match="Cycle count logging is disabled"):
        off.cycleCount()
    model = poptorch.inferenceModel(Linear(), poptorch.Options().logCycleCount(True))
    message = r"Please run the model at least once before obtaining cycle count\."
    with pytest.raises(poptorch.Error, match=message):
        model.cycleCount()
    model.compile(torch.ones(1, 3))
    with pytest.raises(poptorch.Error, match=message):
        model.cycleCount()
    model(torch.ones(1, 3))
    model.cost_model = CostModel(seconds_per_item=1.0, clock=1000.0)
    assert model.cycleCount() == 1000


def test_what_the_cost_model_is_told() -> None:
    options = poptorch.Options().deviceIterations(2).replicationFactor(2)
    options.Training.gradientAccumulation(3)
    training = poptorch.trainingModel(Linear(), options)
    for _ in range(4):
        training(torch.ones(24, 3), torch.ones(24, 2))
    (calls,) = training._meter.calls
    work = calls.work
    assert (calls.count, work.items, work.micro_batch, work.stages) == (4, 24, 2, 1)
    assert (work.bytes_in, work.bytes_out) == (24 * 5 * 4, 2 * (2 * 2 + 1) * 4)
    assert work.flops == 3 * 2 * (2 * 3 * 2) - 2 * (2 * 3 * 2)  # forward, and backward by the weights alone
    assert training.report().total("items") == 4 * 24
    other = poptorch.inferenceModel(torch.nn.Identity())
    other(torch.ones(3, dtype=torch.int64))
    assert other._meter.calls[0].work.bytes_in == 12


@pytest.mark.parametrize("mode", [Mode.Final, Mode.All, Mode.Sum])
def test_synthetic_data(mode: Mode) -> None:
    model = Linear()
    before = model.layer.weight.detach().clone()
    options = poptorch.Options().deviceIterations(3).outputMode(mode)
    real = poptorch.trainingModel(Linear(), options)(torch.ones(3, 3), torch.ones(3, 2))
    synthetic = poptorch.trainingModel(model, options.clone().enableSyntheticData(True))
    for _ in range(2):
        out = synthetic(torch.ones(3, 3), torch.ones(3, 2))
    assert [(each.shape, each.dtype) for each in out] == [(each.shape, each.dtype) for each in real]
    with pytest.raises(poptorch.Error, match="Shape mismatch"):
        synthetic(torch.ones(6, 3), torch.ones(6, 2))
    assert torch.equal(model.layer.weight, before)
    synthetic.copyWeightsToHost()
    assert not synthetic.copyWeightsToHostIfNeeded()
    assert torch.equal(model.layer.weight, before)
    assert synthetic.getPerfCounters() == {kind: [[], []] for kind in KINDS}
    for name in LATENCIES:
        assert getattr(synthetic, name)() == (0.0, 0.0, 0.0)
    report = synthetic.report()
    assert report.total("transfer") == report.total("sync") == 0
    assert report.utilisation == 1


def test_a_step_that_is_not_computed_takes_its_time_and_changes_nothing() -> None:
    models = [Linear(), Linear()]
    computed, timed = (poptorch.trainingModel(each, poptorch.Options().deviceIterations(3)) for each in models)
    timed.computes = False
    before = models[1].layer.weight.detach().clone()
    for training in (computed, timed):
        out = training(torch.ones(3, 3), torch.ones(3, 2))
    assert [each.abs().sum().item() for each in out] == [0, 0]
    assert not timed.copyWeightsToHostIfNeeded()
    assert torch.equal(models[1].layer.weight, before)
    assert timed.getPerfCounters() == computed.getPerfCounters()
    assert timed.report().total("wall") == computed.report().total("wall") > 0
    timed.computes = True
    timed(torch.ones(3, 3), torch.ones(3, 2))
    assert not torch.equal(models[1].layer.weight, before)


def test_counters_before_compiling() -> None:
    model = poptorch.inferenceModel(Linear())
    assert model.getPerfCounters() == {kind: [[]] for kind in KINDS}
    assert model.getLatency() == (0.0, 0.0, 0.0)
    model.compile(torch.ones(1, 3))
    assert model.getLatency() == (0.0, 0.0, 0.0)
