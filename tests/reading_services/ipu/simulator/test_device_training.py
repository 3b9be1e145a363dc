"""Training on the device equals the same training written by hand in plain torch."""

import pickle
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from reading_services.ipu.host.arithmetic import Batching
from tests.reading_services.ipu.simulator.device_models import Linear, trained_by_hand
from tests.reading_services.ipu.simulator.test_device_rows import options_of

Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
OPTIMISERS: dict[str, tuple[Make, Make]] = {
    "sgd": (partial(torch.optim.SGD, lr=0.1), partial(poptorch.optim.SGD, lr=0.1)),
    "momentum": (
        partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
        partial(poptorch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True, loss_scaling=8.0),
    ),
    "adam": (partial(torch.optim.Adam, lr=0.01), partial(poptorch.optim.Adam, lr=0.01)),
    "adamw": (
        partial(torch.optim.AdamW, lr=0.01, weight_decay=0.1),
        partial(poptorch.optim.AdamW, lr=0.01, weight_decay=0.1, accum_type=torch.float16),
    ),
    "rmsprop": (partial(torch.optim.RMSprop, lr=0.01), partial(poptorch.optim.RMSprop, lr=0.01)),
}
Reduction = poptorch.ReductionType


def equal(one: nn.Module, other: nn.Module, tolerance: float = 0.0) -> None:
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=name)


def data(rows: int, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(rows, 3, generator=generator), torch.randn(rows, 2, generator=generator)) for _ in range(3)]


@pytest.mark.parametrize("reduction", [Reduction.Mean, Reduction.Sum])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_grid_of_sizes_bit_for_bit(name: str, reduction: Reduction) -> None:
    for iterations, accumulation, replicas in product((1, 3), (1, 2, 3), (1, 2, 4)):
        batching = Batching(micro_batch=2, iterations=iterations, accumulation=accumulation, replicas=replicas)
        assert batching.combined is not None
        for own, by_hand in zip(OPTIMISERS[name], [OPTIMISERS[name][0]] * 2, strict=True):
            torch.manual_seed(iterations + 10 * accumulation + 100 * replicas)
            model = Linear()
            steps = data(batching.combined)
            expected = trained_by_hand(model, by_hand, steps, batching, mean=reduction == Reduction.Mean)
            options = options_of(batching)
            options.Training.accumulationAndReplicationReductionType(reduction)
            training = poptorch.trainingModel(model, options, own(model.parameters()))
            for step in steps:
                training(*step)
            equal(model, expected)


def test_groups_count_all_replicas() -> None:
    batching = Batching(micro_batch=1, replicas=4, group_size=2, iterations=2, accumulation=2)
    assert batching.combined is not None
    model = Linear()
    expected = trained_by_hand(model, OPTIMISERS["momentum"][0], data(batching.combined), batching)
    training = poptorch.trainingModel(model, options_of(batching), OPTIMISERS["momentum"][0](model.parameters()))
    for step in data(batching.combined):
        training(*step)
    equal(model, expected)


def trained(options: poptorch.Options, lr: float, x: Tensor, target: Tensor) -> nn.Module:
    torch.manual_seed(3)
    model = Linear()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=lr))
    for _ in range(10):
        training(x, target)
    return model


def accumulating(number: int, reduction: Reduction | None = None) -> poptorch.Options:
    options = poptorch.Options()
    options.Training.gradientAccumulation(number)
    if reduction is not None:
        options.Training.accumulationAndReplicationReductionType(reduction)
    return options


def test_accumulation_is_a_larger_batch() -> None:
    x, target = torch.randn(4, 3), torch.randn(4, 2)
    for reduction in (None, Reduction.Mean):
        one, two = (trained(accumulating(n, reduction), 0.1, x, target) for n in (1, 2))
        equal(one, two, 1e-6)
    one = trained(accumulating(1, Reduction.Sum), 0.02, x, target)
    two = trained(accumulating(2, Reduction.Sum), 0.01, x, target)
    equal(one, two, 1e-6)


def test_replicas_that_see_the_same_rows_are_as_one() -> None:
    x, target = torch.randn(2, 3), torch.randn(2, 2)
    one = trained(poptorch.Options(), 0.1, x, target)
    four = trained(poptorch.Options().replicationFactor(4), 0.1, x.repeat(4, 1), target.repeat(4, 1))
    equal(one, four, 1e-6)


def test_without_an_optimiser_it_is_sgd() -> None:
    batching = Batching(micro_batch=2)
    model = Linear()
    expected = trained_by_hand(model, partial(torch.optim.SGD, lr=0.01), data(2), batching)
    training = poptorch.trainingModel(model)
    for step in data(2):
        training(*step)
    equal(model, expected)


def test_parameters_that_do_not_train() -> None:
    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.left, self.trained = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
            self.frozen.requires_grad_(False)

        def forward(self, x: Tensor, target: Tensor) -> Tensor:
            return nn.functional.mse_loss(self.trained(self.left(self.frozen(x))), target)

    model = Three()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.Adam([*model.frozen.parameters(), *model.trained.parameters()], lr=0.1)
    poptorch.trainingModel(model, optimizer=optimizer)(torch.randn(4, 3), torch.randn(4, 2))
    after = model.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"trained.weight", "trained.bias"}


def test_tied_weights_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
            self.other.weight = self.one.weight

        def forward(self, x: Tensor, target: Tensor) -> Any:
            out = self.other(self.one(x))
            return out, nn.functional.mse_loss(out, target)

    model, batching = Tied(), Batching(micro_batch=2, iterations=2)
    steps = [(x, torch.cat([target, target[:, :1]], 1)) for x, target in data(4)]
    expected = trained_by_hand(model, OPTIMISERS["adam"][0], steps, batching)
    training = poptorch.trainingModel(model, options_of(batching), OPTIMISERS["adam"][0](model.parameters()))
    for step in steps:
        training(*step)
        training.detachFromDevice()
    equal(model, expected)
    assert model.one.weight is model.other.weight


def test_hyper_parameters_are_those_of_the_time() -> None:
    batching = Batching(micro_batch=2)
    model = Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    expected = Linear()
    expected.load_state_dict(model.state_dict())
    by_hand = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)
    training = poptorch.trainingModel(model, options_of(batching), optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.param_groups[0]["lr"] = 17.0  # not seen
    for number, (x, target) in enumerate(data(2)):
        training(x, target)
        by_hand.zero_grad()
        expected(x, target)[1].backward()
        by_hand.step()
        equal(model, expected)
        if number == 1:
            optimizer.param_groups[0]["lr"] = by_hand.param_groups[0]["lr"] = 0.01
            training.setOptimizer(optimizer)  # momentum goes on
    assert scheduler.get_last_lr() == [0.1]


def test_a_step_of_ones_own_is_not_called(caplog: pytest.LogCaptureFixture) -> None:
    class Own(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]  # it is to be wrong
            raise AssertionError

    class Inherited(torch.optim.SGD):
        pass

    for kind, warned in ((Inherited, False), (Own, True)):
        model = Linear()
        caplog.clear()
        poptorch.trainingModel(model, optimizer=kind(model.parameters(), lr=0.1))(torch.ones(1, 3), torch.ones(1, 2))
        assert ("overrides step()" in caplog.text) == warned


def test_optimisers_that_a_device_has_not() -> None:
    model = Linear()
    with pytest.raises(poptorch.Error, match="Unsupported optimizer type Adagrad"):
        poptorch.trainingModel(model, optimizer=torch.optim.Adagrad(model.parameters()))
    assert type(model) is Linear  # it was not wrapped


def test_the_type_of_accumulators_is_fixed_by_compiling() -> None:
    model = Linear()
    make = partial(poptorch.optim.SGD, list(model.parameters()), lr=0.1)
    training = poptorch.trainingModel(model, optimizer=make())
    training.setOptimizer(make(accum_type=torch.half))
    training(torch.ones(1, 3), torch.ones(1, 2))
    with pytest.raises(ValueError, match="is already compiled"):
        training.setOptimizer(make())


def test_half_accumulators_keep_a_running_mean() -> None:
    model = Linear()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, accum_type=torch.half)
    strategy = poptorch.trainingModel(model, optimizer=optimizer).options.Training
    assert strategy.meanAccumulationAndReplicationReductionStrategy == poptorch.MeanReductionStrategy.Running


def test_lamb_and_clipping() -> None:
    model, batching = Linear(), Batching(micro_batch=2, iterations=2)
    expected = trained_by_hand(model, partial(poptorch.optim.LAMB, lr=0.1, weight_decay=0.01), data(4), batching)
    optimizer = poptorch.optim.LAMB(model.parameters(), lr=0.1, weight_decay=0.01)
    training = poptorch.trainingModel(model, options_of(batching), optimizer)
    for step in data(4):
        training(*step)
    equal(model, expected)
    clipped = Linear()
    before = torch.cat([each.detach().flatten() for each in clipped.parameters()])
    limited = poptorch.optim.SGD(clipped.parameters(), lr=1.0, max_grad_norm=1e-3)
    poptorch.trainingModel(clipped, optimizer=limited)(*data(2)[0])
    after = torch.cat([each.detach().flatten() for each in clipped.parameters()])
    assert (after - before).norm().item() == pytest.approx(1e-3, rel=1e-3)


def tensorflows_rmsprop(
    weights: list[Tensor], slots: list[list[Tensor]], lr: float, alpha: float, eps: float, decay: float, momentum: float
) -> None:
    """One update as TensorFlow does it; the slots of a weight are rms, mg (if centered) and mom."""
    for weight, (rms, mg, mom) in zip(weights, slots, strict=True):
        assert weight.grad is not None
        g = weight.grad + decay * weight.data
        rms.copy_(alpha * rms + (1 - alpha) * g**2)
        denominator = rms + eps
        if mg is not mom:
            mg.copy_(alpha * mg + (1 - alpha) * g)
            denominator = denominator - mg**2
        mom.copy_(momentum * mom + lr * g / denominator.sqrt())
        weight.data -= mom


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_as_tensorflow_has_it(centered: bool, momentum: float, caplog: pytest.LogCaptureFixture) -> None:
    model, host, expected, batching = Linear(), Linear(), Linear(), Batching(micro_batch=2)
    for other in (host, expected):
        other.load_state_dict(model.state_dict())
    settings: Any = {"alpha": 0.9, "eps": 1e-3, "weight_decay": 0.01, "momentum": momentum}
    make: Any = partial(poptorch.optim.RMSprop, lr=0.05, centered=centered, use_tf_variant=True, **settings)
    optimizer, by_host = make(model.parameters()), make(host.parameters())
    training = poptorch.trainingModel(model, options_of(batching), optimizer)
    slots = []
    for weight in expected.parameters():
        mom = torch.zeros_like(weight)
        slots.append([torch.ones_like(weight), torch.zeros_like(weight) if centered else mom, mom])
    for number, step in enumerate(data(5)):
        lr = 0.05 if number < 3 else 0.01
        if number == 3:
            optimizer.param_groups[0]["lr"] = by_host.param_groups[0]["lr"] = lr
            training.setOptimizer(optimizer)
        training(*step)
        for each in (host, expected):
            each.zero_grad()
            each(*step)[1].backward()
        by_host.step()
        tensorflows_rmsprop(list(expected.parameters()), slots, lr, 0.9, 1e-3, 0.01, momentum)
    equal(model, host)
    for one, two in zip(host.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, two)
    assert not caplog.text


def test_adamw_without_bias_correction() -> None:
    model, expected, batching = Linear(), Linear(), Batching(micro_batch=2)
    expected.load_state_dict(model.state_dict())
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1, bias_correction=False)
    training = poptorch.trainingModel(model, options_of(batching), optimizer)
    means = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in expected.parameters()]
    for step in data(4):
        training(*step)
        expected.zero_grad()
        expected(*step)[1].backward()
        for weight, (mean, square) in zip(expected.parameters(), means, strict=True):
            assert weight.grad is not None
            mean.copy_(0.9 * mean + 0.1 * weight.grad)
            square.copy_(0.999 * square + 0.001 * weight.grad**2)
            weight.data -= 0.05 * (0.1 * weight.data + mean / (square.sqrt() + 1e-8))
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(AssertionError, match="amsgrad"):
        poptorch.optim.AdamW(model.parameters(), amsgrad=True, bias_correction=False)


@pytest.mark.parametrize("kind", [poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW,
                                  poptorch.optim.RMSprop, poptorch.optim.LAMB])  # fmt: skip
def test_what_an_optimiser_was_given_may_change(kind: Any) -> None:
    class Mine(kind):  # type: ignore[misc]  # it is one of many
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, 0.3, loss_scaling=4.0)

    assert (Mine(Linear().parameters()).loss_scaling, Mine(Linear().parameters()).defaults["lr"]) == (4.0, 0.3)
    made = kind(Linear().parameters(), 0.1, weight_decay=0.5, loss_scaling=None, max_grad_norm=2.0)
    assert {poptorch.optim.Optimizer, torch.optim.Optimizer} <= set(kind.__mro__)
    for optimizer in (made, deepcopy(made), pickle.loads(pickle.dumps(made))):
        attributes = optimizer.variable_attrs
        constant = {"lr": False, "weight_decay": False, "loss_scaling": True, "eps": True}
        assert {name: attributes.isConstant(name) for name in constant} == constant
        assert (optimizer.loss_scaling, optimizer.max_grad_norm) == (1.0, 2.0)
    attributes.markAsVariable("loss_scaling")
    attributes.markAsConstant("lr")
    assert (attributes.isConstant("loss_scaling"), attributes.isConstant("lr")) == (False, True)
    for mark in (attributes.markAsVariable, attributes.markAsConstant):
        with pytest.raises(AssertionError, match=r"Unknown attribute nope, allowed values: \["):
            mark("nope")
    assert not made.variable_attrs.isConstant("lr")


def test_the_state_of_an_optimiser_comes_along() -> None:
    model, batching = Linear(), Batching(micro_batch=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    first, *rest = data(2)
    model(*first)[1].backward()
    optimizer.step()
    expected = Linear()
    expected.load_state_dict(model.state_dict())
    by_hand = torch.optim.Adam(expected.parameters(), lr=0.1)
    by_hand.load_state_dict(optimizer.state_dict())
    training = poptorch.trainingModel(model, options_of(batching), optimizer)
    for x, target in rest:
        training(x, target)
        by_hand.zero_grad()
        expected(x, target)[1].backward()
        by_hand.step()
    equal(model, expected)
