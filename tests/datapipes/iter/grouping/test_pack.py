"""pack puts each token into a block once, and says which sequence it is of and where in it."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any, Literal

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datapipes import iterate
from datapipes.errors import BadArgument, StateError
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


def test_blocks_are_of_the_kind_of_their_sequences() -> None:
    tokens = torch.tensor([1, 2, 3], dtype=torch.int16)
    (block,) = IterableWrapper([tokens, tokens[:1]]).pack(6)
    assert torch.equal(block["tokens"], torch.tensor([1, 2, 3, 1, 0, 0], dtype=torch.int16))
    assert block["tokens"].dtype is torch.int16
    assert torch.equal(block["segments"], torch.tensor([1, 1, 1, 2, 0, 0]))
    assert torch.equal(block["positions"], torch.tensor([0, 1, 2, 0, 0, 0]))
    (block,) = IterableWrapper([numpy.ones(2, numpy.float32)]).pack(3)
    assert {name: column.dtype.name for name, column in block.items()} == {
        "tokens": "float32",
        "segments": "int64",
        "positions": "int64",
    }
    (block,) = IterableWrapper([(1, 2)]).pack(3)
    assert block == {"tokens": [1, 2, 0], "segments": [1, 1, 0], "positions": [0, 1, 0]}


def test_columns_are_packed_alike() -> None:
    rows = [{"ids": [1, 2], "labels": [3, 4]}, {"ids": [5], "labels": [6]}]
    (block,) = IterableWrapper(rows).pack(4, padding={"ids": 0, "labels": -100})
    assert (block["ids"], block["labels"]) == ([1, 2, 5, 0], [3, 4, 6, -100])


def test_what_cannot_be_packed_costs_itself_alone() -> None:
    wrong: list[Any] = ["text", {"a": [1], "b": [1, 2]}, {}, torch.zeros(2, 2), torch.tensor([1]), {"segments": [1]}, 5]
    found = outcomes(IterableWrapper([[1], *wrong, [2]]).pack(3))
    assert [str(x).partition(":")[0] for x in found[:-1]] == ["BadArgument"] * len(wrong)
    assert found[-1] == {"tokens": [1, 2, 0], "segments": [1, 2, 0], "positions": [0, 0, 0]}
    with pytest.raises(BadArgument, match=r"'Tensor of torch.int64'\} cannot be in one block with \{.*'list'"):
        list(IterableWrapper([[1], torch.tensor([1])]).pack(3))
    with pytest.raises(BadArgument, match=r"padding lacks the columns \['tokens'\]"):
        list(IterableWrapper([[1]]).pack(3, padding={"ids": 0}))


def test_what_is_refused() -> None:
    source, fit = IterableWrapper([[1]]), ("worst",)
    with pytest.raises(BadArgument, match="A block has at least one token"):
        source.pack(0)
    with pytest.raises(BadArgument, match="At least one block is open"):
        source.pack(2, open_blocks=0)
    with pytest.raises(BadArgument, match='fit must be "greedy", "best" or "cut", got \'worst\''):
        source.pack(2, *fit)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("saved", [5, {"blocks": b"", "waiting": b""}])
def test_a_position_that_cannot_be_is_refused(saved: Any) -> None:
    pipe = IterableWrapper([[1], [2], [3]]).pack(2)
    iterator = iterate(pipe)
    next(iterator)
    state = iterator.state_dict()
    place = max(state["cells"])
    state["cells"][place] = saved
    with pytest.raises(StateError, match="does not fit stage"):
        iterate(pipe).load_state_dict(sealed(state))
