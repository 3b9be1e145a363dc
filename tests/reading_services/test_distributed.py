"""Ranks end together, whatever they have: on real process groups, and against what one process would give."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
import torch.distributed as dist

from datapipes.errors import GraphError
from datapipes.graph import Pipe
from datapipes.iter import FullSync, IterableWrapper
from loader2 import DataLoader2
from reading_services import (
    PADDING,
    DistributedReadingService,
    MultiProcessingReadingService,
    RanksDiffer,
    SequentialReadingService,
    UnevenRanks,
)
from tests.many_ranks import on_ranks


def loader(graph: Pipe, **options: Any) -> DataLoader2[Any]:
    return DataLoader2(graph, reading_service=DistributedReadingService(20, **options))


def is_kept(x: int) -> bool:
    return x % 5 != 0 or x < 6


def known(elements: int) -> Pipe:
    return IterableWrapper(range(elements)).shuffle().sharding_filter()


def unknown(elements: int) -> Pipe:
    return IterableWrapper(range(elements)).sharding_filter().filter(is_kept)


def own(counts: list[int], rank: int, length_is_known: bool) -> Pipe:
    """Of each rank as many elements as it is told."""
    graph = IterableWrapper(range(100 * rank, 100 * rank + counts[rank]))
    return graph if length_is_known else graph.filter(is_any)


def is_any(x: int) -> bool:
    return True


@pytest.mark.parametrize("graph", [known, unknown])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_the_seed_of_rank_0_and_drop_what_is_over(world: int, graph: Callable[[int], Pipe]) -> None:
    def run(rank: int) -> Any:
        torch.manual_seed(rank)
        dl = loader(graph(31))
        epochs = [list(dl) for _ in range(2)]
        if rank == 0:
            dl.seed(7)
        epochs.append(list(dl))
        seeds = dl.state_dict()["seed"], dl.state_dict()["epoch"]
        dropped = dl.reading_service.dropped  # type: ignore[union-attr]  # it is there
        dl.shutdown()
        return epochs, seeds, dropped

    ranks = on_ranks(world, run)
    for epoch in range(3):
        shards = [epochs[epoch] for epochs, *_ in ranks]
        assert len({len(shard) for shard in shards}) == 1
        whole = [x for shard in shards for x in shard]
        assert len(set(whole)) == len(whole) > 31 - world - 9
    assert {seeds for _, seeds, _ in ranks} == {(7, 0)}
    if graph is known:
        with DataLoader2(known(31)) as alone:
            alone.seed(7)
            expected = list(alone)
        for rank, (epochs, _, dropped) in enumerate(ranks):
            assert epochs[2] == expected[rank::world][: 31 // world]
            assert dropped == len(expected[rank::world]) - 31 // world
        assert ranks[0][0][0] != ranks[0][0][1]


def test_pinned_orders_follow_the_number_of_the_epoch_on_rank_0() -> None:
    def graph() -> Pipe:
        return IterableWrapper(range(12)).shuffle().set_seed(1).sharding_filter()

    def run(rank: int) -> Any:
        dl = loader(graph())
        if rank == 0:
            dl.set_epoch(1)  # the other rank counts from 0
        epochs = []
        for seed in range(3):
            dl.seed(seed)
            begun = list(islice(iter(dl), 2))
            state = dl.state_dict()
            dl.shutdown()
            dl = loader(graph())
            dl.load_state_dict(state)
            epochs.append(begun + list(dl))
        dl.shutdown()
        return epochs, dl.epoch

    with DataLoader2(graph()) as alone:
        expected = [list(alone) for _ in range(4)][1:]
    for rank, found in enumerate(on_ranks(2, run)):
        assert found == ([epoch[rank::2] for epoch in expected], 3)


@pytest.mark.parametrize("length_is_known", [True, False])
@pytest.mark.parametrize("counts", [[3, 3, 1], [1, 2000]])
def test_uneven_ranks(counts: list[int], length_is_known: bool) -> None:
    def run(rank: int) -> Any:
        results: dict[str, Any] = {}
        for uneven in ("drop", "pad", "repeat", "error"):
            graph = own(counts, rank, length_is_known).fullsync(20, uneven=uneven)
            taken: list[Any] = []
            try:
                taken.extend(graph)
            except RuntimeError as error:
                taken.append(f"{type(error).__name__}: {error}")
            results[uneven] = taken
        return results

    ranks = on_ranks(len(counts), run)
    for rank, got in enumerate(ranks):
        mine = list(range(100 * rank, 100 * rank + counts[rank]))
        assert got["drop"] == mine[: min(counts)]
        assert got["pad"] == mine + [PADDING] * (max(counts) - len(mine))
        assert got["repeat"] == [mine[i % len(mine)] for i in range(max(counts))]
        assert got["error"][:-1] == mine[: min(counts)]
        message = got["error"][-1]
        assert message.startswith(UnevenRanks.__name__)
        assert f"rank {counts.index(min(counts))} has {min(counts)}" in message


@pytest.mark.parametrize("uneven", ["drop", "pad", "repeat"])
@pytest.mark.parametrize("length_is_known", [True, False])
def test_resume_at_every_position(length_is_known: bool, uneven: Any) -> None:
    def run(rank: int) -> bool:
        graph = own([9, 7], rank, length_is_known).shuffle(buffer_size=4)
        dl = loader(graph, uneven=uneven)
        dl.seed(3)
        iterator, states = iter(dl), [dl.state_dict()]
        elements = []
        for element in iterator:
            elements.append(element)
            states.append(dl.state_dict())
        dl.shutdown()
        for taken in range(0, len(states), max(1, len(states) // 9)):
            again = loader(graph, uneven=uneven)
            again.load_state_dict(states[taken])
            assert again.state_dict() == states[taken]
            assert list(again) == elements[taken:], (uneven, taken)
            again.shutdown()
        return True

    assert all(on_ranks(2, run))


def test_states_of_different_steps_are_found_out() -> None:
    def run(rank: int) -> str:
        dl = loader(known(20))
        dl.seed(1)
        states = [dl.state_dict() for _ in islice(dl, 5)]
        dl.shutdown()
        again = loader(known(20))
        again.load_state_dict(states[2 + rank])
        with pytest.raises(RanksDiffer) as found:
            next(iter(again))
        again.shutdown()
        return str(found.value)

    for message in on_ranks(2, run):
        assert "rank 0 has handed on 3, rank 1 4" in message


def test_the_users_own_collectives_are_not_disturbed() -> None:
    def run(rank: int) -> list[int]:
        sums = []
        with loader(unknown(200)) as dl:
            for _ in range(2):
                for x in dl:
                    total = torch.tensor(x)
                    dist.all_reduce(total)
                    sums.append(int(total))
        return sums

    first, second = on_ranks(2, run)
    assert first == second
    assert len(first) > 100


def test_break_on_all_ranks_and_the_next_epoch() -> None:
    def run(rank: int) -> list[int]:
        lengths = []
        with loader(known(1000)) as dl, loader(unknown(1000)) as other:
            for take in (3, 0, 500, 1, None):
                lengths.append(len(list(islice(dl, take))))
                lengths.append(len(list(islice(other, take))))
        return lengths

    first, second = on_ranks(2, run)
    assert first == second == [3, 3, 0, 0, 500, first[5], 1, 1, 500, first[5]]


def test_a_group_that_is_made_after_the_loader(tmp_path: Any) -> None:
    def run(rank: int) -> Any:
        dist.destroy_process_group()
        dl = loader(known(10))
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/late", rank=rank, world_size=2)
        assert isinstance(dl.reading_service, DistributedReadingService)
        with dl:
            return list(dl), len(dl), type(dl.datapipe) is FullSync

    first, second = on_ranks(2, run)
    assert sorted(first[0] + second[0]) == list(range(10))
    assert first[1:] == second[1:] == (5, True)


def test_a_fullsync_of_the_users_is_the_only_one() -> None:
    def run(rank: int) -> Any:
        with loader(known(11).fullsync(20, uneven="pad")) as dl:
            elements = list(dl)
            return elements, repr(dl.datapipe).count("fullsync")

    first, second = on_ranks(2, run)
    assert first[1] == second[1] == 1
    assert len(first[0]) == len(second[0]) == 6
    assert second[0][-1] is PADDING


def test_a_fullsync_in_the_middle_is_refused_when_the_loader_is_made() -> None:
    for graph in (known(11).fullsync(20).batch(2), known(11).fullsync().fullsync(), known(3).zip(known(3).fullsync())):
        with pytest.raises(GraphError, match=r"fullsync\(.*\) is in the middle .* leave this one out, or put it last"):
            loader(graph)
        with pytest.raises(GraphError, match="in the middle of the graph"):
            DataLoader2(
                graph,
                reading_service=SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(1)),
            )
    DataLoader2(known(11).fullsync(20).batch(2)).shutdown()


def test_what_moves_to_a_device_stays_last() -> None:
    def graphs() -> list[Pipe]:
        tensors = unknown(40).batch(2).collate()
        return [tensors.to_device("cpu"), tensors.fullsync(20).to_device("cpu").to_device("cpu")]

    def run(rank: int) -> Any:
        printed, rests = [], []
        for number in range(2):
            dl = loader(graphs()[number])
            dl.seed(1)
            batches, states = [], []
            for batch in dl:
                batches.append(batch.tolist())
                states.append(dl.state_dict())
            printed.append(repr(dl.datapipe))
            dl.shutdown()
            with loader(graphs()[number]) as again:
                again.load_state_dict(states[3])
                rests.append([batch.tolist() for batch in again] == batches[4:])
        return printed, rests, len(batches)

    first, second = on_ranks(2, run)
    assert first[1:] == second[1:] == ([True, True], first[2])
    for text in first[0]:
        assert text.count("fullsync") == 1
        assert ".fullsync(timeout=20).to_device('cpu')" in text.replace("device=", "")


def test_no_group_is_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    with loader(known(5)) as dl:
        assert sorted(dl) == [0, 1, 2, 3, 4]
        assert len(dl) == 5
    assert list(IterableWrapper(range(3)).fullsync()) == [0, 1, 2]
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match="required to be initialized"):
        list(loader(known(5)))


def test_arguments() -> None:
    with pytest.raises(ValueError, match="more than 0"):
        DistributedReadingService(0)
    with pytest.raises(ValueError, match="expected one of 'drop', 'pad', 'repeat', 'error'"):
        DistributedReadingService(uneven="skip")  # type: ignore[arg-type]  # it is wrong
    with pytest.raises(ValueError, match=r"in \.fullsync\(uneven='skip'\)"):
        IterableWrapper([1]).fullsync(uneven="skip")  # type: ignore[arg-type]  # it is wrong
