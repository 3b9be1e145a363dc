"""torch's DataLoader and torchdata's StatefulDataLoader share our pipes among ranks as they share torch's own."""

from __future__ import annotations

import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper
from torchdata.stateful_dataloader import StatefulDataLoader

from datapipes.description.printing import on_any_machine
from datapipes.errors import GraphError, RankDied, RanksDiffer
from datapipes.graph import apply_sharding
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.sharding.group import RankInfo, ranks
from datapipes.sharding.sharding import SHARDING_PRIORITIES
from loader2 import DataLoader2
from tests.datapipes.position.written_for_torchdata import Generator, OfTorch, TakesAPart
from tests.many_ranks import on_ranks

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

LENGTH = 23
WORLD = 2

workers = pytest.mark.parametrize("num_workers", [0, 2])


def numbered(start: int = 0, end: int = LENGTH) -> IterDataPipe[tuple[int, int]]:
    """The elements in a random order, each with its number in that, sharded."""
    return IterableWrapper(range(start, end)).shuffle().enumerate(start).sharding_filter()


GRAPHS: dict[str, Callable[[], Any]] = {
    "operators": lambda: numbered().map(list),
    "a user's class at the end": lambda: Generator(numbered()),
    "a class of torch's kind at the end": lambda: OfTorch(numbered()),
    "a user's class that shards": lambda: TakesAPart(IterableWrapper(range(LENGTH)).shuffle().enumerate()),
    "a sum of pipes": lambda: numbered(0, 9) + numbered(9, LENGTH),
}


CASES = {**{name: (DataLoader, build) for name, build in GRAPHS.items()}, "stateful": (StatefulDataLoader, numbered)}


@workers
@pytest.mark.parametrize(("loader", "build"), CASES.values(), ids=CASES.keys())
def test_each_element_comes_once_in_the_order_of_rank_0(
    loader: Callable[..., Any], build: Callable[[], Any], num_workers: int
) -> None:
    def epochs(rank: int, others: int = 0) -> list[list[Any]]:
        torch.manual_seed(1 if rank == 0 else others)
        mine = loader(build(), batch_size=None, num_workers=num_workers)
        return [[tuple(map(int, pair)) for pair in mine] for _ in range(2)]

    def twice(rank: int) -> list[Any]:
        again = [5] if build is GRAPHS["operators"] else []
        return [epochs(rank, others) for others in (0, *again)]

    parts, *again = zip(*on_ranks(WORLD, twice), strict=True)
    assert all(other == parts for other in again)
    orders = []
    for of_epoch in zip(*parts, strict=True):
        together = sorted(chain(*of_epoch))
        assert [number for number, _ in together] == list(range(LENGTH))
        orders.append([element for _, element in together])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(LENGTH))
    assert orders[0] != orders[1] != list(range(LENGTH))


@workers
@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_a_loader_switches_shuffles_on_and_off_on_all_ranks(loader: Callable[..., Any], num_workers: int) -> None:
    def parts(rank: int) -> list[list[Any]]:
        graph = numbered()
        loaders = [loader(graph, batch_size=None, num_workers=num_workers, shuffle=on) for on in (True, False, None)]
        return [[tuple(map(int, pair)) for pair in each] for each in loaders]

    on, off, unsaid = (sorted(chain(*each)) for each in zip(*on_ranks(WORLD, parts), strict=True))
    assert off == [(number, number) for number in range(LENGTH)]
    for order in (on, unsaid):
        assert [number for number, _ in order] == list(range(LENGTH))
        assert sorted(element for _, element in order) == list(range(LENGTH))
        assert order != off


IN_STEP: dict[str, Callable[[], Any]] = {
    "a known length": lambda: IterableWrapper(range(LENGTH)).shuffle().sharding_filter().fullsync(60),
    "an unknown length": lambda: IterableWrapper(range(LENGTH)).sharding_filter().filter(is_number).fullsync(60),
    "batches": lambda: IterableWrapper(range(LENGTH)).sharding_filter().batch(3).fullsync(60),
    "at most so many": lambda: IterableWrapper(range(LENGTH)).sharding_filter().filter(is_number).take(50).fullsync(60),
    "laps": lambda: IterableWrapper(range(LENGTH)).sharding_filter().cycle(2).fullsync(60),
    "repeated": lambda: IterableWrapper(range(LENGTH)).sharding_filter().fullsync(60, uneven="repeat"),
}

UNEVEN = {"a known length", "an unknown length", "at most so many"}
"""The graphs of these in which the first rank has one element more than the other, and drops it."""


def is_number(element: object) -> bool:
    return isinstance(element, int)


@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_ranks_are_kept_in_step_by_a_stage(loader: Callable[..., Any]) -> None:
    def epochs(rank: int) -> list[list[list[Any]]]:
        torch.manual_seed(rank)
        return [[list(loader(build(), batch_size=None)) for _ in range(2)] for build in IN_STEP.values()]

    for name, ours, others in zip(IN_STEP, *on_ranks(WORLD, epochs), strict=True):
        for mine, other in zip(ours, others, strict=True):
            assert len(mine) == len(other), name
            there = [set(np.hstack(part)) for part in (mine, other)]
            assert not there[0] & there[1], name
            assert len(there[0] | there[1]) == LENGTH - (name in UNEVEN), name


def test_workers_that_are_spawned_are_told_their_rank() -> None:
    def part(rank: int) -> list[Any]:
        torch.manual_seed(rank)
        mine: Any = DataLoader(numbered(), None, num_workers=1, multiprocessing_context="spawn")
        return [tuple(map(int, pair)) for pair in mine]

    together = sorted(chain(*on_ranks(WORLD, part, seconds=500)))
    assert [number for number, _ in together] == list(range(LENGTH))
    assert sorted(element for _, element in together) == list(range(LENGTH))


@pytest.mark.parametrize("num_workers", [0, 3])
def test_the_parts_are_those_of_torchs_own_pipes(num_workers: int) -> None:
    def part(rank: int) -> tuple[list[int], list[int]]:
        pipes: list[Any] = [IterableWrapper(range(LENGTH)), TorchIterableWrapper(range(LENGTH))]
        ours, torchs = (list(DataLoader(p.sharding_filter(), None, num_workers=num_workers)) for p in pipes)
        return ours, torchs

    for rank, (ours, torchs) in enumerate(on_ranks(WORLD, part)):
        assert ours == torchs == list(range(rank, LENGTH, WORLD))


def test_persistent_workers_agree_for_all_epochs() -> None:
    def epochs(rank: int) -> list[list[Any]]:
        torch.manual_seed(rank)
        loader: Any = DataLoader(numbered(), None, num_workers=2, persistent_workers=True, collate_fn=tuple)
        return [list(loader) for _ in range(3)]

    orders = [sorted(chain(*parts)) for parts in zip(*on_ranks(WORLD, epochs), strict=True)]
    assert all([number for number, _ in order] == list(range(LENGTH)) for order in orders)
    assert orders[0] != orders[1] != orders[2]


@workers
def test_a_stateful_loader_goes_on_where_the_rank_was(num_workers: int) -> None:
    def part(rank: int) -> bool:
        torch.manual_seed(rank)
        loader: Any = StatefulDataLoader(numbered(), batch_size=None, num_workers=num_workers)
        elements = iter(loader)
        for _ in range(4):
            next(elements)
        state = loader.state_dict()
        rest = list(elements)
        again: Any = StatefulDataLoader(numbered(), batch_size=None, num_workers=num_workers)
        again.load_state_dict(state)
        return list(again) == rest

    assert on_ranks(WORLD, part) == [True, True]


def test_a_shard_of_the_rank_that_somebody_has_set_is_kept() -> None:
    def part(rank: int) -> list[list[int]]:
        pipe = IterableWrapper(range(LENGTH)).sharding_filter()
        apply_sharding(pipe, WORLD, rank, SHARDING_PRIORITIES.DISTRIBUTED)
        return [sorted(DataLoader(pipe, None, num_workers=number)) for number in (0, 2)]

    for parts in zip(*on_ranks(WORLD, part), strict=True):
        assert sorted(chain(*parts)) == list(range(LENGTH))


def test_what_is_iterated_directly_or_besides_is_whole() -> None:
    def counts(rank: int) -> tuple[int, set[int]]:
        besides = numbered()
        pipe = IterableWrapper(range(4)).sharding_filter().map(lambda x: len(list(besides)))
        return len(list(besides)), set(DataLoader(pipe, batch_size=None))

    assert on_ranks(WORLD, counts) == [(LENGTH, {LENGTH})] * WORLD


@workers
def test_without_a_sharding_filter_rank_0_warns(num_workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    def part(rank: int) -> list[int]:
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *where, **how: print(message, file=sys.__stderr__, flush=True)
        return sorted(DataLoader(IterableWrapper(range(3)), None, num_workers=num_workers))

    times = max(num_workers, 1)
    assert on_ranks(WORLD, part) == [sorted([0, 1, 2] * times)] * WORLD
    said = capfd.readouterr().err
    givers = "each of the 2 workers of each of the 2 ranks" if num_workers else "each of the 2 ranks"
    assert said.count(f"has no sharding_filter(): {givers} gives all of it") == 1


def test_a_rank_that_waits_for_an_epoch_of_rank_0_has_an_end() -> None:
    def part(rank: int) -> str:
        if rank == 0:
            return ""
        dist.distributed_c10d._get_default_store().set_timeout(timedelta(seconds=1))
        assert ranks().timeout == 1
        with pytest.raises(RanksDiffer, match="rank 1 has waited 1 s for the seed of rank 0") as caught:
            iter(DataLoader(numbered(), batch_size=None))
        return str(caught.value)

    assert "has not begun its epoch number 1 of IterableWrapper .shuffle()" in on_ranks(WORLD, part)[1]


def test_ranks_without_a_store_that_others_reach_are_told_how_to_meet() -> None:
    with pytest.raises(GraphError, match="make the group with init_method="):
        RankInfo(0, WORLD, None).shared("a graph", "no worker", 1)


def wait_until_rank_1_waits() -> Any:
    """The store, once the only worker of rank 1 has asked for the seed of rank 0 in it."""
    store = ranks()._connected()
    graph = blake2b(on_any_machine(numbered()).encode(), digest_size=8).hexdigest()
    store.wait([f"{graph}/worker 0 of 1/asked by rank 1"], timedelta(seconds=500))
    return store


def tell_number(worker: int) -> None:
    ranks()._connected().set("worker", str(os.getpid()))


@pytest.mark.parametrize("method", ["fork", "forkserver"])  # whose parent is the rank, and is not
def test_a_worker_that_waits_for_rank_0_ends_with_its_own_rank(method: str) -> None:
    def part(rank: int) -> bool:
        if rank == 1:
            ranks()._connected().set("rank", str(os.getpid()))
            how: Any = {"num_workers": 1, "worker_init_fn": tell_number, "multiprocessing_context": method}
            next(iter(DataLoader(numbered(), None, **how)))
        store = wait_until_rank_1_waits()
        worker = os.pidfd_open(int(store.get("worker")))
        os.kill(int(store.get("rank")), signal.SIGKILL)
        ended = select.poll()
        ended.register(worker, select.POLLIN)
        if not (has_ended := bool(ended.poll(300_000))):
            signal.pidfd_send_signal(worker, signal.SIGKILL)
        os.close(worker)
        return has_ended

    assert on_ranks(WORLD, part, seconds=500, dying=frozenset({1})) == [True]


def test_a_worker_that_waits_for_rank_0_is_told_when_that_has_died_with_the_store() -> None:
    def part(rank: int) -> str:
        by_file = ranks()._connected()
        dist.destroy_process_group()
        port = 0 if rank == 0 else int(by_file.get("port"))
        stores: Any = dist  # which does not say that it exports its stores
        tcp = stores.TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False)
        by_file.set("port", str(tcp.port))
        dist.init_process_group("gloo", store=tcp, rank=rank, world_size=WORLD)
        if rank == 0:
            wait_until_rank_1_waits()
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RankDied) as caught:
            next(iter(DataLoader(numbered(), None, num_workers=1)))
        return str(caught.value)

    (said,) = on_ranks(WORLD, part, dying=frozenset({0}))
    assert "rank 1 cannot reach the store of its process group" in said


class AsksForItsRank(IterDataPipe[int]):
    """Takes its part of the elements by its rank, as many users' classes do."""

    def __iter__(self) -> Iterator[int]:
        yield from range(dist.get_rank(), 6, 2)


@pytest.mark.parametrize("load", [list, lambda pipe: list(DataLoader2(pipe))])
def test_a_group_that_is_not_there_is_not_met(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of users say that there is a process group, where there is none."""
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_rank", lambda group=None: 1)
    assert ranks() == RankInfo()
    assert load(AsksForItsRank()) == [1, 3, 5]
    assert load(AsksForItsRank().map(str)) == ["1", "3", "5"]
