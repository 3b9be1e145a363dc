"""lines_to_paragraphs joins the lines of one file; shard_expand spells ranges out; a dispatch mark passes all on."""

from __future__ import annotations

import pickle
from itertools import groupby, islice, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datapipes.graph import apply_sharding, find_dps, traverse_dps
from datapipes.iter import IterableWrapper, ShardingRoundRobinDispatcher
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from tests.datapipes.iter.mishaps import failing_at, outcomes


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "x", "y"])), max_size=30))
def test_paragraphs_are_runs_of_lines_of_one_file(lines: list[tuple[str, str]]) -> None:
    runs = groupby(lines, key=lambda pair: (pair[0], pair[1] == ""))
    expected = [(file, [line for _, line in run]) for (file, is_empty), run in runs if not is_empty]
    assert list(IterableWrapper(lines).lines_to_paragraphs(list)) == expected


def test_lines_are_joined_by_line_ends() -> None:
    dp = IterableWrapper([(1, "a"), (1, "b"), (2, "c"), (1, "d")]).lines_to_paragraphs()
    assert list(dp) == [(1, "a\nb"), (2, "c"), (1, "d")]
    assert repr(dp).endswith(".lines_to_paragraphs()")
    assert repr(pickle.loads(pickle.dumps(dp))) == repr(dp)
    with pytest.raises(TypeError, match="A callable function is expected"):
        IterableWrapper("a").lines_to_paragraphs("\n")  # type: ignore[arg-type, misc]  # what is refused


def test_a_joiner_that_raises_costs_its_paragraph() -> None:
    dp = IterableWrapper([(1, "a"), (2, "b"), (3, "c")]).lines_to_paragraphs(
        lambda lines: failing_at("a", "c")(lines[0])
    )
    assert outcomes(dp) == ["ValueError: a is bad", (2, "b"), "ValueError: c is bad"]


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("plain", ["plain"]),
        ("", [""]),
        ("{0..2}", ["0", "1", "2"]),
        ("a{08..11}.tar", ["a08.tar", "a09.tar", "a10.tar", "a11.tar"]),
        ("{9..11}", ["9", "10", "11"]),
        ("{0..10}", [str(i) for i in range(11)]),
        ("{000..002}", ["000", "001", "002"]),
        ("{a..c}{1.2}{1..}", ["{a..c}{1.2}{1..}"]),
        ("x{1..2}y{3..4}z{0..1}", [f"x{a}y{b}z{c}" for a, b, c in product((1, 2), (3, 4), (0, 1))]),
    ],
)
def test_ranges_are_spelled_out(name: str, names: list[str]) -> None:
    assert list(IterableWrapper([name]).shard_expand()) == names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("{01..100}", "must not start with 0"),
        ("{100..20}", "must be shorter"),
        ("{3..3}", "bad range"),
        ("{4..3}", "bad range"),
    ],
)
def test_a_bad_range_costs_its_name(name: str, said: str) -> None:
    first, *others = outcomes(IterableWrapper([f"x{name}", "y"]).shard_expand())
    assert first.startswith("ValueError: shard_expand: ")
    assert said in first
    assert repr(f"x{name}") in first
    assert others == ["y"]


def test_a_long_range_is_not_held_in_memory() -> None:
    dp = IterableWrapper(["{0..999999999999}{0..999999999999}"]).shard_expand()
    assert list(islice(dp, 2)) == ["00", "01"]
    with pytest.raises(TypeError, match="len"):
        len(dp)


def test_the_mark_is_found_by_its_class() -> None:
    source = IterableWrapper(range(3))
    marked = source.sharding_round_robin_dispatch()
    graph = marked.map(str)
    assert list(graph) == ["0", "1", "2"]
    assert len(marked) == 3
    assert find_dps(traverse_dps(graph), ShardingRoundRobinDispatcher) == [marked]
    explicit = source.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    assert repr(explicit) == repr(marked) == "IterableWrapper(range(0, 3)).sharding_round_robin_dispatch()"


@pytest.mark.parametrize("group", [None, SHARDING_PRIORITIES.DEFAULT, SHARDING_PRIORITIES.DISTRIBUTED])
def test_only_workers_can_be_dealt_to(group: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"only supports `SHARDING_PRIORITIES\.MULTIPROCESSING`"):
        IterableWrapper("a").sharding_round_robin_dispatch(group)


def test_the_groups_of_torch_are_ours() -> None:
    from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES as OF_TORCH

    dp = IterableWrapper(range(12)).sharding_round_robin_dispatch(OF_TORCH.MULTIPROCESSING)
    assert list(dp) == list(range(12))
    sharded = IterableWrapper(range(12)).sharding_filter()
    sharded.apply_sharding(2, 1, OF_TORCH.DISTRIBUTED)
    assert list(apply_sharding(sharded, 3, 2, OF_TORCH.MULTIPROCESSING)) == [5, 11]
    of_ranks = IterableWrapper(range(12)).sharding_filter(OF_TORCH.DISTRIBUTED)
    of_ranks.apply_sharding(2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    assert list(apply_sharding(of_ranks, 3, 2, SHARDING_PRIORITIES.MULTIPROCESSING)) == [1, 3, 5, 7, 9, 11]
