"""``strict_aliasing``: PopTorch's rule that a step is only lent, and what happens to those who forget it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from datapipes.errors import ReleasedTensor
from tests.reading_services.ipu.host.datasets import Numbers
from tests.reading_services.ipu.host.test_accessor import accessor

USES: list[Callable[[Any], Any]] = [
    lambda row: row + 1,
    lambda row: 1 + row,
    lambda row: row.sum(),
    lambda row: torch.stack([torch.zeros(3), row]),
    lambda row: row.clone(),
    lambda row: row.numpy(),
    lambda row: row.tolist(),
    lambda row: row[0],
    lambda row: list(row),
    lambda row: row.view(-1),
    lambda row: row.data_ptr(),
    lambda row: row.copy_(torch.zeros(3)),
    lambda row: row.untyped_storage(),
    lambda row: row.data,
    lambda row: torch.nn.functional.linear(row, torch.zeros(1, 3)),
]


@pytest.mark.parametrize("use", USES)
def test_using_a_step_that_was_given_back_raises(use: Callable[[Any], Any]) -> None:
    with accessor(Numbers(4), strict_aliasing=True) as acc:
        row = next(acc)
        use(row)
        next(acc)
        with pytest.raises(ReleasedTensor, match=r"clone\(\) what you keep"):
            use(row)


@pytest.mark.parametrize(
    "view",
    [
        lambda row: row[1:],
        lambda row: row.view(3, 1),
        lambda row: row.split(1)[2],
        lambda row: row.detach().reshape(1, 3),
        lambda row: row.data,
        lambda row: list(row)[1],
    ],
)
def test_a_view_is_lent_as_well(view: Callable[[Any], Any]) -> None:
    with accessor(Numbers(4), strict_aliasing=True) as acc:
        part = view(next(acc))
        part.sum()
        next(acc)
        with pytest.raises(ReleasedTensor):
            part.sum()


def test_what_was_computed_or_cloned_is_its_users() -> None:
    with accessor(Numbers(4), strict_aliasing=True) as acc:
        kept = [row.clone() for row in acc]
        sums = [row * 2 for row in acc]
    assert [type(row) for row in kept + sums] == [torch.Tensor] * 8
    assert torch.stack(kept)[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("end", [lambda acc: list(acc), lambda acc: iter(acc)])
def test_the_end_and_a_rewind_give_back_too(end: Callable[[Any], Any]) -> None:
    with accessor(Numbers(2), strict_aliasing=True) as acc:
        row = next(acc)
        end(acc)
        with pytest.raises(ReleasedTensor):
            row.sum()


def test_the_form_of_what_was_given_back_is_still_known() -> None:
    with accessor(Numbers(2), strict_aliasing=True) as acc:
        row = next(acc)
        assert list(acc)
    assert (row.shape, row.dtype, row.dim(), len(row), row.size(0)) == (torch.Size([3]), torch.float32, 1, 3, 3)
