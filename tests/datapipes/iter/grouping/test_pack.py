"""pack puts each token into a block once, and says which sequence it is of and where in it."""

from __future__ import annotations

from decimal import Decimal
from itertools import groupby, islice
from typing import Any, Literal

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datapipes import iterate
from datapipes.elements import encode
from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.iter import IterableWrapper
from datapipes.position.plain_data import sealed
from tests.datapipes.iter.mishaps import outcomes

Fit = Literal["greedy", "best", "cut"]
FITS: list[Fit] = ["greedy", "best", "cut"]


def meant(sequences: list[list[int]], length: int, fit: Fit, open_blocks: int) -> list[list[list[int]]]:
    """The blocks, each a list of sequences, as a loop over whole lists makes them."""
    if fit == "cut":
        tokens = [(i, x) for i, sequence in enumerate(sequences) for x in sequence]
        cut = [tokens[at : at + length] for at in range(0, len(tokens), length)]
        return [[[x for _, x in part] for _, part in groupby(block, key=lambda pair: pair[0])] for block in cut]
    parts = [seq[at : at + length] for seq in sequences for at in range(0, len(seq), length)]
    most, done, under_way = open_blocks if fit == "best" else 1, [], list[list[list[int]]]()
    for part in parts:
        rooms = [length - sum(map(len, block)) for block in under_way]
        fitting = [(room, i) for i, room in enumerate(rooms) if room >= len(part)]
        if fitting:
            into = min(fitting)[1]
            under_way[into].append(part)
        else:
            if len(under_way) == most:
                done.append(under_way.pop(rooms.index(min(rooms))))
            under_way.append([part])
        done += [block for block in under_way if sum(map(len, block)) == length]
        under_way = [block for block in under_way if sum(map(len, block)) < length]
    return done + under_way


def sequences_of(block: dict[str, Any]) -> list[list[int]]:
    """The sequences in a block, which is looked through on the way."""
    found: list[list[int]] = []
    rows = [[int(x) for x in block[name]] for name in ("tokens", "segments", "positions")]
    for token, segment, position in zip(*rows, strict=True):
        if segment == 0:
            assert (token, position) == (-1, 0)
            continue
        if segment > len(found):
            found.append([])
        assert (segment, position) == (len(found), len(found[-1]))
        found[-1].append(token)
    return found


@given(st.lists(st.integers(0, 9)), st.integers(1, 6), st.sampled_from(FITS), st.integers(1, 3), st.data())
def test_blocks_wherever_it_is_resumed(
    lengths: list[int], length: int, fit: Fit, open_blocks: int, data: st.DataObject
) -> None:
    sequences = [list(range(10 * i, 10 * i + n)) for i, n in enumerate(lengths)]
    expected = meant(sequences, length, fit, open_blocks)
    for make in (list, torch.tensor, numpy.array):
        pipe = IterableWrapper([make(each) for each in sequences if each]).pack(length, fit, open_blocks, padding=-1)
        iterator = iterate(pipe)
        behind = list(islice(iterator, data.draw(st.integers(0, len(expected)))))
        again = iterate(pipe)
        again.load_state_dict(iterator.state_dict())
        for rest in (again, iterator):
            assert [sequences_of(block) for block in [*behind, *rest]] == expected
    dropped = list(IterableWrapper(sequences).pack(length, fit, open_blocks, drop_last=True))
    assert all(0 not in block["segments"] for block in dropped if fit == "cut")
    assert len(dropped) <= len(expected)


def lists(block: dict[str, Any]) -> dict[str, list[Any]]:
    """The columns of a block, all of which must be tensors, as lists."""
    assert {type(column) for column in block.values()} == {torch.Tensor}
    return {name: column.tolist() for name, column in block.items()}


@pytest.mark.parametrize(
    ("sequence", "dtype"),
    [
        ([1, 2], torch.int64),
        ((1, True), torch.int64),
        ([2**63 - 1, -(2**63)], torch.int64),
        ([1.0, 0.25], torch.float32),
        ([1, 0.25, False], torch.float32),
        ([True, False], torch.bool),
        (list(numpy.arange(2, dtype=numpy.int32)), torch.int64),
        (list(numpy.ones(2)), torch.float32),
        (numpy.ones(2, numpy.float64), torch.float64),
        (numpy.arange(2, dtype=">i4"), torch.int32),
        (numpy.arange(4)[::-2], torch.int64),
        (numpy.frombuffer(bytes(4), numpy.int16), torch.int16),
        (torch.tensor([1, 2], dtype=torch.int16), torch.int16),
        (torch.tensor([1, 2], dtype=torch.bfloat16), torch.bfloat16),
    ],
)
def test_sequences_become_tensors(sequence: Any, dtype: torch.dtype) -> None:
    (block,) = IterableWrapper([sequence, sequence]).pack(2 * len(sequence) + 1)
    assert lists(block)["tokens"] == [*sequence, *sequence, 0]
    assert [column.dtype for column in block.values()] == [dtype, torch.int64, torch.int64]


@pytest.mark.parametrize(
    "sequence", [["a", "b"], [None, 1], [1, None], [[1], [2, 3]], [2**63, -1], [1.0, 10**400], [1, Decimal(2)]]
)
def test_a_list_of_anything_else_stays_a_list(sequence: list[Any]) -> None:
    (block,) = IterableWrapper([sequence]).pack(3)
    assert block["tokens"] == [*sequence, 0]
    assert lists({name: block[name] for name in ("segments", "positions")})["segments"] == [1, 1, 0]


def test_a_batch_is_a_tensor_of_blocks() -> None:
    (batch,) = IterableWrapper([[number] * 4 for number in range(6)]).pack(8).batch(3).collate()
    assert {name: tuple(column.shape) for name, column in batch.items()} == dict.fromkeys(batch, (3, 8))
    assert batch["tokens"][:, ::4].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_marks_can_be_left_out() -> None:
    (block,) = IterableWrapper([[1, 2], [3]]).pack(4, marks=False)
    assert lists(block) == {"tokens": [1, 2, 3, 0]}


def test_columns_are_packed_alike() -> None:
    rows = [{"ids": [1, 2], "labels": [3, 4]}, {"ids": [5], "labels": [6]}]
    (block,) = IterableWrapper(rows).pack(4, padding={"ids": 0, "labels": -100})
    assert lists(block) == {
        "ids": [1, 2, 5, 0],
        "labels": [3, 4, 6, -100],
        "segments": [1, 1, 2, 0],
        "positions": [0, 1, 0, 0],
    }


@given(st.sampled_from([torch.uint8, torch.int32, torch.uint64, torch.float16, torch.float64, torch.bool]))
def test_a_type_for_all_columns_or_for_some(dtype: torch.dtype) -> None:
    rows = [{"a": [1, 0], "b": torch.tensor([1, 0])}, {"a": (1,), "b": numpy.ones(1, numpy.int64)}]
    (block,) = IterableWrapper(rows).pack(4, dtype=dtype)
    assert (block["a"].dtype, block["b"].dtype) == (dtype, dtype)
    assert block["a"].tolist() == block["b"].tolist() == [1, 0, 1, 0]
    (block,) = IterableWrapper(rows).pack(4, dtype={"b": dtype})
    assert (block["a"].dtype, block["b"].dtype) == (torch.int64, dtype)
    mixed = IterableWrapper([[0, 1], [0.5], [True]]).pack(4, dtype=torch.float32)
    assert [lists(block)["tokens"] for block in mixed] == [[0, 1, 0.5, 1]]


@pytest.mark.parametrize(
    ("sequence", "dtype"),
    [
        ([300], torch.uint8),
        ([-1], torch.uint64),
        ([0.5], torch.int64),
        (["a"], torch.int64),
        (["a"], torch.float16),
        ([2**63], torch.int64),
        ([2], torch.bool),
        (torch.tensor([40_000]), torch.int16),
        (numpy.array([0.5]), torch.int64),
    ],
)
def test_what_a_type_cannot_hold_is_refused(sequence: Any, dtype: torch.dtype) -> None:
    found = outcomes(IterableWrapper([[1], sequence, [1]]).pack(2, dtype=dtype))
    assert str(found[0]).startswith("BadArgument: .pack(2, dtype=torch.")
    assert lists(found[1])["tokens"] == [1, 1]


def test_what_cannot_be_packed_costs_itself_alone() -> None:
    wrong: list[Any] = ["text", {"a": [1], "b": [1, 2]}, {}, torch.zeros(2, 2), torch.ones(1), {"segments": [1]}, 5]
    found = outcomes(IterableWrapper([[1], *wrong, [2]]).pack(3))
    assert [str(x).partition(":")[0] for x in found[:-1]] == ["BadArgument"] * len(wrong)
    assert lists(found[-1]) == {"tokens": [1, 2, 0], "segments": [1, 2, 0], "positions": [0, 0, 0]}
    with pytest.raises(
        BadArgument, match=r"torch.float32\} cannot be in one block with \{.*torch.int64\}; give dtype="
    ):
        list(IterableWrapper([[1], [1.5]]).pack(3))
    with pytest.raises(BadArgument, match=r"padding lacks the columns \['tokens'\]"):
        list(IterableWrapper([[1]]).pack(3, padding={"ids": 0}))


def test_a_state_with_lists_continues_with_tensors() -> None:
    pipe = IterableWrapper([[1, 2, 3], [4, 5, 6], [7]]).pack(4, fit="cut", dtype=torch.int32)
    iterator = iterate(pipe)
    next(iterator)
    state = iterator.state_dict()
    place = max(state["cells"])
    old = {"blocks": encode([[{"tokens": [5, 6]}]], what=""), "waiting": encode([{"tokens": (7,)}], what="")}
    state["cells"][place] = old
    resumed = iterate(pipe)
    resumed.load_state_dict(sealed(state))
    (block,) = resumed
    assert block["tokens"].dtype is torch.int32
    assert lists(block)["tokens"][:3] == [5, 6, 7]


def test_what_is_refused() -> None:
    source, fit = IterableWrapper([[1]]), ("worst",)
    with pytest.raises(BadArgument, match="A block has at least one token"):
        source.pack(0)
    with pytest.raises(BadArgumentType, match=r"dtype must be one of torch's, such as torch.int32, got 'int32'"):
        source.pack(2, dtype={"tokens": "int32"})  # type: ignore[dict-item]  # on purpose
    with pytest.raises(BadArgument, match="At least one block is open"):
        source.pack(2, open_blocks=0)
    with pytest.raises(BadArgument, match='fit must be "greedy", "best" or "cut", got \'worst\''):
        source.pack(2, *fit)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    "saved",
    [
        5,
        {"blocks": b"", "waiting": b""},
        {"blocks": encode([], what=""), "waiting": encode([{}], what="")},
        {"blocks": encode([], what=""), "waiting": encode([{"a": [1], "b": [1, 2]}], what="")},
        {"blocks": encode([[{"tokens": [1, 2]}]], what=""), "waiting": encode([], what="")},
        {"blocks": encode([[{"tokens": [300]}]], what=""), "waiting": encode([], what="")},
    ],
)
def test_a_position_that_cannot_be_is_refused(saved: Any) -> None:
    pipe = IterableWrapper([[1], [2], [3]]).pack(2, dtype=torch.uint8)
    iterator = iterate(pipe)
    next(iterator)
    state = iterator.state_dict()
    place = max(state["cells"])
    state["cells"][place] = saved
    with pytest.raises(StateError, match="does not fit stage"):
        iterate(pipe).load_state_dict(sealed(state))
