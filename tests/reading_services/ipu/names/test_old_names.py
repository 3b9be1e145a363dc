"""Under PopTorch's own names a few things pass that are refused otherwise, each with one warning."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from loader2.porting.old_modules import POPTORCH
from loader2.porting.old_names import old_names
from reading_services.ipu.names.absent import INSTEAD
from tests.reading_services.ipu.simulator.device_models import Linear

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def under_old_names() -> Iterator[None]:
    with old_names("poptorch"):
        yield


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def rows(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3), torch.randn(count, 2)


@pytest.mark.parametrize(("ipus", "there"), [(1, True), (64, True), (65, False)])
def test_there_is_hardware_under_old_names(ipus: int, there: bool) -> None:
    with old_names("poptorch"):
        named: Any = import_module("poptorch")
        assert (named.ipuHardwareIsAvailable(ipus), named.ipuHardwareVersion()) == (there, 2)
        with old_names("poptorch"):
            pass
        assert named.ipuHardwareIsAvailable()
    with old_names("torchdata"):
        assert (poptorch.ipuHardwareIsAvailable(ipus), poptorch.ipuHardwareVersion()) == (False, 0)


def test_synthetic_data_of_frozen_options_are_for_later_models(
    under_old_names: None, caplog: pytest.LogCaptureFixture
) -> None:
    options, samples = poptorch.Options(), torch.utils.data.TensorDataset(*rows(4))
    first = poptorch.inferenceModel(nn.Linear(3, 2), options)
    poptorch.DataLoader(options, samples)
    assert options.enableSyntheticData(True) is options
    assert len(warnings_of(caplog)) == 1
    later = poptorch.inferenceModel(nn.Linear(3, 2), options)
    x = torch.ones(2, 3)
    assert first(x).abs().sum() > 0
    assert later(x).abs().sum() == 0
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.deviceIterations(2)


def test_a_second_training_model_replaces_one_that_was_never_compiled(
    under_old_names: None, caplog: pytest.LogCaptureFixture
) -> None:
    model, (x, target) = Linear(), rows(4)
    first = poptorch.trainingModel(model, optimizer=sgd(model))
    with pytest.raises(poptorch.Error, match="Unsupported optimizer"):
        poptorch.trainingModel(model, optimizer=torch.optim.LBFGS(model.parameters()))
    assert vars(model)["_poptorch_trainer"] is first
    second = poptorch.trainingModel(model, optimizer=sgd(model))
    assert len(warnings_of(caplog)) == 1
    before = model.layer.weight.clone()
    second(x, target)
    assert not torch.equal(before, model.layer.weight)
    for refused in (lambda: first(x, target), lambda: poptorch.trainingModel(model)):
        with pytest.raises(RuntimeError, match="Model has already been wrapped"):
            refused()
    second.destroy()
    first(x, target)  # as after any destroy()


def test_a_second_training_model_replaces_one_whose_options_have_changed(
    under_old_names: None, caplog: pytest.LogCaptureFixture
) -> None:
    model, options, (x, target) = Linear(), poptorch.Options(), rows(4)
    first = poptorch.trainingModel(model, options, sgd(model))
    first(x, target)
    with pytest.raises(RuntimeError, match="Model has already been wrapped"):
        poptorch.trainingModel(model, options)
    options.enableSyntheticData(True)
    second = poptorch.trainingModel(model, options, sgd(model))
    assert len(warnings_of(caplog)) == 2
    assert not first.isAttachedToDevice()
    trained = deepcopy(model.state_dict())
    second(x, target)
    assert all(
        torch.equal(one, other) for one, other in zip(trained.values(), model.state_dict().values(), strict=True)
    )


class Normed(nn.Module):
    """A layer with a buffer that each forward pass changes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.BatchNorm1d(3), nn.Linear(3, 2)

    def forward(self, x: Tensor, target: Tensor) -> Any:
        out = self.layer(self.norm(x))
        return out, nn.functional.mse_loss(out, target)


@pytest.mark.parametrize("times", [2, 3])
def test_inputs_that_have_grown_are_compiled_for_and_training_goes_on(
    times: int, under_old_names: None, caplog: pytest.LogCaptureFixture
) -> None:
    model = Normed()
    reference = deepcopy(model)
    training = poptorch.trainingModel(model, poptorch.Options().deviceIterations(2), sgd(model))
    optimizer = sgd(reference)
    for count in (8, 8, 8 * times, 8 * times):
        x, target = rows(count)
        out, _ = training(x, target)
        assert len(out) == count // 2
        for half in (slice(None, count // 2), slice(count // 2, None)):
            optimizer.zero_grad()
            reference(x[half], target[half])[1].backward()
            optimizer.step()
    assert len(warnings_of(caplog)) == 1
    torch.testing.assert_close(dict(model.state_dict()), dict(reference.state_dict()))


def test_what_the_host_has_changed_does_not_reach_the_device_by_compiling_again(under_old_names: None) -> None:
    model = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(model)
    before = inference(torch.ones(1, 3))
    nn.init.zeros_(model.weight)
    assert torch.equal(inference(torch.ones(2, 3)), before.repeat(2, 1))


def test_replicas_keep_their_buffers_when_inputs_have_grown(under_old_names: None) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: Tensor
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.seen += x.sum()
            return self.seen.clone()

    options = poptorch.Options().replicationFactor(2).broadcastBuffers(False)
    inference = poptorch.inferenceModel(Counting(), options)
    assert inference(torch.tensor([1.0, 10.0])).tolist() == [1.0, 10.0]
    assert inference(torch.tensor([1.0, 1.0, 10.0, 10.0])).tolist() == [3.0, 30.0]


def test_inputs_that_cannot_be_compiled_for_leave_the_model_as_it_was(under_old_names: None) -> None:
    class Small(Normed):
        def forward(self, x: Tensor, target: Tensor) -> Any:
            outputs = super().forward(x, target)
            if len(x) > 4:
                raise ValueError("too many rows")
            return outputs

    models, losses = [Small(), Small()], []
    models[1].load_state_dict(models[0].state_dict())
    x, target = rows(4)
    for number, model in enumerate(models):
        training = poptorch.trainingModel(model, optimizer=sgd(model))
        training(x, target)
        if number:
            with pytest.raises(ValueError, match="too many rows"):
                training(*rows(8))
        losses.append(training(x, target)[1])
    assert torch.equal(*losses)
    torch.testing.assert_close(dict(models[0].state_dict()), dict(models[1].state_dict()), rtol=0, atol=0)


X, Y = rows(8)
OTHERS: dict[str, tuple[Any, ...]] = {
    "no rows": (X[:0], {"y": Y[:0], "n": 1}),
    "fewer rows": (X[:4], {"y": Y[:4], "n": 1}),
    "rows of one": (torch.cat([X, X]), {"y": Y, "n": 1}),
    "other factors": (torch.cat([X, X]), {"y": torch.cat([Y, Y, Y]), "n": 1}),
    "no whole factor": (torch.cat([X, X[:4]]), {"y": torch.cat([Y, Y[:4]]), "n": 1}),
    "columns": (torch.cat([X, X])[:, :2], {"y": torch.cat([Y, Y]), "n": 1}),
    "dtype": (torch.cat([X, X]).double(), {"y": torch.cat([Y, Y]), "n": 1}),
    "rank": (torch.cat([X, X])[:, None], {"y": torch.cat([Y, Y]), "n": 1}),
    "structure": (torch.cat([X, X]), {"z": torch.cat([Y, Y]), "n": 1}),
    "value": (torch.cat([X, X]), {"y": torch.cat([Y, Y]), "n": 2}),
    "no tensor": (1, {"y": torch.cat([Y, Y]), "n": 1}),
}


class Taking(nn.Module):
    """Takes a tensor and a dictionary."""

    def forward(self, x: Tensor, given: dict[str, Any]) -> Tensor:
        return x


@pytest.mark.parametrize("arguments", OTHERS.values(), ids=OTHERS)
def test_any_other_difference_stays_refused(
    arguments: tuple[Any, ...], under_old_names: None, caplog: pytest.LogCaptureFixture
) -> None:
    inference = poptorch.inferenceModel(Taking(), poptorch.Options().deviceIterations(2))
    inference(X, {"y": Y, "n": 1})
    caplog.clear()
    with pytest.raises(poptorch.Error, match="mismatch for"):
        inference(*arguments)
    assert warnings_of(caplog) == []
    assert torch.equal(inference(X, {"y": Y, "n": 1}), X)


def test_a_number_without_dimensions_has_no_rows_to_grow(under_old_names: None) -> None:
    inference = poptorch.inferenceModel(Taking())
    inference(X, {"n": torch.tensor(1.0)})
    with pytest.raises(poptorch.Error, match="Shape mismatch for x"):
        inference(torch.cat([X, X]), {"n": torch.tensor(1.0)})


@pytest.mark.parametrize("names", ["torchdata", None])
def test_without_old_names_all_of_it_is_refused(names: str | None) -> None:
    with old_names(names) if names else nullcontext():
        model, options = Linear(), poptorch.Options()
        training = poptorch.trainingModel(model, options)
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            options.enableSyntheticData(True)
        with pytest.raises(RuntimeError, match="Model has already been wrapped"):
            poptorch.trainingModel(model)
        training(*rows(2))
        with pytest.raises(poptorch.Error, match="Shape mismatch for x"):
            training(*rows(4))


class Annotated(nn.Module):
    """A model with all that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), poptorch.CPU(nn.Linear(3, 2), "second")
        self.on_host = poptorch.CPU(self.doubled, "doubled")

    def doubled(self, x: Tensor) -> Any:
        return self.first(x) * 2

    def forward(self, x: Tensor) -> Any:
        with poptorch.NameScope("first"), poptorch.Attribute(__outline={"layer": "first"}):
            x = poptorch.set_available_memory(self.on_host(x), 0.3)
        return poptorch.nop(self.second(poptorch.ipu_print_tensor(x, "x")))


def test_annotations_change_nothing() -> None:
    model, x = Annotated(), torch.randn(4, 3)
    assert [name for name, _ in model.named_parameters()] == ["first.weight", "first.bias"]
    inference = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(2))
    torch.testing.assert_close(inference(x), model.second(model.first(x) * 2))
    assert poptorch.printIpuTensor(x) is x
    with old_names("poptorch"):
        assert import_module("poptorch").CPU is poptorch.CPU


@pytest.mark.parametrize(("name", "given"), [("nop", [1]), ("set_available_memory", [[], 0.1]), ("NameScope", [1])])
def test_annotations_refuse_what_they_do_not_take(name: str, given: list[Any]) -> None:
    with pytest.raises((poptorch.Error, AssertionError), match=r"must (take a torch\.Tensor|be a string)"):
        getattr(poptorch, name)(*given)


@pytest.mark.parametrize("name", INSTEAD)
def test_a_name_without_counterpart_says_what_to_write(name: str) -> None:
    text = re.escape(INSTEAD[name])
    with pytest.raises(AttributeError, match=text):
        getattr(poptorch, name)
    with old_names("poptorch"):
        with pytest.raises(AttributeError, match=rf"poptorch\.{name} is not in loader2: {text}"):
            getattr(import_module("poptorch"), name)
        with pytest.raises(ImportError, match=text):
            exec(f"from poptorch import {name}", {})


def test_the_page_has_all_names_without_counterpart() -> None:
    page = (ROOT / "docs" / "coming-from.md").read_text("utf-8")
    table = dict(re.findall(r"^\| (`[^|]*`) \| (.*) \|$", page, re.MULTILINE))
    assert {
        name: text for names, text in table.items() for name in re.findall(r"`(\w+)`", names)
    }.items() >= INSTEAD.items()
    assert not {*INSTEAD} & {*dir(poptorch)}
    assert {*POPTORCH} == {"poptorch", "popdist", "popdist.poptorch"} | {
        f"poptorch.{name}" for name in ("enums", "optim", "options", "profiling")
    }
