"""The cost model: the published figures of the tutorial, parts that make the whole, constants that can be set."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgument
from reading_services.ipu.simulator.cost import CostModel, StepCost, Work, flops_of

# Items/s that the tutorial's authors published, on synthetic data and on real data, by replicas.
PUBLISHED = {1: (33_455, 21_901), 4: (136_452, 36_512)}
ITEM_FLOPS = 59_255_880

SOME = st.floats(0, 1, allow_subnormal=False)
WORKS = st.builds(
    Work,
    device_iterations=st.integers(1, 100),
    gradient_accumulation=st.integers(1, 20),
    replicas=st.integers(1, 16),
    micro_batch=st.integers(0, 64),
    processes=st.integers(1, 8),
    stages=st.integers(1, 4),
    pipelined=st.booleans(),
    training=st.booleans(),
    synthetic=st.booleans(),
    bytes_in=st.integers(0, 10**9),
    bytes_out=st.integers(0, 10**9),
    flops=st.floats(0, 1e12),
)
MODELS = st.builds(CostModel, call=SOME, iteration=SOME, reduction=SOME, overlap=st.booleans())


def tutorial(replicas: int = 1) -> Work:
    return Work(
        device_iterations=50,
        replicas=replicas,
        micro_batch=16,
        bytes_in=50 * replicas * 16 * (128 * 128 * 4 + 4),
        bytes_out=replicas * (16 * 10 * 4 + 4),
        flops=16 * ITEM_FLOPS,
    )


@pytest.mark.parametrize("replicas", [1, 4])
def test_published_figures_of_the_tutorial_within_a_tenth(replicas: int) -> None:
    model, work = CostModel(), tutorial(replicas)
    synthetic, real = (work.items / model.step(each).wall for each in (replace(work, synthetic=True), work))
    assert synthetic == pytest.approx(PUBLISHED[replicas][0], rel=0.1)
    assert real == pytest.approx(PUBLISHED[replicas][1], rel=0.1)


def test_the_lessons_of_the_tutorial() -> None:
    """Replicas of a process share its link, processes bring links of their own, and iterations keep no chip busier."""
    model = CostModel()
    one, four = model.step(tutorial(1)), model.step(tutorial(4))
    assert (one.compute, 4 * one.transfer_in) == pytest.approx((four.compute, four.transfer_in))
    assert four.utilisation < 0.5 * one.utilisation
    of_four = model.step(replace(tutorial(1), processes=4))
    assert of_four.utilisation == pytest.approx(
        model.step(replace(tutorial(1), bytes_in=int(tutorial(1).bytes_in * 3.6 / 3.125))).utilisation, abs=1e-3
    ), "four processes on one machine have 3.125 GB/s each"
    work = tutorial(1)
    twice = replace(work, device_iterations=100, bytes_in=2 * work.bytes_in, bytes_out=2 * work.bytes_out)
    assert model.step(twice).utilisation == pytest.approx(one.utilisation, rel=0.01)


def test_flops_of_the_tutorials_model() -> None:
    from torch import nn

    layers: list[nn.Module] = [nn.Conv2d(1, 5, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 12, 5), nn.ReLU()]
    layers += [nn.GroupNorm(3, 12), nn.Flatten(), nn.Linear(41_772, 100), nn.ReLU(), nn.Linear(100, 10)]
    model = nn.Sequential(*layers, nn.LogSoftmax(0))
    images, labels = torch.randn(2, 1, 128, 128), torch.tensor([3, 4])

    def train() -> None:
        torch.autograd.backward(nn.functional.nll_loss(model(images), labels))

    assert flops_of(train) == 2 * ITEM_FLOPS


@given(MODELS, WORKS, SOME, st.sampled_from(["async", "sync"]))
@settings(deadline=None)
def test_the_parts_are_the_whole(model: CostModel, work: Work, load: float, mode: str) -> None:
    cost = model.step(work, load, mode)  # type: ignore[arg-type]  # one of the two that the strategy has
    parts = [getattr(cost, each.name) for each in fields(StepCost) if each.name not in ("items", "hidden")]
    assert all(part >= 0 for part in parts)
    assert cost.wall == pytest.approx(sum(parts) - cost.hidden)
    assert 0 <= cost.hidden <= min(cost.transfer, cost.compute + cost.bubble + cost.reduction)
    assert 0 <= cost.utilisation <= 1
    assert cost.items == work.items
    if work.synthetic:
        assert cost.wall == cost.compute + cost.bubble
    elif mode == "sync":
        assert cost.wait == load
    else:
        assert cost.wall == pytest.approx(max(cost.step, load))
    if not work.synthetic and model.overlap:
        inside = cost.compute + cost.bubble + cost.reduction
        assert cost.step == pytest.approx(max(inside, cost.transfer) + cost.sync)


def schedule(device_iterations: int, accumulation: int, stages: int, training: bool) -> int:
    """Ticks of a pipeline run by hand: in each tick a stage serves at most one micro-batch, in order."""
    passes = 2 * stages - 1 if training else stages
    updates, length = (device_iterations, accumulation) if training else (1, device_iterations * accumulation)
    ticks = 0
    for _ in range(updates):
        inside: list[int] = []  # the pass that each micro-batch in the pipe is at
        left = length
        while inside or left:
            if left:
                inside.append(0)
                left -= 1
            inside = [at + 1 for at in inside if at + 1 < passes]
            ticks += 1
    return ticks


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.booleans())
@settings(deadline=None)
def test_a_pipeline_fills_and_empties(iterations: int, accumulation: int, stages: int, training: bool) -> None:
    work = Work(device_iterations=iterations, gradient_accumulation=accumulation, stages=stages, training=training)
    model = CostModel(seconds_per_item=1.0 * stages)
    cost = model.step(work)
    assert cost.compute + cost.bubble == pytest.approx(schedule(iterations, accumulation, stages, training))
    sharded = model.step(replace(work, pipelined=False))
    assert sharded.compute == cost.compute, "a chip has as much to do, but waits for its turn"
    assert sharded.compute + sharded.bubble == pytest.approx(iterations * accumulation * stages)


def test_groups_share_samples() -> None:
    assert Work(replicas=8, group_size=4, device_iterations=3, gradient_accumulation=2, micro_batch=5).items == 60


def test_the_table_tells_where_each_constant_comes_from() -> None:
    rows = {line.split()[0]: line for line in CostModel(call=1e-3, seconds_per_item=2e-5).table().splitlines()[1:]}
    assert set(rows) == {each.name for each in fields(CostModel)}
    told = {name: next(word for word in row.split() if word in WORDS) for name, row in rows.items()}
    assert told["link_limit"] == "sourced"
    assert told["host_bandwidth"] == "derived"
    assert told["clock"] == "assumed"
    assert told["call"] == told["seconds_per_item"] == "given"


WORDS = {"sourced", "derived", "assumed", "given"}


@pytest.mark.parametrize(
    "wrong", [{"host_bandwidth": 0}, {"call": -1.0}, {"clock": float("inf")}, {"least": float("nan")}]
)
def test_a_constant_that_cannot_be_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(BadArgument, match=next(iter(wrong))):
        CostModel(**wrong)  # type: ignore[arg-type]  # which of them it is, is not known here


@pytest.mark.parametrize("wrong", [{"replicas": 0}, {"bytes_in": -1}, {"flops": -1}])
def test_work_that_cannot_be_is_named(wrong: dict[str, int]) -> None:
    with pytest.raises(BadArgument, match=next(iter(wrong))):
        Work(**wrong)  # type: ignore[arg-type]  # which of them it is, is not known here
