"""State that stays as it was compiled, and state that lives on: flags, attributes, buffers, random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from tests.reading_services.ipu.simulator.device_models import Linear


class Flags(nn.Module):
    """Tells the training flags of itself and its part."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Identity()
        self.scale = nn.Parameter(torch.ones(()))
        self.factor = 2.0
        self.plain = torch.tensor(10.0)
        self.register_buffer("kept", torch.tensor(100.0))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        flags = torch.tensor([float(self.training), float(self.part.training), float(self.calls)])
        return torch.cat([x * 0 + flags, torch.stack([self.factor * x[0], self.plain + x[0], self.kept + x[0]])])


def test_what_is_baked_in() -> None:
    model = Flags().eval()
    inference = poptorch.inferenceModel(model)
    model.train()  # too late for the root, in time for its part
    x = torch.ones(1)
    assert inference(x).tolist() == [0, 1, 1, 2, 11, 101]
    model.eval()
    model.factor, model.calls = 3.0, 17
    model.plain += 1
    model.kept += 1
    assert inference(x).tolist() == [0, 1, 1, 2, 11, 101]
    inference.copyWeightsToDevice()  # buffers are weights, a plain tensor is none
    assert inference(x).tolist() == [0, 1, 1, 2, 11, 102]
    assert model.calls == 17


class Counting(nn.Module):
    """A buffer that counts the rows it has seen, and a plain tensor that tries to."""

    seen: Tensor
    constant: Tensor

    def __init__(self, rebinding: bool = False) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("constant", torch.ones(()))
        self.plain = torch.zeros(())
        self.rebinding = rebinding

    def forward(self, x: Tensor) -> Any:
        if self.rebinding:
            self.seen = self.seen + x.sum() * self.scale * self.constant
        else:
            self.seen += x.sum()
        self.plain += 1
        return self.seen * 1, self.plain * x.sum(), poptorch.identity_loss(self.scale * x, "sum")


@pytest.mark.parametrize("rebinding", [False, True])
def test_buffers_live_on_and_plain_tensors_do_not(rebinding: bool) -> None:
    model = Counting(rebinding)
    options = poptorch.Options().deviceIterations(2).outputMode(poptorch.OutputMode.All)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.0))
    x = torch.tensor([1.0, 2.0])
    seen, plain, _ = training(x)
    assert (seen.tolist(), plain.tolist()) == ([1, 3], [1, 2])
    seen, plain, _ = training(x)
    assert (seen.tolist(), plain.tolist()) == ([4, 6], [1, 2])
    assert model.seen.item() == 6
    assert model.plain.item() == 0
    training.detachFromDevice()
    assert training(x)[0].tolist() == [7, 9]


def test_buffers_of_replicas() -> None:
    options = poptorch.Options().replicationFactor(2).outputMode(poptorch.OutputMode.All)
    x = torch.tensor([1.0, 10.0])
    with pytest.raises(poptorch.Error, match="PopTorch does not support broadcasting buffers"):
        poptorch.trainingModel(Counting(), options)(x)
    apart = options.clone().broadcastBuffers(False)
    model = Counting()
    training = poptorch.trainingModel(model, apart)
    assert training(x)[0].tolist() == [1, 10]
    assert training(x)[0].tolist() == [2, 20]
    assert model.seen.item() == 2
    norm = nn.BatchNorm1d(2)
    with pytest.raises(poptorch.Error, match="broadcasting buffers"):
        poptorch.inferenceModel(norm, options)(torch.ones(4, 2))
    norm.eval()
    assert poptorch.inferenceModel(norm, options)(torch.ones(4, 2)).shape == (4, 2)


def test_buffers_of_inference_stay_on_the_device_until_asked_for() -> None:
    norm = nn.BatchNorm1d(2).train()
    inference = poptorch.inferenceModel(norm)
    inference(torch.randn(4, 2))
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == [0, 0]
    inference.copyWeightsToHost()
    assert norm.running_mean.tolist() != [0, 0]
    assert norm.num_batches_tracked is not None
    assert norm.num_batches_tracked.item() == 1  # the pass that compiled it does not count


def test_batch_norm_sees_micro_batches() -> None:
    norm, by_hand = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    x = torch.randn(6, 2)
    inference = poptorch.inferenceModel(norm, poptorch.Options().deviceIterations(3))
    expected = torch.cat([by_hand(x[n : n + 2]) for n in (0, 2, 4)])
    torch.testing.assert_close(inference(x), expected.detach())
    inference.copyWeightsToHost()
    torch.testing.assert_close(norm.running_var, by_hand.running_var)


def test_random_numbers_of_the_device() -> None:
    x = torch.ones(1, 100)

    def drawn(seed: int) -> tuple[list[Tensor], list[int]]:
        host = torch.get_rng_state()
        model = poptorch.inferenceModel(nn.Dropout(), poptorch.Options().randomSeed(seed))
        after = torch.get_rng_state()  # the option itself seeds the host, as PopTorch's does
        model.compile(x)
        first = model.rng_state
        assert first[0] == seed
        out = [model(x), model(x)]
        assert model.rng_state != first
        model.rng_state = first
        assert torch.equal(model(x), out[0])
        assert torch.equal(torch.get_rng_state(), after)
        torch.set_rng_state(host)
        return out, first

    one, other = drawn(7), drawn(7)
    assert one[1] == other[1]
    assert all(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    assert not torch.equal(one[0][0], one[0][1])
    assert not torch.equal(one[0][0], drawn(8)[0][0])


def test_replicas_draw_numbers_of_their_own() -> None:
    model = poptorch.inferenceModel(nn.Dropout(), poptorch.Options().replicationFactor(2))
    out = model(torch.ones(2, 100))
    assert not torch.equal(out[0], out[1])


class Odd(nn.Module):
    """Reaches its weights in the ways that people think of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
        self.hidden = [self.first, (self.second,)]
        self.by_name = {"first": self.first}
        self.bound = self.second.forward
        self.lstm = nn.LSTM(3, 3, batch_first=True)
        self.shared = self.first.weight
        self.me = [self]

    def forward(self, x: Tensor) -> Tensor:
        x = self.bound(self.hidden[0](x)) + self.by_name["first"](x) @ self.shared  # type: ignore[operator]  # a Linear
        assert self.me[0].first is self.first
        out = self.lstm(x.unsqueeze(1))[0].squeeze(1)
        return poptorch.identity_loss((x + out) ** 2, "mean")


def test_a_copy_is_complete() -> None:
    torch.manual_seed(0)
    model, expected = Odd(), Odd()
    expected.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        x = torch.randn(4, 3)
        loss = training(x)
        optimizer.zero_grad()
        by_hand = expected(x)
        by_hand.backward()
        optimizer.step()
        torch.testing.assert_close(loss, by_hand.detach())
    for (name, one), other in zip(model.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


def test_modes_of_gradients_outside_do_not_matter() -> None:
    x, target = torch.ones(2, 3), torch.ones(2, 2)
    modes: list[Any] = [torch.no_grad, torch.enable_grad, torch.inference_mode]
    for outside in modes:
        model = Linear()
        before = model.layer.weight.detach().clone()
        with outside():
            training = poptorch.trainingModel(model)
            _, loss = training(x.clone(), target)
            out = poptorch.inferenceModel(model)(x.clone())
        assert not torch.equal(model.layer.weight, before)
        assert not loss.requires_grad
        assert not out.requires_grad
        assert not out.is_inference()
