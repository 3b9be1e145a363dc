"""A tree of several levels, its ranks threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch.distributed as dist

from datapipes.errors import PrefetchTimeoutError, RankDied, RankFailed, RankLeft
from datapipes.ranks.topics import EpochAgreement, RankProgress
from reading_services.ranks.rendezvous import children_of, meet, parent_of
from reading_services.ranks.tree import Tree

RANKS = 7


def on_tree(run: Callable[[int, Tree], Any], timeout: float = 1800) -> list[Any]:
    """Results of a function on each rank of a binary tree of three levels."""
    store = dist.HashStore()  # type: ignore[attr-defined]  # torch exports it without saying so

    def be(rank: int) -> Any:
        tree = Tree(rank, parent_of(rank, 2), meet(store, rank, RANKS, 20, fan_out=2), timeout)
        try:
            return run(rank, tree)
        finally:
            tree.close()

    with ThreadPoolExecutor(RANKS) as pool:
        return [future.result(30) for future in [pool.submit(be, rank) for rank in range(RANKS)]]


@pytest.mark.parametrize("fan_out", [1, 2, 64])
@pytest.mark.parametrize("world", [1, 2, 7, 200])
def test_every_rank_but_the_first_is_the_child_of_its_parent(world: int, fan_out: int) -> None:
    children = [child for rank in range(world) for child in children_of(rank, world, fan_out)]
    assert sorted(children) == list(range(1, world))
    for rank in range(1, world):
        parent = parent_of(rank, fan_out)
        assert parent is not None
        assert rank in children_of(parent, world, fan_out)


def test_facts_reach_everybody() -> None:
    def run(rank: int, tree: Tree) -> Any:
        tree.begin(
            (1, -1),
            EpochAgreement(),
            EpochAgreement.report(rank, (rank, rank, False), {"graph": "odd" if rank % 2 else "even"}),
        )
        verdict = tree.wait(lambda _: True, 0, 20)
        return verdict["run"], EpochAgreement.difference(verdict)

    assert on_tree(run) == [([0, 0, False], "graph: ranks 0, 2, 4, 6 have even; ranks 1, 3, 5 have odd")] * RANKS


@pytest.mark.parametrize("rank_of", [0, 1, 5])
@pytest.mark.parametrize("kind", [RankDied, RankFailed, RankLeft])
def test_bad_news_reach_everybody(kind: type[Exception], rank_of: int) -> None:
    def run(rank: int, tree: Tree) -> Any:
        tree.begin((0, 0), RankProgress("drop"), RankProgress("drop").report(rank, 0, False, 0))
        if rank == rank_of:
            tree.wait(lambda _: True, 0, 20)
            if kind is RankDied:
                with tree._changed:  # so that it has no time to say anything
                    for link in tree._links.values():
                        link.shutdown(2)
            elif kind is RankFailed:
                tree.fail((0, 0), ValueError("bad row"))
            else:
                tree.leave(0, 0)
            return None
        with pytest.raises(kind) as caught:
            tree.wait(lambda verdict: verdict["upto"] > 0, 0, 20)
        return str(caught.value)

    texts = on_tree(run)
    for rank, text in enumerate(texts):
        assert rank == rank_of or f"rank {rank_of} " in text


@pytest.mark.parametrize("rank_of", [0, 1, 5])
def test_all_are_told_of_a_rank_that_is_silent_and_only_of_that_one(rank_of: int) -> None:
    all_know = threading.Barrier(RANKS)

    def run(rank: int, tree: Tree) -> Any:
        tree.begin((0, 0), RankProgress("drop"), RankProgress("drop").report(rank, 0, False, 0))
        tree.wait(lambda _: True, 0, 20)
        error: Exception | None = None
        if rank == rank_of:
            tree._send = lambda *_: None  # type: ignore[method-assign]  # it is stopped
        else:
            with pytest.raises(PrefetchTimeoutError) as caught:
                tree.wait(lambda verdict: verdict["upto"] > 0, 0, 20)
            error = caught.value
        all_know.wait(300)
        return error and (str(error), error.__class__)

    texts = on_tree(run, timeout=3)
    expected = f"Fail to fetch data within 3 seconds, waiting for rank {rank_of}", PrefetchTimeoutError
    assert texts == [None if rank == rank_of else expected for rank in range(RANKS)]
