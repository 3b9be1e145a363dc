"""Compiling, attaching, detaching, destroying; and which device that is."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from tests.reading_services.ipu.simulator.device_models import Linear

X, TARGET = torch.ones(1, 3), torch.ones(1, 2)


def test_compiling_runs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model = Linear()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    training = poptorch.trainingModel(model)
    assert not training.isCompiled()
    assert not training.isAttachedToDevice()
    assert training.compile(X, TARGET) is None  # type: ignore[func-returns-value]  # it is what is tested
    assert training.isCompiled()
    assert training.isAttachedToDevice()
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())
    assert "ignored" not in caplog.text
    training.compile(X, TARGET)
    assert "Call to compile() ignored: the executable is already compiled" in caplog.text
    with pytest.raises(poptorch.Error, match="Shape mismatch"):
        training(torch.ones(2, 3), torch.ones(2, 2))
    training.destroy()
    assert not training.isCompiled()
    assert not training.isAttachedToDevice()
    training(torch.ones(2, 3), torch.ones(2, 2))


@pytest.mark.parametrize("kind", [poptorch.ConnectionType.Always, poptorch.ConnectionType.OnDemand])
def test_attached_and_detached(kind: poptorch.ConnectionType) -> None:
    torch.manual_seed(0)
    expected, model = Linear(), Linear()
    expected.load_state_dict(model.state_dict())
    steady, moving = (
        poptorch.trainingModel(each, poptorch.Options().connectionType(kind), torch.optim.Adam(each.parameters()))
        for each in (expected, model)
    )
    for _ in range(3):
        steady(X, TARGET)
        moving(X, TARGET)
        assert moving.isAttachedToDevice()
        moving.detachFromDevice()
        assert not moving.isAttachedToDevice()
    moving.attachToDevice()
    with pytest.raises(poptorch.Error, match="Device is already attached"):
        moving.attachToDevice()
    assert torch.equal(expected.layer.weight, model.layer.weight)
    moving.detachFromDevice()
    with pytest.raises(poptorch.Error, match="Device is not attached"):
        moving.detachFromDevice()


def test_weights_changed_while_detached_are_taken_up() -> None:
    model = Linear()
    inference = poptorch.inferenceModel(model)
    inference(X)
    inference.detachFromDevice()
    nn.init.zeros_(model.layer.weight)
    nn.init.zeros_(model.layer.bias)
    assert inference(X).tolist() == [[0, 0]]


def test_offline() -> None:
    options = poptorch.Options().useOfflineIpuTarget()
    model = poptorch.inferenceModel(Linear(), options)
    with pytest.raises(AssertionError, match="Trying to run a model on an offline device"):
        model(X)
    with pytest.raises(poptorch.Error, match="has not been compiled"):
        model.attachToDevice()
    model.compile(X)
    assert model.isCompiled()
    assert not model.isAttachedToDevice()
    with pytest.raises(AssertionError, match="Trying to attach to an offline device"):
        model.attachToDevice()
    with pytest.raises(AssertionError, match="Trying to run a model on an offline device"):
        model(X)


def test_a_device_is_held_by_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    options = poptorch.Options().useIpuId(733)
    one, other = poptorch.inferenceModel(Linear(), options), poptorch.inferenceModel(Linear(), options)
    one(X)
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        other(X)
    assert not other.isCompiled()
    poptorch.inferenceModel(Linear(), poptorch.Options().useIpuId(734))(X)
    one.detachFromDevice()
    other(X)
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        one(X)
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    outputs: list[Tensor] = []
    waiting = threading.Thread(target=lambda: outputs.append(one(X)))
    waiting.start()
    waiting.join(0.05)
    assert outputs == []
    other.destroy()
    waiting.join(300)
    assert len(outputs) == 1
    one.destroy()


def test_a_second_model_attaches_once_the_first_is_detached_whichever_thread_attached_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    options = poptorch.Options().useIpuId(736)
    first, second = poptorch.inferenceModel(Linear(), options), poptorch.inferenceModel(Linear(), options)
    attaching = threading.Thread(target=first, args=(X,))
    attaching.start()
    attaching.join(300)
    begun = threading.Event()
    outputs: list[Tensor] = []

    def wait() -> None:
        begun.set()
        outputs.append(second(X))

    waiting = threading.Thread(target=wait)  # it often has the number of the thread that has ended
    waiting.start()
    assert begun.wait(300)
    waiting.join(0.05)
    first.detachFromDevice()
    waiting.join(300)
    assert len(outputs) == 1
    second.destroy()
    first.destroy()


@pytest.mark.parametrize(
    ("replicas", "rounds", "said"),
    [(3, False, r"autoRoundNumIPUs\(True\)"), (65, True, "Too many IPUs requested"), (128, False, "Too many IPUs")],
)
def test_numbers_of_chips_that_cannot_be_had(replicas: int, rounds: bool, said: str) -> None:
    options = poptorch.Options().replicationFactor(replicas).autoRoundNumIPUs(rounds)
    with pytest.raises(poptorch.Error, match=said):
        poptorch.inferenceModel(Linear(), options)(torch.ones(replicas, 3))


def test_numbers_of_chips_that_are_rounded(caplog: pytest.LogCaptureFixture) -> None:
    options = poptorch.Options().replicationFactor(3).autoRoundNumIPUs(True)
    assert poptorch.inferenceModel(Linear(), options)(torch.ones(3, 3)).shape == (3, 2)
    assert "3 IPUs are needed and 4 are taken" in caplog.text
    assert poptorch.inferenceModel(Linear(), poptorch.Options().replicationFactor(64))(torch.ones(64, 3)).shape == (
        64,
        2,
    )


def test_hooks() -> None:
    said: list[str] = []
    before = poptorch.registerPreCompileHook(lambda: said.append("before"))
    after = poptorch.registerPostCompileHook(lambda: said.append("after"))
    try:
        poptorch.inferenceModel(Linear())(X)
        assert said == ["before", "after"]
    finally:
        before.remove()
        after.remove()
    poptorch.inferenceModel(Linear())(X)
    assert said == ["before", "after"]
    for register in (poptorch.registerPreCompileHook, poptorch.registerPostCompileHook):
        with pytest.raises(RuntimeError, match="callable"):
            register(3)  # type: ignore[arg-type]  # it is to be wrong


def test_the_time_of_compiling() -> None:
    model = poptorch.inferenceModel(Linear())
    with pytest.raises(poptorch.Error, match=r"Please compile the model before obtaining compilation time\."):
        model.compilationTime()
    model.compile(X)
    assert model.compilationTime() > timedelta(0)
    hidden = poptorch.inferenceModel(Linear(), poptorch.Options().showCompilationProgressBar(False))
    hidden.compile(X)
    with pytest.raises(poptorch.Error, match="Please set showCompilationProgressBar option"):
        hidden.compilationTime()


def test_profiling_channels_do_nothing() -> None:
    channel = poptorch.profiling.Channel("x")
    model = Linear()
    assert channel.instrument(model, "forward") is model
    with channel.tracepoint("here"):
        pass
