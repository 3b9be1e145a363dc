"""Rows regrouped: none is lost, none comes twice, all in order, whatever structure they are in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reading_services.ipu import registerCustomArgParser
from reading_services.ipu.host.rebatching import grouped, joined, rebatched
from reading_services.ipu.names.custom_types import rebuilt, tensors_of
from tests.reading_services.ipu.host.datasets import Couple, CoupleParser, Named

SIZES = st.lists(st.integers(0, 7), max_size=12)


def batches(sizes: list[int]) -> list[dict[str, torch.Tensor]]:
    """Batches of so many rows; rows are numbered throughout."""
    rows = torch.split(torch.arange(sum(sizes)), sizes)
    return [{"number": part, "double": torch.stack([part, 2 * part], dim=1)} for part in rows]


def numbers(found: list[dict[str, torch.Tensor]]) -> list[int]:
    for batch in found:
        assert batch["double"].tolist() == [[n, 2 * n] for n in batch["number"].tolist()]
    return [n for batch in found for n in batch["number"].tolist()]


@given(SIZES, st.integers(1, 9), st.booleans())
def test_rows_in_batches_of_one_size(sizes: list[int], size: int, keep_rest: bool) -> None:
    found = list(rebatched(batches(sizes), size, keep_rest))
    whole, rest = divmod(sum(sizes), size)
    expected = [size] * whole + [rest] * bool(rest and keep_rest)
    assert [len(batch["number"]) for batch in found] == expected
    assert numbers(found) == list(range(sum(expected)))


@given(SIZES, st.integers(1, 5), st.booleans())
def test_batches_in_groups_of_one_size(sizes: list[int], count: int, keep_rest: bool) -> None:
    found = list(grouped(batches(sizes), count, keep_rest))
    groups = [sizes[i : i + count] for i in range(0, len(sizes), count)]
    expected = [sum(group) for group in groups if keep_rest or len(group) == count]
    assert [len(batch["number"]) for batch in found] == expected
    assert numbers(found) == list(range(sum(expected)))


def test_a_batch_of_the_right_size_is_handed_on_as_it_is() -> None:
    batch = [torch.arange(3)]
    assert next(rebatched([batch], 3, keep_rest=False)) is batch


@pytest.mark.parametrize("structure", [tuple, list, lambda parts: Named(*parts), lambda parts: dict(enumerate(parts))])
def test_the_container_stays(structure: Any) -> None:
    one, two = (structure((torch.tensor([n]), torch.tensor([-n]))) for n in (1, 2))
    both = joined([one, two])
    assert type(both) is type(one)
    assert [tensor.tolist() for tensor in tensors_of(both)] == [[1, 2], [-1, -2]]


def test_registered_types_are_put_together_and_what_is_no_tensor_is_the_last_ones() -> None:
    registerCustomArgParser(Couple, CoupleParser())
    try:
        parts = [{"c": Couple(torch.tensor([n]), torch.tensor([-n]), f"label {n}"), "name": n} for n in range(3)]
        both = joined(parts)
        assert (both["c"].left.tolist(), both["c"].right.tolist()) == ([0, 1, 2], [0, -1, -2])
        assert (both["c"].label, both["name"]) == ("label 2", 2)
    finally:
        registerCustomArgParser(Couple, None)


def test_rows_that_do_not_agree_are_refused() -> None:
    with pytest.raises(ValueError, match=r"same first dimension; these have \[\(2,\), \(3,\)\]"):
        list(rebatched([[torch.ones(2), torch.ones(3)]], 2, keep_rest=True))
    with pytest.raises(ValueError, match="same first dimension"):
        list(rebatched([torch.tensor(1)], 2, keep_rest=True))


TENSORS = st.builds(torch.tensor, st.integers(-5, 5))
STRUCTURES = st.recursive(
    TENSORS | st.none() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Named, inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
)


@given(STRUCTURES)
def test_what_is_taken_apart_is_put_together(structure: Any) -> None:
    again = rebuilt(structure, [tensor + 1 for tensor in tensors_of(structure)])
    assert repr(rebuilt(again, [tensor - 1 for tensor in tensors_of(again)])) == repr(structure)


def test_parsers_are_looked_up_by_the_type_then_by_its_bases() -> None:
    class Special(Couple):
        pass

    class Reversed(CoupleParser):
        def yieldTensors(self, struct: Any) -> Any:
            yield from (struct.right, struct.left)

    special = Special(torch.tensor(1), torch.tensor(2), "")
    assert list(tensors_of(special)) == []
    registerCustomArgParser(Couple, CoupleParser())
    assert list(tensors_of(special)) == [torch.tensor(1), torch.tensor(2)]
    registerCustomArgParser(Special, Reversed())
    assert list(tensors_of(special)) == [torch.tensor(2), torch.tensor(1)]
    registerCustomArgParser(Special, None)
    registerCustomArgParser(Couple, None)
    registerCustomArgParser(Couple, None)
    assert list(tensors_of(special)) == []


@pytest.mark.parametrize("parser", [object(), CoupleParser, "parser"])
def test_a_parser_inherits_from_its_interface(parser: Any) -> None:
    with pytest.raises(Exception, match="must inherit from ICustomArgParser") as caught:
        registerCustomArgParser(Couple, parser)
    assert type(caught.value).__name__ == "Error"
