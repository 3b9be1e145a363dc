"""Outputs: types, new memory, constants, no gradients; and what is said about inputs that were mended."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from tests.reading_services.ipu.simulator.device_models import Anything, Linear

ONE = torch.ones(1)


def test_types_of_64_bits_come_back_in_32() -> None:
    out = poptorch.inferenceModel(Anything())(torch.tensor([2**31 - 1, 3]), torch.ones(1, dtype=torch.float64))
    assert [each.dtype for each in out] == [torch.int32, torch.float32]
    assert out[0].tolist() == [2**31 - 1, 3]
    for dtype in (torch.int32, torch.float16, torch.bool, torch.uint8):
        assert poptorch.inferenceModel(Anything())(torch.ones(1, dtype=dtype)).dtype == dtype
    table = poptorch.inferenceModel(nn.Embedding(5, 2))
    assert table(torch.tensor([4, 0])).shape == (2, 2)


def test_zero_sized_tensors() -> None:
    for shape in ((0, 3), (2, 0)):
        with pytest.raises(poptorch.Error, match="Zero-sized tensors are unsupported"):
            poptorch.inferenceModel(Anything())(torch.empty(shape))


def test_inputs_that_are_mended_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    model = poptorch.inferenceModel(Anything())
    x = torch.arange(6.0).reshape(2, 3).t()
    for _ in range(3):
        assert model(x).tolist() == x.tolist()
    assert caplog.text.count("not contiguous") == 1
    caplog.clear()
    needs = torch.ones(3, 2, requires_grad=True)
    assert not model(needs).requires_grad
    assert "requires_grad" in caplog.text
    poptorch.inferenceModel(Anything())({"a": ONE})
    assert "dictionary" in caplog.text


def test_outputs_are_new_and_without_gradients() -> None:
    x = torch.ones(2, 3)
    model = poptorch.inferenceModel(Anything())
    out, again = model(x), model(x)
    out.zero_()
    assert bool((x == 1).all())
    assert bool((again == 1).all())
    training = poptorch.trainingModel(Linear())
    out, loss = training(x, torch.ones(2, 2))
    assert not loss.requires_grad
    for each in (out, loss, again):
        with pytest.raises(poptorch.Error, match=r"backward\(\) cannot be called explicitly on outputs of a PopTorch"):
            each.backward()


def test_forward_may_write_to_its_inputs() -> None:
    class Writing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.add_(1)

    x = torch.zeros(4)
    model = poptorch.inferenceModel(Writing(), poptorch.Options().deviceIterations(2))
    assert model(x).tolist() == [1, 1, 1, 1]
    assert x.tolist() == [0, 0, 0, 0]


def test_constants_come_back_once() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = torch.tensor([7, 8])

        def forward(self, x: Tensor) -> Any:
            filled = torch.zeros(3)
            filled[0] = x.sum()
            return x, self.plain, torch.ones(2) * 3, torch.tensor(5.0), filled, torch.rand(2), torch.zeros_like(x) + 1

    model = poptorch.inferenceModel(Constant(), poptorch.Options().deviceIterations(2).replicationFactor(2))
    x, plain, made, number, filled, drawn, like = model(torch.arange(4.0))
    assert x.tolist() == [0, 1, 2, 3]
    assert plain.dtype == torch.int32
    assert plain.tolist() == [7, 8]
    assert made.tolist() == [3, 3]
    assert number.tolist() == 5
    assert filled.tolist() == [0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0]
    assert len(drawn.unique()) == 8
    assert like.tolist() == [1, 1, 1, 1]
    with pytest.raises(poptorch.Error, match="backward"):
        plain.backward()


def test_shapes_that_depend_on_the_data_are_refused() -> None:
    class Picking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x > 0]

    model = poptorch.inferenceModel(Picking(), poptorch.Options().deviceIterations(2))
    with pytest.raises(poptorch.Error, match="shapes must not depend on the data"):
        model(torch.tensor([1.0, 2.0, 3.0, -4.0]))
