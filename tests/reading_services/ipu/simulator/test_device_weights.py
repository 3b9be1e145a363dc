"""Two copies of the weights: when each is written, and how often."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from tests.reading_services.ipu.simulator.device_models import Linear

X, TARGET = torch.ones(1, 3), torch.ones(1, 2)


class Spied:
    """A training model, with a count of the copies home."""

    def __init__(self) -> None:
        self.model = Linear()
        self.held = self.model.layer.weight
        self.training = poptorch.trainingModel(self.model)
        self.copies = 0
        original = self.training.copyWeightsToHost

        def counted() -> None:
            self.copies += 1
            original()

        self.training.copyWeightsToHost = counted  # type: ignore[method-assign]  # to be counted

    def train(self) -> None:
        self.training(X, TARGET)


LOOKS: dict[str, Callable[[Spied], Any]] = {
    "a parameter": lambda spied: spied.model.layer.weight,
    "a held parameter": lambda spied: spied.held.sum(),
    "parameters": lambda spied: spied.model.parameters(),
    "named_parameters": lambda spied: spied.model.named_parameters(),
    "state_dict": lambda spied: spied.model.state_dict(),
    "forward": lambda spied: spied.model(X),
    "the executor's parameter": lambda spied: spied.training.layer.weight,
    "the executor's state_dict": lambda spied: spied.training.state_dict(),
    "the executor's parameters": lambda spied: list(spied.training.parameters()),
    "a copy": lambda spied: copy.deepcopy(spied.model),
    "a pickle": lambda spied: pickle.dumps(spied.model),
    "print": lambda spied: repr(spied.held),
    "asked for": lambda spied: spied.training.copyWeightsToHostIfNeeded(),
    "detaching": lambda spied: spied.training.detachFromDevice(),
    "destroying": lambda spied: spied.model.destroy(),  # type: ignore[operator]  # there while it is wrapped
}


@pytest.mark.parametrize("look", LOOKS)
def test_one_copy_for_each_look_at_trained_weights(look: str) -> None:
    spied = Spied()
    before = spied.held.detach().clone()
    for _ in range(3):
        spied.train()
    assert spied.copies == 0
    LOOKS[look](spied)
    assert spied.copies == 1
    assert not torch.equal(before, spied.held.detach())
    list(spied.model.parameters())
    assert spied.copies == 1
    assert spied.training.copyWeightsToHostIfNeeded() is False


def test_each_group_of_calls_is_copied_once_and_none_without_training() -> None:
    spied = Spied()
    list(spied.model.parameters())
    spied.training.compile(X, TARGET)
    list(spied.model.parameters())
    assert spied.copies == 0
    for group in range(3):
        spied.train()
        spied.train()
        list(spied.model.parameters())
        spied.model(X)
        assert spied.copies == group + 1


def test_the_host_does_not_reach_the_device_by_itself() -> None:
    model = Linear()
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0))
    out, _ = training(X, TARGET)
    with torch.no_grad():
        model.layer.weight.zero_()
        model.layer.bias.zero_()
    assert torch.equal(training(X, TARGET)[0], out)
    list(model.parameters())  # and now the device's are home again
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


def test_stale_weights_can_be_copied_back_to_the_device() -> None:
    spied = Spied()
    first = spied.training(X, TARGET)[1]
    spied.training.copyWeightsToDevice()
    assert spied.copies == 0
    assert torch.equal(spied.training(X, TARGET)[1], first)


def test_inference_follows_training() -> None:
    spied = Spied()
    inference = poptorch.inferenceModel(spied.model)
    other = poptorch.inferenceModel(spied.model)
    assert type(other.model).__name__ == "PoptorchLinear"
    copies: list[None] = []
    original = inference.copyWeightsToDevice
    inference.copyWeightsToDevice = lambda: copies.append(original())  # type: ignore[method-assign]  # to count
    for group in range(3):
        spied.train()
        spied.train()
        out = inference(X)
        assert torch.equal(out, inference(X))
        assert spied.copies == group + 1
        assert len(copies) == group + 1
        assert torch.equal(other(X), out)
        torch.testing.assert_close(spied.model(X), out)
        assert spied.copies == group + 1


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
    assert type(model).__name__ == "PoptorchLinear"
    assert isinstance(model, Linear)
    assert {name: id(each) for name, each in model.named_parameters()} == identity
    assert isinstance(weight, nn.Parameter)
    assert repr(weight) == repr(nn.Parameter(weight.detach()))
    assert training.model is model
    with pytest.raises(RuntimeError, match=r"Model has already been wrapped in 'poptorch.trainingModel'"):
        poptorch.trainingModel(model)
    with pytest.raises(RuntimeError, match="Model has already been wrapped"):
        poptorch.trainingModel(training)
    training.destroy()  # never compiled: nothing happens
    assert type(model).__name__ == "PoptorchLinear"
    training(X, TARGET)
    model.destroy()  # type: ignore[operator]  # there while it is wrapped
    assert type(model) is Linear
    assert type(weight) is nn.Parameter
    assert not hasattr(model, "copyWeightsToHostIfNeeded")
    again = poptorch.trainingModel(model)
    again(X, TARGET)
    again.destroy()
    training(X, TARGET)  # compiles again, and wraps it again
    assert type(model).__name__ == "PoptorchLinear"
    training.destroy()
    assert type(model) is Linear


def test_copies_and_pickles_of_a_wrapped_model_are_plain() -> None:
    model = Linear()
    training = poptorch.trainingModel(model)
    training(X, TARGET)
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    loaded = Linear()
    loaded.load_state_dict(torch.load(stream))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert type(other) is Linear
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
