"""One checkpoint of all ranks: gathered, saved by torch in every way, and scattered again."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from datapipes.errors import StateError, UnsafeState
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2, gather, scatter
from reading_services import (
    DistributedReadingService,
    InProcessReadingService,
    SequentialReadingService,
    ThreadingReadingService,
)
from tests.many_ranks import on_ranks
from tests.reading_services.ranked import Ranked

TAKEN = 5


def loader_of(rank: int, world: int = 2, workers: int = 0) -> DataLoader2[int]:
    graph = IterableWrapper(range(40)).shuffle(buffer_size=7).sharding_filter().map(abs)
    inner = ThreadingReadingService(workers) if workers else InProcessReadingService()
    loader: DataLoader2[int] = DataLoader2(graph, reading_service=SequentialReadingService(Ranked(world, rank), inner))
    loader.seed(3)
    return loader


def begun(rank: int, world: int = 2, workers: int = 0) -> tuple[dict[str, Any], list[int]]:
    """A state in mid-epoch, and what was left there."""
    with loader_of(rank, world, workers) as loader:
        iterator = iter(loader)
        list(islice(iterator, TAKEN + rank))
        return loader.state_dict(), list(iterator)


def rest(rank: int, state: dict[str, Any], world: int = 2, workers: int = 0) -> list[int]:
    with loader_of(rank, world, workers) as loader:
        loader.load_state_dict(state)
        return list(loader)


# -- real ranks --------------------------------------------------------------------------------------------------------


def everywhere(path: Path, rank: int) -> bool:
    """With torch.distributed.checkpoint, beside a model."""
    state, left = begun(rank)
    gathered = gather(state)
    assert gathered["world_size"] == 2
    save({"weights": torch.ones(3), "loader": gathered}, checkpoint_id=path)
    to_load: dict[str, Any] = {"weights": torch.zeros(3), "loader": gather(loader_of(rank).state_dict())}
    load(to_load, checkpoint_id=path)
    return rest(rank, scatter(to_load["loader"])) == left and bool(to_load["weights"].all())


def at_one(path: Path, rank: int) -> bool:
    """With torch.save, on the last rank only, which sends the others theirs."""
    state, left = begun(rank, workers=2)
    gathered = gather(state, dst=1)
    if rank == 1:
        torch.save({"loader": gathered}, path)
    loaded = torch.load(path, weights_only=True)["loader"] if rank == 1 else gathered
    assert rank == 1 or loaded == {}
    return rest(rank, scatter(loaded, src=1), workers=2) == left


def stateful(path: Path, rank: int) -> bool:
    """With torch.distributed.checkpoint, which calls the loader itself and keeps one of two values of one name."""
    loader, other = loader_of(rank), loader_of(rank)
    loader.state_of_all_ranks = other.state_of_all_ranks = True
    iterator = iter(loader)
    list(islice(iterator, TAKEN + rank))
    save({"loader": loader}, checkpoint_id=path)
    load({"loader": other}, checkpoint_id=path)
    return list(other) == list(iterator)


class OfItsRank:
    """A loader as torchtitan keeps one: each rank's state under a name of its own, as bytes."""

    def __init__(self, rank: int) -> None:
        self.loader, self.name = loader_of(rank), f"dp_rank_{rank}"

    def state_dict(self) -> dict[str, Any]:
        return {self.name: pickle.dumps(self.loader.state_dict()), "world_size": 2}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["world_size"] == 2
        self.loader.load_state_dict(pickle.loads(state[self.name]))


def by_names(path: Path, rank: int) -> bool:
    """With torch.distributed.checkpoint, by a ``Stateful`` of each rank."""
    before, after = OfItsRank(rank), OfItsRank(rank)
    iterator = iter(before.loader)
    list(islice(iterator, TAKEN + rank))
    save({"loader": before}, checkpoint_id=path)
    load({"loader": after}, checkpoint_id=path)
    return list(after.loader) == list(iterator)


@pytest.mark.parametrize("way", [everywhere, at_one, stateful, by_names])
def test_ranks_go_on_from_one_checkpoint(tmp_path: Path, way: Callable[[Path, int], bool]) -> None:
    assert on_ranks(2, partial(way, tmp_path / "checkpoint")) == [True, True]


def of_another(rank: int) -> str:
    """A rank that loads the state of rank 0."""
    graph = IterableWrapper(range(40)).sharding_filter()
    with DataLoader2(graph, reading_service=DistributedReadingService()) as loader:
        list(islice(loader, TAKEN))
        states: list[Any] = [loader.state_dict()]
    dist.broadcast_object_list(states, 0)
    with DataLoader2(graph, reading_service=DistributedReadingService()) as loader:
        try:
            loader.load_state_dict(states[0])
        except StateError as error:
            return str(error)
    return "loaded"


def test_the_state_of_another_rank_is_refused() -> None:
    own, other = on_ranks(2, of_another)
    assert own == "loaded"
    assert re.search(r"stage 2, .*fullsync.*: saved on rank 0, and this is rank 1\. .*state_of_all_ranks = True", other)


def both_are_told(rank: int) -> list[str]:
    told = []
    unsavable: Any = {"a": open} if rank == 0 else {"a": 1}
    damaged = {"world_size": 2, "states": []} if rank == 0 else None
    for act in (partial(gather, unsavable), partial(gather, unsavable, dst=1), partial(scatter, damaged, src=0)):
        try:
            act()
            told.append("nothing")
        except (StateError, TypeError) as error:
            told.append(str(error))
    return told


def test_a_rank_that_cannot_take_part_says_so_to_the_others() -> None:
    own, others = on_ranks(2, both_are_told)
    assert [f"rank 0: {text}" for text in own] == others
    assert all("cannot be saved" in text for text in own[:2])
    assert own[2].startswith("states: expected 2 states")


# -- other numbers of ranks --------------------------------------------------------------------------------------------


def of_ranks(states: list[dict[str, Any]]) -> dict[str, Any]:
    """The state that ranks would have gathered."""
    return {"world_size": len(states), "states": [gather(state)["states"][0] for state in states]}


def test_in_mid_epoch_another_number_of_ranks_is_refused_and_may_begin_the_epoch_again() -> None:
    gathered = of_ranks([begun(rank)[0] for rank in range(2)])
    with pytest.raises(StateError, match=r"saved by 2 ranks in the middle .* Start 2 ranks .* begin_epoch_again=True"):
        scatter(gathered)
    state = scatter(gathered, begin_epoch_again=True)
    again = [rest(rank, state, world=3) for rank in range(3)]
    assert again == [list(loader_of(rank, world=3)) for rank in range(3)]
    assert sorted(chain(*again)) == list(range(40))


def test_a_later_epoch_begins_again_too() -> None:
    with loader_of(0, world=1) as loader:
        list(loader)
        iterator = iter(loader)
        whole = [next(iterator)]
        state = loader.state_dict()
        whole += iterator
        following = list(loader)
    once_more = scatter(gather(state), begin_epoch_again=True)
    with loader_of(0, world=1) as again:
        again.load_state_dict(once_more)
        assert [list(again), list(again)] == [whole, following]


def test_an_epoch_that_nobody_gave_a_seed_begins_again_as_it_was() -> None:
    graph = IterableWrapper(range(12)).shuffle()
    pinned = IterableWrapper(range(12)).shuffle()
    pinned.set_seed(3)
    with torch.random.fork_rng(devices=[]), DataLoader2(graph.zip(pinned)) as loader:
        list(loader)
        iterator = iter(loader)
        whole = [next(iterator)]
        state, of_torch = loader.state_dict(), torch.get_rng_state()
        whole += iterator
        following = list(loader)
        torch.set_rng_state(of_torch)
        again = DataLoader2.from_state(scatter(gather(state), begin_epoch_again=True), datapipe=graph.zip(pinned))
        assert [list(again), list(again)] == [whole, following]
        assert (again.epoch, again.step) == (2, 12)


def test_an_edited_state_is_not_made_into_one_for_any_number_of_ranks() -> None:
    gathered = of_ranks([{**begun(rank)[0], "seed": 4} for rank in range(2)])
    with pytest.raises(StateError, match=r"^checksum: .* edited or damaged"):
        scatter(gathered, begin_epoch_again=True)


def test_between_two_epochs_any_number_of_ranks_goes_on() -> None:
    states, following = [], []
    for rank in range(3):
        with loader_of(rank, world=3) as loader:
            list(loader)
            states.append(loader.state_dict())
            following += list(loader)
    state = scatter(of_ranks(states))
    assert sorted(rest(0, state, world=1)) == sorted(following)
    new = scatter(of_ranks([loader_of(rank).state_dict() for rank in range(2)]))
    assert rest(0, new, world=1) == list(loader_of(0, world=1))


def test_ranks_in_different_epochs_have_no_common_place() -> None:
    with loader_of(0) as loader:
        first = [list(loader), loader.state_dict()][1]
        second = [list(loader), loader.state_dict()][1]
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    with pytest.raises(StateError, match="not in the same epoch"):
        scatter(of_ranks([first, second]))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (None, "no checkpoint of gather"),
        ({}, "no checkpoint of gather"),
        ({"world_size": "2", "states": []}, "world_size: expected a number of ranks"),
        ({"world_size": 0, "states": []}, "world_size: expected a number of ranks"),
        ({"world_size": 2, "states": [b""]}, "states: expected 2 states"),
        ({"world_size": 1, "states": [{}]}, "states: expected 1 states"),
        (of_ranks([[]]), r"states\[0\]: expected a dict"),  # type: ignore[list-item]  # the mistake under test
        (of_ranks([{"status": "running"}] * 2), "epoch: expected"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(StateError, match=said):
        scatter(wrong, begin_epoch_again=wrong is not None and wrong.get("world_size") == 2)


def test_loading_runs_no_code() -> None:
    with pytest.raises(UnsafeState, match=r"states\[0\]"):
        scatter({"world_size": 1, "states": [b"cos\nsystem\n(S'false'\ntR."]})


def test_positions_that_a_checkpoint_did_not_load_are_missed() -> None:
    state = {**begun(0)[0], "cells": {}}
    with pytest.raises(StateError, match=r"cells: expected positions.*dl\.state_of_all_ranks = True"):
        loader_of(0).load_state_dict(state)
