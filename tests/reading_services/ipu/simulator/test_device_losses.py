"""The loss tensor that trains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import reading_services.ipu as poptorch

X, TARGET = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
Forward = Callable[[Tensor, Tensor], Any]


class By(nn.Module):
    """One layer, and what a function makes of its output."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(self.layer.weight)
        self.made = forward

    def forward(self, x: Tensor, target: Tensor) -> Any:
        return self.made(self.layer(x), target)


def moved(forward: Forward) -> list[float]:
    """How far one step moves the weights, in units of what the error itself would do."""
    model = By(forward)
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))(X, TARGET)
    weights: list[float] = model.layer.weight.detach().flatten().tolist()
    return weights


# Of (out - target) ** 2 at 0 with target 3 the gradient by the output is -6; by the weights that times x.
ONCE = [6.0, 12.0]


@pytest.mark.parametrize(
    "forward",
    [
        lambda out, target: (out, F.mse_loss(out, target)),
        lambda out, target: (F.mse_loss(out, target), out),
        lambda out, target: F.mse_loss(out, target),
        lambda out, target: {"out": out, "loss": nn.MSELoss()(out, target)},
        lambda out, target: (out, ((out - target) ** 2).mean()),  # a number that carries a gradient
        lambda out, target: (out, poptorch.identity_loss((out - target) ** 2, "sum")),
        lambda out, target: (out, poptorch.identity_loss((out - target) ** 2, "none")),
        lambda out, target: (out, F.mse_loss(out, target), out.detach().sum()),
    ],
)
def test_a_loss_is_found_wherever_it_is_returned(forward: Forward) -> None:
    assert moved(forward) == ONCE


class Penalised(nn.Module):
    """Two layers and batch norm; the loss has a penalty that reaches their weights in some way or other."""

    def __init__(self, make: Callable[[Penalised], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)
        object.__setattr__(self, "penalty", make(self))  # not among the modules, whatever it is

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        out = self.last(self.norm(self.first(x)))
        penalty: Tensor = self.penalty(out)  # type: ignore[operator]  # it can be called
        return poptorch.identity_loss(F.mse_loss(out, target) + penalty, "none")

    def squares(self, out: Tensor) -> Tensor:
        return out.mean() * torch.stack([(each**2).sum() for each in self.parameters()]).sum()


class Holding(nn.Module):
    """A module that has others, or weights of others."""

    def __init__(self, model: nn.Module | None = None, weight: Tensor | None = None) -> None:
        super().__init__()
        self.model, self.weight = model, weight

    def forward(self, out: Tensor) -> Tensor:
        if self.weight is not None:
            shared: Tensor = (out * self.weight.norm()).mean()
            return shared
        assert isinstance(self.model, Penalised)
        return self.model.squares(self.model.norm(self.model.first(out.expand(-1, 2))))


class Whole:
    """An object that knows a model, and is no module."""

    def __init__(self, model: Penalised) -> None:
        self.known = {"deep": [(model, "text")]}

    def __call__(self, out: Tensor, scale: float = 1.0) -> Tensor:
        return scale * self.known["deep"][0][0].squares(out)


def closing_over(model: Penalised) -> Any:
    weight = model.first.weight

    def penalty(out: Tensor) -> Tensor:
        return model.squares(out) + F.linear(model.norm(model.first(out.expand(-1, 2))), weight.T).mean()

    return penalty


WAYS: dict[str, Callable[[Penalised], Any]] = {
    "a closure": closing_over,
    "a lambda": lambda model: (
        lambda out: (model.last.weight @ torch.cat([model.first.weight] * 2, dim=1)).mean() * out[0]
    ),
    "another module": lambda model: Holding(model),
    "a partial function": lambda model: partial(Whole(model), scale=0.5),
    "a bound method": lambda model: model.squares,
    "a nested container": Whole,
    "another module, unseen": lambda model: partial(Holding(model)),
    "a shared weight": lambda model: Holding(weight=model.first.weight),
    "a shared weight, unseen": lambda model: partial(nn.Sequential(nn.Identity(), Holding(weight=model.last.weight))),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_loss_may_reach_weights_in_any_way(way: str) -> None:
    device, host = Penalised(WAYS[way]), Penalised(WAYS[way])
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(2)
    training = poptorch.trainingModel(device, options, torch.optim.SGD(device.parameters(), lr=0.01, momentum=0.9))
    optimizer = torch.optim.SGD(host.parameters(), lr=0.01, momentum=0.9)
    for step in range(3):
        x, target = torch.randn(12, 2), torch.randn(12, 1)
        training(x, target)
        for update in range(2):
            optimizer.zero_grad()
            for part in range(2):
                rows = slice(6 * update + 3 * part, 6 * update + 3 * part + 3)
                (host(x[rows], target[rows]) / 2).sum().backward()
            optimizer.step()
        if step != 1:  # reading the loss in between makes no difference
            for (name, one), other in zip(device.state_dict().items(), host.state_dict().values(), strict=True):
                torch.testing.assert_close(one, other, msg=name)
    assert all(each.grad is None for each in device.parameters())
    inference = poptorch.inferenceModel(device.eval(), poptorch.Options().deviceIterations(2))
    expected = [host.eval()(*rows) for rows in zip(x[:4].chunk(2), target[:4].chunk(2), strict=True)]
    torch.testing.assert_close(inference(x[:4], target[:4]).flatten(), torch.stack(expected).detach().flatten())


def test_what_the_host_changes_reaches_no_loss_before_it_is_copied() -> None:
    class Closing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 1)
            self.function = lambda x: self.layer(x)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.function(x)  # type: ignore[no-untyped-call]  # a lambda
            return out

    model = Closing()
    inference = poptorch.inferenceModel(model)
    before = inference(X)
    with torch.no_grad():
        model.layer.weight += 1
    assert torch.equal(inference(X), before)
    inference.copyWeightsToDevice()
    torch.testing.assert_close(inference(X), model(X).detach())


def test_a_weight_that_torch_gives_away_unseen_is_an_error() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, weight: Tensor) -> Tensor:
            return 2 * weight

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return 2 * grads[0]

    twice: Any = Twice
    model = By(lambda out, target: F.mse_loss(out, target) + twice.apply(model.layer.weight).sum())
    with pytest.raises(poptorch.Error, match=r"forward used a weight of the user's model.*autograd\.Function"):
        poptorch.trainingModel(model)(X, TARGET)
    assert model.layer.weight.grad is None


def test_a_loss_of_another_model_that_trains_too() -> None:
    judge = By(lambda out, target: F.mse_loss(out, target))
    training_judge = poptorch.trainingModel(judge, optimizer=torch.optim.SGD(judge.parameters(), lr=1.0))
    model = By(lambda out, target: F.mse_loss(out, target) + out.mean() * judge.layer.weight.detach().sum())
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    training(X, TARGET)
    assert model.layer.weight.tolist() == [ONCE]
    training_judge(X, TARGET)
    training(X, TARGET)
    assert judge.layer.weight.tolist() == [ONCE]
    out = 6.0 + 24.0
    grad = 2 * (out - 3) + sum(ONCE)
    assert model.layer.weight.tolist() == [[ONCE[0] - grad, ONCE[1] - 2 * grad]]


def test_a_loss_need_not_be_returned() -> None:
    def by_function(out: Tensor, target: Tensor) -> Tensor:
        F.mse_loss(out, target)
        return out

    def by_mark(out: Tensor, target: Tensor) -> Tensor:
        poptorch.identity_loss((out - target) ** 2, reduction="mean")
        return out

    assert moved(by_function) == ONCE
    assert moved(by_mark) == ONCE


def test_several_losses_that_feed_one() -> None:
    def marked(out: Tensor, target: Tensor) -> Any:
        first, second = F.mse_loss(out, target), F.mse_loss(out, target, reduction="sum")
        return out, poptorch.identity_loss(first + second, reduction="none")

    def returned(out: Tensor, target: Tensor) -> Any:
        return out, F.mse_loss(out, target) + F.mse_loss(out, target)

    def scaled(out: Tensor, target: Tensor) -> Any:
        return out, 2 * poptorch.identity_loss(F.mse_loss(out, target), "none"), F.mse_loss(out.detach(), target)

    assert moved(marked) == [12.0, 24.0]
    assert moved(returned) == [12.0, 24.0]
    assert moved(scaled) == ONCE  # what is marked trains, and not what was made of it


def test_a_marked_loss_may_have_any_shape() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            return poptorch.identity_loss(self.scale * x, reduction="none")

    model = Rows()
    out = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))(torch.arange(4.0))
    assert out.shape == (4,)
    assert model.scale.item() == -6


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (lambda out, target: out, "Couldn't find a loss in graph"),
        (lambda out, target: (out, out.detach().sum()), "Couldn't find a loss in graph"),
        (lambda out, target: F.mse_loss(out.detach(), target), "Couldn't find a loss in graph"),
        (lambda out, target: (F.mse_loss(out, target), F.l1_loss(out, target)), "Multiple independent losses found"),
        (
            lambda out, target: [poptorch.identity_loss(out, "sum"), poptorch.identity_loss(2 * out, "sum")],
            "Multiple independent losses found in graph",
        ),
        (lambda out, target: [F.l1_loss(out, target), poptorch.identity_loss(out, "sum")], "Multiple independent"),
    ],
)
def test_no_loss_or_too_many(forward: Forward, said: str) -> None:
    with pytest.raises(poptorch.Error, match=said):
        moved(forward)


def test_identity_loss_by_itself() -> None:
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    assert poptorch.identity_loss(x, "sum").item() == 4
    assert poptorch.identity_loss(x, "mean").item() == 2
    assert poptorch.identity_loss(x, reduction="none").tolist() == [1, 3]
    with pytest.raises(AssertionError, match="Unsupported reduction type!"):
        poptorch.identity_loss(x, "max")


def test_where_forward_runs() -> None:
    class Where(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if poptorch.isRunningOnIpu() else x

    model = Where()
    assert model(X).tolist() == X.tolist()
    assert poptorch.inferenceModel(model)(X).tolist() == (X + 1).tolist()
    assert model(X).tolist() == X.tolist()
    assert not poptorch.isRunningOnIpu()


def test_an_error_in_forward_leaves_things_as_they_were() -> None:
    class Bad(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("no")

    model = poptorch.inferenceModel(Bad())
    for _ in range(2):
        with pytest.raises(KeyError):
            model(X)
        assert not poptorch.isRunningOnIpu()
        assert not model.isCompiled()
        assert torch.is_grad_enabled()
