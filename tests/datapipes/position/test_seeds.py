"""Seeds are a pure function of where and when: the same for the same, different for anything else."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.description.structure import walk
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.seeds import Run, derive
from loader2 import DataLoader2

uint64 = st.integers(0, 2**64 - 1)


@given(st.lists(st.integers() | st.text() | st.none(), min_size=1, max_size=4))
def test_a_derived_seed_has_64_bits_and_depends_on_every_part(parts: list[Any]) -> None:
    seed = derive(*parts)
    assert 0 <= seed < 2**64
    assert seed == derive(*parts)
    assert len({seed, derive(*parts, 0), derive(parts), derive(*parts[:-1], "and no other text")}) == 4


def test_a_seed_is_the_same_in_any_process() -> None:
    script = "from datapipes.position.seeds import Run; print(Run(7, 2, (3, 1)).stage_seed(4, 'shard'))"
    salt = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # not that of this process
    found = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONHASHSEED": salt, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True, timeout=500,
    ).stdout  # fmt: skip
    assert found == f"{Run(7, 2, (3, 1)).stage_seed(4, 'shard')}\n"


@given(seed=uint64, epoch=st.integers(0, 9), place=st.integers(0, 9))
def test_a_stages_seed_depends_on_seed_epoch_lap_place_and_shard(seed: int, epoch: int, place: int) -> None:
    run = Run(seed, epoch)
    seeds = [
        run.stage_seed(place),
        run.stage_seed(place + 1),
        run.stage_seed(place, shard="1 of 2"),
        replace(run, seed=seed ^ 1).stage_seed(place),
        replace(run, epoch=epoch + 1).stage_seed(place),
        run.next_lap(0).stage_seed(place),
        run.next_lap(1).stage_seed(place),
        run.next_lap(0).next_lap(0).stage_seed(place),
    ]
    assert len(set(seeds)) == len(seeds)
    assert run.stage_seed(place) == seeds[0]


def test_above_the_sharding_all_shards_share_a_seed() -> None:
    runs = [Run(5, shard=(3, index)) for index in range(3)]
    assert len({run.stage_seed(2) for run in runs}) == 1
    assert len({run.stage_seed(2, run.shard) for run in runs}) == 3


@given(seed=uint64, pinned=uint64)
def test_a_pinned_seed_depends_on_the_epoch_and_not_on_the_run(seed: int, pinned: int) -> None:
    seeds = [Run(seed, epoch).pinned_seed(pinned) for epoch in range(3)]
    assert len(set(seeds)) == 3
    assert seeds == [Run(seed ^ 1, epoch).pinned_seed(pinned) for epoch in range(3)]
    assert Run(seed).next_lap(0).pinned_seed(pinned) != Run(seed).next_lap(1).pinned_seed(pinned)


def test_a_run_is_a_value() -> None:
    run = Run(1, 2, (3, 0), (4,))
    assert pickle.loads(pickle.dumps(run)) == run == Run(1, 2, (3, 0), (4,))
    assert hash(run) == hash(Run(1, 2, (3, 0), (4,)))
    with pytest.raises(FrozenInstanceError):
        run.seed = 2  # type: ignore[misc]  # that is what must fail
    assert run.next_lap(5).lap == (4, 5)


def shuffled_twice() -> IterDataPipe[Any]:
    return IterableWrapper(range(30)).shuffle().batch(30).unbatch().shuffle()


def test_two_stages_of_a_graph_have_different_seeds() -> None:
    source = IterableWrapper(range(30))
    left, right = next(iter(source.shuffle().batch(30).zip(source.shuffle().batch(30))))
    assert left != right
    shared = source.shuffle().batch(30)
    left, right = next(iter(shared.zip(shared)))
    assert left != right


def test_a_loaders_order_follows_from_its_seed_and_epoch() -> None:
    def epochs(seed: int) -> list[list[int]]:
        loader: DataLoader2[int] = DataLoader2(shuffled_twice())
        loader.seed(seed)
        return [list(loader) for _ in range(3)]

    assert epochs(1) == epochs(1)
    assert epochs(1) != epochs(2)
    first, second, third = epochs(1)
    assert first != second != third != first


def test_what_is_put_below_a_graph_does_not_change_its_order() -> None:
    def order(adapter: Any) -> list[int]:
        loader: DataLoader2[int] = DataLoader2(shuffled_twice(), adapter)
        loader.seed(9)
        return list(loader)

    assert order(lambda pipe: pipe) == order(lambda pipe: pipe.map(int).prefetch(2))


def test_seeding_changes_no_pipe() -> None:
    pipe = shuffled_twice()
    before = [dict(vars(stage)) for stage in walk(pipe)]
    loader: DataLoader2[int] = DataLoader2(pipe)
    loader.seed(3)
    list(loader)
    list(pipe)
    assert [vars(stage) for stage in walk(pipe)] == before


def test_a_run_is_the_same_in_another_process() -> None:
    run = Run(7, epoch=2, shard=(6, 5), lap=(1,), world=3, drawn=True)
    assert pickle.loads(pickle.dumps(run)) == run
