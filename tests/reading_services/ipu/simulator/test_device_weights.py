"""Two copies of the weights: when each is written, and how often."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from tests.reading_services.ipu.simulator.device_models import Linear

X, TARGET = torch.ones(1, 3), torch.ones(1, 2)


def test_weights_are_at_home_after_each_step() -> None:
    model = Linear()
    held = model.layer.weight
    training = poptorch.trainingModel(model)
    training.compile(X, TARGET)
    for _ in range(3):
        before = held.detach().clone()
        training(X, TARGET)
        assert not torch.equal(held.detach(), before)
        assert training.layer.weight is model.layer.weight is held
        assert torch.equal(model.state_dict()["layer.weight"], training.state_dict()["layer.weight"])
        assert training.copyWeightsToHostIfNeeded() is False
        trained = held.detach().clone()
        training.copyWeightsToHost()
        assert torch.equal(held.detach(), trained)


class Failing(Linear):
    """Raises in a pass, and not before."""

    def __init__(self, passes: int) -> None:
        super().__init__()
        self.left = [passes]

    def forward(self, x: Tensor, target: Tensor | None = None) -> Any:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise ValueError("this pass fails")
        return super().forward(x, target)


def test_what_was_trained_before_an_error_is_at_home() -> None:
    model = Failing(2)  # the one that compiles it, and one that trains
    training = poptorch.trainingModel(model, poptorch.Options().deviceIterations(2))
    before = model.layer.weight.detach().clone()
    with pytest.raises(ValueError, match="this pass fails"):
        training(X.expand(2, 3), TARGET.expand(2, 2))
    assert not torch.equal(model.layer.weight, before)


def test_the_host_does_not_reach_the_device_by_itself() -> None:
    model = Linear()
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0))
    out, _ = training(X, TARGET)
    with torch.no_grad():
        model.layer.weight.zero_()
        model.layer.bias.zero_()
    assert torch.equal(training(X, TARGET)[0], out)
    with torch.no_grad():
        model.layer.weight.zero_()
        model.layer.bias.zero_()
    training.copyWeightsToDevice()
    assert training(X, TARGET)[0].tolist() == [[0, 0]]
    state = {name: torch.ones_like(each) for name, each in model.state_dict().items()}
    found = training.load_state_dict(state)
    assert found.missing_keys == []
    assert training(X, TARGET)[0].tolist() == [[4, 4]]
    inference = poptorch.inferenceModel(model)
    assert inference(X).tolist() == [[4, 4]]
    with torch.no_grad():
        model.layer.bias.zero_()
    assert inference(X).tolist() == [[4, 4]]
    inference.copyWeightsToDevice()
    assert inference(X).tolist() == [[3, 3]]


def test_inference_follows_training() -> None:
    model = Linear()
    training = poptorch.trainingModel(model)
    inference, other = poptorch.inferenceModel(model), poptorch.inferenceModel(training)
    copies: list[None] = []
    original = inference.copyWeightsToDevice
    inference.copyWeightsToDevice = lambda: copies.append(original())  # type: ignore[method-assign]  # to count
    for group in range(3):
        training(X, TARGET)
        training(X, TARGET)
        out = inference(X)
        assert torch.equal(out, inference(X))
        assert len(copies) == group + 1
        assert torch.equal(other(X), out)
        torch.testing.assert_close(model(X), out)


def test_a_part_of_a_model_follows_training_too() -> None:
    class Outer(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor, target: Tensor) -> Any:
            return nn.functional.mse_loss(self.inner(x), target)

    inner = nn.Linear(3, 2)
    training, inference = poptorch.trainingModel(Outer(inner)), poptorch.inferenceModel(inner)
    for _ in range(2):
        before = inference(X)
        training(X, TARGET)
        assert not torch.equal(inference(X), before)
        torch.testing.assert_close(inner(X), inference(X))
    assert type(inner) is nn.Linear


def test_a_wrapped_model_is_the_same_model() -> None:
    model = Linear()
    weight, identity = model.layer.weight, {name: id(each) for name, each in model.named_parameters()}
    training = poptorch.trainingModel(model)
    assert type(model) is Linear
    assert {name: id(each) for name, each in model.named_parameters()} == identity
    assert isinstance(weight, nn.Parameter)
    assert training.model is model
    with pytest.raises(RuntimeError, match=r"Model has already been wrapped in 'poptorch.trainingModel'"):
        poptorch.trainingModel(model)
    with pytest.raises(RuntimeError, match="Model has already been wrapped"):
        poptorch.trainingModel(training)
    training.destroy()  # never compiled: nothing happens
    assert hasattr(model, "destroy")
    training(X, TARGET)
    assert model.copyWeightsToHostIfNeeded() is False  # type: ignore[operator]  # there while it is wrapped
    model.destroy()  # type: ignore[operator]  # the same
    assert vars(model).keys() == vars(Linear()).keys()
    again = poptorch.trainingModel(model)
    again(X, TARGET)
    again.destroy()
    training(X, TARGET)  # compiles again, and wraps it again
    assert hasattr(model, "destroy")
    training.destroy()
    assert not hasattr(model, "destroy")


def test_copies_and_pickles_of_a_wrapped_model_are_plain() -> None:
    model = Linear()
    training = poptorch.trainingModel(model)
    training(X, TARGET)
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    loaded = Linear()
    loaded.load_state_dict(torch.load(stream))
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert type(other) is Linear
        assert vars(other).keys() == vars(Linear()).keys()
        assert type(other.layer.weight) is nn.Parameter
        assert not vars(other.layer.weight)
        assert torch.equal(other.layer.weight, model.layer.weight)
    poptorch.trainingModel(copy.deepcopy(model))(X, TARGET)


def test_unknown_names_are_the_models() -> None:
    model = Linear()
    model.note = "n"  # type: ignore[assignment]  # any attribute
    training = poptorch.trainingModel(model)
    assert training.note == "n"
    assert training.layer is model.layer
    training.eval()
    assert not model.training
    with pytest.raises(AttributeError, match="nothing"):
        _ = training.nothing


def test_cpu_training_between_steps_works() -> None:
    model = Linear()
    training = poptorch.trainingModel(model)
    training(X, TARGET)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        model(X, TARGET)[1].backward()
        optimizer.step()
    training.copyWeightsToDevice()
    out = model(X)
    torch.testing.assert_close(training(X, TARGET)[0], out.detach())


def test_weights_of_64_bits_are_computed_in_32() -> None:
    model = Linear().double()
    training = poptorch.trainingModel(model)
    out, loss = training(X.double(), TARGET.double())
    assert out.dtype == loss.dtype == torch.float32
    assert model.layer.weight.dtype == torch.float64


@pytest.mark.parametrize("name", ["copyWeightsToHost", "copyWeightsToDevice", "detachFromDevice", "attachToDevice"])
def test_what_needs_a_compiled_model(name: str) -> None:
    training = poptorch.trainingModel(Linear())
    message = "Model has not been compiled or has been destroyed."
    with pytest.raises(poptorch.Error, match=message):
        getattr(training, name)()
    training(X, TARGET)
    training.destroy()
    with pytest.raises(poptorch.Error, match=message):
        getattr(training, name)()
    with pytest.raises(poptorch.Error, match=message):
        _ = training.rng_state
