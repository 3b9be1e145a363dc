"""Which tensor trains."""

from __future__ import annotations

from collections.abc import Callable
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
